// The translation: streamed as plain text, then word by word. With the mouse each word can be
// pointed at. For the keyboard all of them are one stop, within which the arrow keys move.
import {byId, make} from "./dom.js";
import {levelOf} from "./words.js";

export class Result {
  // `point(i, by)` when word i is pointed at, `by` "pointer" or "keyboard"; i is null when none is.
  constructor({point}) {
    this.box = byId("result");
    this.words = [];
    this.spans = [];
    this.kept = null;  // a word that was clicked, or reached by keyboard
    this.point_ = point;
    this.box.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "mouse") return;
      const i = this.spans.indexOf(event.target);
      if (i >= 0) this.point_(i, "pointer");
    });
    this.box.addEventListener("pointerleave", () => this.point_(this.kept, "pointer"));
    this.box.addEventListener("click", (event) => {
      const i = this.spans.indexOf(event.target);
      this.keep_(i < 0 || i === this.kept ? null : i, "pointer");
    });
    this.box.addEventListener("focus", () => {
      if (this.kept === null && this.box.matches(":focus-visible")) this.keep_(0, "keyboard");
    });
    this.box.addEventListener("blur", () => this.keep_(null, "pointer"));
    this.box.addEventListener("keydown", (event) => this.key_(event));
  }

  set lang(tag) {
    this.box.lang = tag;
  }

  showNothing(words, more) {
    this.lang = "en";
    this.plain_(make("span", {class: "hint"}, words, make("span", {class: "hint-more"}, more)));
  }
  // What is already certain while the rest is being decoded. `given` is the text it continues.
  showPartial(text, given = "") {
    this.plain_(
        given === "" ? null : make("span", {class: "given"}, given), text,
        make("span", {class: "caret"}));
    this.box.setAttribute("aria-busy", "true");
  }
  // The result before this one, while another is on its way.
  showStale() {
    this.box.classList.add("stale");
    this.box.setAttribute("aria-busy", "true");
  }
  // `reading` as words.js makes it.
  showWords({text, words, given = ""}, lang) {
    const parts = given === "" ? [] : [make("span", {class: "given"}, given)];
    this.plain_();
    this.words = words;
    this.spans = [];
    let at = 0;
    for (const word of words) {
      const span =
          make("span", {class: `word ${levelOf(word.chance)}`}, text.slice(word.from, word.to));
      parts.push(text.slice(at, word.from), span);
      this.spans.push(span);
      at = word.to;
    }
    this.lang = lang;
    this.box.replaceChildren(...parts, text.slice(at));
    if (words.length === 0) return;
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-label", "The result; arrow keys go from word to word");
  }
  mark(numbers, current) {
    for (const [i, span] of this.spans.entries()) {
      span.classList.toggle("linked", numbers.has(i));
      span.classList.toggle("current", i === current);
    }
  }

  plain_(...parts) {
    this.words = [];
    this.spans = [];
    this.kept = null;
    this.box.classList.remove("stale");
    for (const name of ["aria-busy", "tabindex", "role", "aria-label"])
      this.box.removeAttribute(name);
    this.box.replaceChildren(...parts.filter((part) => part !== null && part !== undefined));
  }
  keep_(i, by) {
    if (i !== null && i >= this.words.length) return;
    this.kept = i;
    this.point_(i, by);
  }
  key_(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const last = this.words.length - 1;
    const now = this.kept ?? -1;
    const onward = getComputedStyle(this.box).direction === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: now + onward,
      ArrowLeft: now - onward,
      ArrowDown: now + 1,
      ArrowUp: now - 1,
      Home: 0,
      End: last,
      Escape: null
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.keep_(to === null ? null : Math.min(last, Math.max(0, to)), "keyboard");
  }
}
