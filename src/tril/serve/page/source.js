// The text field. Behind it lies a mirror, the same text in the same letters but transparent, whose
// words can be marked and pointed at; the mirror also makes the field as tall as its text.
import {byId, make} from "./dom.js";

export class Source {
  // `typed()` after each change by the user; `point(i)` when the pointer or the caret comes to word
  // i of the last shown, and `point(null)` when it leaves.
  constructor({typed, point}) {
    this.field = byId("text");
    this.mirror = byId("mirror");
    this.words = [];
    this.pointed = null;
    this.point_ = (i) => {
      if (i === this.pointed) return;
      this.pointed = i;
      point(i);
    };
    this.field.addEventListener("input", () => {
      this.showPlain_();
      typed();
    });
    this.field.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") this.point_(this.wordAt_(event) ?? this.atCaret_());
    });
    this.field.addEventListener("pointerleave", () => this.point_(this.atCaret_()));
    this.field.addEventListener("blur", () => this.point_(null));
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === this.field) this.point_(this.atCaret_());
    });
    this.showPlain_();
  }

  get text() {
    return this.field.value;
  }
  set text(value) {
    this.field.value = value;
    this.showPlain_();
  }
  set lang(tag) {
    this.field.lang = this.mirror.lang = tag;
  }

  // The words of the text, each {text, from, to}, if the field still holds the text they are from.
  showWords(given, words) {
    if (given !== this.text) return;
    this.words = words;
    const parts = [];
    let at = 0;
    for (const {from, to} of words) {
      parts.push(given.slice(at, from), make("span", {class: "word"}, given.slice(from, to)));
      at = to;
    }
    this.fillMirror_(...parts, given.slice(at));
    this.pointed = null;
  }
  mark(numbers) {
    for (const [i, span] of [...this.mirror.querySelectorAll(".word")].entries())
      span.classList.toggle("linked", numbers.has(i));
  }

  showPlain_() {
    this.words = [];
    this.point_(null);
    this.fillMirror_(this.text);
    const letters = this.text.length;
    document.documentElement.dataset.length = letters > 400 ? "long" :
        letters > 120                                       ? "medium" :
                                                              "short";
  }
  // A last line without letters has a height only if something follows it.
  fillMirror_(...parts) {
    this.mirror.replaceChildren(...parts, "\u200b");
  }
  wordAt_({clientX, clientY}) {
    const spans = [...this.mirror.querySelectorAll(".word")];
    const under = document.elementsFromPoint(clientX, clientY).find((one) => spans.includes(one));
    return under ? spans.indexOf(under) : null;
  }
  // Not where text is selected, or while the caret merely stands at the end.
  atCaret_() {
    const {selectionStart: at, selectionEnd: end} = this.field;
    if (document.activeElement !== this.field || at !== end || at === this.text.length) return null;
    const found = this.words.findIndex(({from, to}) => from <= at && at <= to);
    return found < 0 ? null : found;
  }
}
