// Which model, from which language to which: the controls above the text, and what depends on them.
import {byId, make, show} from "./dom.js";
import {beginnings, examplesFor} from "./examples.js";
import {kAuto, nameOf, pick, reverseOf, sourcesOf, tagOf, targetsOf} from "./languages.js";

export class Choosing {
  // `changed()` when the user chose; `swapped(reverse)`, as reverseOf() gives it, when the button
  // was used; `example(text)` when a sentence to try was taken.
  constructor({changed, swapped, example}) {
    this.models_ = [];
    this.model = null;
    this.detected_ = "";
    this.example_ = example;
    byId("model").addEventListener("change", () => {
      const model = this.models_.find(({id}) => id === byId("model").value);
      this.set(model, {source: this.source, target: this.target});
      changed();
    });
    for (const id of ["source", "target"]) {
      byId(id).addEventListener("change", () => {
        this.show_();
        changed();
      });
    }
    byId("swap").addEventListener("click", () => swapped(this.reverse_()));
  }

  offer(models) {
    this.models_ = models;
    byId("model").replaceChildren(...models.map(({id}) => make("option", {value: id}, id)));
    byId("model").disabled = models.length < 2;
  }
  find(id) {
    return this.models_.find((model) => model.id === id) ?? this.models_[0];
  }

  // As codes of the model; "" where it has none.
  get source() {
    return byId("source").value;
  }
  get target() {
    return byId("target").value;
  }
  // The language of the text: chosen, or detected by the last answer; "" where it is not known.
  get from() {
    return this.source === kAuto ? this.detected_ : this.source;
  }
  get continues() {
    return this.model.kind === "decoder-only";
  }
  // For the address.
  get state() {
    const model = this.models_.length > 1 ? this.model.id : "";
    return {model, source: this.source, target: this.target};
  }

  set(model, wanted) {
    this.model = model;
    byId("model").value = model.id;
    this.list_(
        "source", sourcesOf(model), pick(sourcesOf(model), wanted.source, model.default_source));
    this.list_(
        "target", targetsOf(model), pick(targetsOf(model), wanted.target, model.default_target));
    const known = this.source !== "" && this.target !== "";
    show("languages", known && !this.continues);
    this.show_();
  }
  // What the server says the language of the text is; "": nothing.
  detect(code) {
    this.detected_ = code;
    byId("swap").disabled = this.reverse_() === null;
  }

  list_(id, codes, chosen) {
    const names = this.model.language_names;
    byId(id).replaceChildren(
        ...codes.map((code) => make("option", {value: code}, nameOf(code, names))));
    byId(id).value = chosen;
    byId(id).disabled = codes.length < 2;
  }
  reverse_() {
    return reverseOf(this.models_, this.model, this.from, this.target);
  }
  show_() {
    this.detect("");
    const one = ({text, lang}) => make(
        "button",
        {type: "button", class: "example", lang, dir: "auto", onclick: () => this.example_(text)},
        text);
    const tags = this.source === kAuto ? this.model.source_languages.map(tagOf) : [];
    const examples = this.continues ? beginnings() : examplesFor({tag: tagOf(this.source), tags});
    byId("examples").replaceChildren(...examples.map(one));
  }
}
