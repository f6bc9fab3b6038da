// The page's own words, in the chosen language. Text of users and models is not here.
//
// A table has one template per key. {name} is a placeholder for a value, `this` is set as code. A
// template that depends on its values (one or many) is a function of them.
import {kEnglish} from "./words_en.js";
import {kHindi} from "./words_hi.js";

const kTables = {
  en: kEnglish,
  hi: kHindi
};
let language = "en";

export function chooseLanguage(name) {
  language = name in kTables ? name : "en";
  document.documentElement.lang = language;
}

function templateOf(key, values) {
  const entry = kTables[language][key] ?? kEnglish[key];
  if (entry === undefined) throw new Error(`no words for ${key}`);
  return typeof entry === "function" ? entry(values) : entry;
}

// As text.
export function say(key, values = {}) {
  return templateOf(key, values).replace(/`/g, "").replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// As texts and nodes, for append(); values may be nodes.
export function sayNodes(key, values = {}) {
  return templateOf(key, values)
      .split(/(\{\w+\}|`[^`]+`)/)
      .filter((part) => part !== "")
      .map((part) => {
        if (part.startsWith("{")) return values[part.slice(1, -1)];
        if (!part.startsWith("`")) return part;
        const code = document.createElement("code");
        code.textContent = part.slice(1, -1);
        return code;
      });
}

// Fills in the texts of the HTML itself.
export function sayAll(root) {
  for (const element of root.querySelectorAll("[data-say]"))
    element.replaceChildren(...sayNodes(element.dataset.say));
  for (const element of root.querySelectorAll("[data-say-label]"))
    element.setAttribute("aria-label", say(element.dataset.sayLabel));
}
