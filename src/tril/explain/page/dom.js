// The few calls the page is built with. Text goes in as text nodes only: nothing a user wrote is
// ever read as HTML.
import {languageOf} from "./text.js";

// make("p", { class: "note" }, "text", node, ...). Properties that start with "on" are listeners.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  return dress(element, properties, children);
}

export function makeSvg(name, properties = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

function dress(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on"))
      element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null)
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// A user's text, kept apart from the direction of what stands around it.
export function userText(text, properties = {}) {
  return make("bdi", {dir: "auto", lang: languageOf(text), ...properties}, text);
}

// A token: a bdi whose class says what it is.
export function tokenText(label, properties = {}) {
  const joined = label.joined && label.kind === "piece" ? " joined" : "";
  return userText(
      label.text, {class: `token ${label.kind}${joined}`, title: label.text, ...properties});
}
