// What is said about a result: the line below it, the table of its words, the other hypotheses.
import {byId, fill, make, quoted, show} from "./dom.js";
import {differences, kLevels, levelOf, percent} from "./words.js";

function sample(level) {
  return make("span", {class: `word ${level} sample`, "aria-hidden": "true"}, "abc");
}

// What the underlines mean, and that more can be seen.
function legend(words) {
  const levels =
      ["fair", "unsure"].filter((level) => words.some((word) => levelOf(word.chance) === level));
  const keys = levels.map(
      (level) => make(
          "span", {class: "key"}, sample(level),
          level === "fair" ? "less sure, below 80%" : "unsure, below 50%"));
  return [...keys, make("span", {}, "Point at a word, or go through them with the arrow keys.")];
}

// The line below the result: about one word, about a word of the source, or the legend.
export function describe({reading, target, source, langs}) {
  const {words, sources} = reading;
  if (target !== null) {
    const {text, chance, source: from} = words[target];
    const sure = Number.isNaN(chance) ?
        null :
        make("span", {}, make("b", {}, percent(chance)), ` ${kLevels[levelOf(chance)]}`);
    const origin =
        from < 0 ? null : make("span", {}, "from ", quoted(sources[from].text, langs.source));
    fill("readout", quoted(text, langs.target), sure, origin);
  } else if (source !== null) {
    const to =
        words.filter((word) => word.source === source).map(({text}) => quoted(text, langs.target));
    const parts = to.length > 0 ? to.flatMap((one, i) => i === 0 ? [one] : [" ", one]) :
                                  ["no word of the translation"];
    fill(
        "readout", quoted(sources[source].text, langs.source),
        make("span", {}, to.length > 0 ? "became " : "", ...parts));
  } else if (words.length > 0) {
    fill("readout", ...legend(words));
  } else {
    fill("readout");
  }
}

function piecesCell({pieces}) {
  const cells = pieces.flatMap(
      ({text, logProb}, i) =>
          [i === 0 ? null : " ",
           make(
               "span", {class: "piece"}, make("bdi", {}, text), ` ${percent(Math.exp(logProb))}`)]);
  return make("td", {}, ...(pieces.length > 1 ? cells : ["one"]));
}

// The same as the underlines and the marks, as a table.
export function tabulate({words, sources}, langs) {
  const aligned = words.some(({source}) => source >= 0);
  show("table", words.length > 0);
  show("table-from", aligned);
  const row = (word) => make(
      "tr", {}, make("th", {scope: "row"}, quoted(word.text, langs.target)),
      make(
          "td", {class: "number"}, percent(word.chance),
          make(
              "span", {class: `level ${levelOf(word.chance)}`},
              ` ${kLevels[levelOf(word.chance)]}`)),
      piecesCell(word),
      aligned ?
          make("td", {}, word.source < 0 ? "–" : quoted(sources[word.source].text, langs.source)) :
          null);
  byId("table-body").replaceChildren(...words.map(row));
}

// How likely a hypothesis is beside the first one: the ratio of their probabilities. Only known for
// a text that was translated as one.
function ratio(translation, choice) {
  const [unit, ...others] = translation.sentences ?? [];
  const [first, one] = [unit?.hypotheses[0]?.score, unit?.hypotheses[choice]?.score];
  if (others.length > 0 || first === undefined || one === undefined || choice === 0) return "";
  const times = Math.exp(one - first);
  return times < 0.01 ? "< 0.01×" : `${times.toPrecision(2)}×`;
}

// The hypotheses to choose from, each with what differs from the first in bold.
export function offer(translation, {chosen, lang, sampled}, choose) {
  const texts = [translation.text, ...(translation.alternatives ?? [])];
  show("alternatives", texts.length > 1);
  const line = (text, i) => {
    const words = differences(texts[0], text)
                      .map((part) => part.differs ? make("b", {}, part.text) : part.text);
    return make(
        "label", {class: "choice"}, make("input", {
          type: "radio",
          name: "choice",
          value: i,
          checked: i === chosen,
          onchange: () => choose(i)
        }),
        make(
            "span", {dir: "auto", lang: lang || null, class: "text"},
            ...(i === 0 ? [text] : words)),
        make(
            "span", {class: "note"},
            i === 0     ? sampled ? "" : "best" :
                sampled ? "" :
                          ratio(translation, i)));
  };
  byId("choices").replaceChildren(...texts.map(line));
  const compared = texts.some((_, i) => ratio(translation, i) !== "") && !sampled;
  fill(
      "choices-words",
      compared ?
          "× says how likely a text is to the model beside the best one. The search prefers texts that are likely for their length." :
          "");
}
