// The few DOM helpers of the page. Text is inserted as text nodes only: nothing a user wrote is
// ever parsed as HTML.
import {displayOf, languageOf} from "./text.js";

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

// A user's text, isolated from the direction of the surrounding text.
export function userText(text, properties = {}) {
  return make("bdi", {dir: "auto", lang: languageOf(text), ...properties}, text);
}

// A token: a bdi whose class gives its kind.
export function tokenText(label, properties = {}) {
  const text = displayOf(label);
  return userText(text, {class: `token ${label.kind}`, title: text, ...properties});
}

// Scrolls a box sideways, if necessary, so that [left, right) of its contents is visible: to the
// right of the first `covered` pixels, where something is fixed.
export function scrollInside(box, left, right, covered = 0) {
  // Reading its scroll position would lay out something invisible.
  if (!box.checkVisibility({contentVisibilityAuto: true})) return;
  if (left < box.scrollLeft + covered || right > box.scrollLeft + box.clientWidth)
    box.scrollLeft = Math.max(0, left - covered - 40);
}

// Tells the style whether there is more to scroll to, and calls `appear` when the box comes into
// view.
export function watchScrolling(box, appear) {
  const tell = () =>
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener("scroll", tell, {passive: true});
  new ResizeObserver(tell).observe(box);
  box.closest(".block").addEventListener("contentvisibilityautostatechange", (event) => {
    if (event.skipped) return;
    tell();
    appear();
  });
}
