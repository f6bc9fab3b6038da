// The settings that go with a request, as fields built from a table.
import {byId, make} from "./dom.js";

const kUsual = "";  // the model's own
const kFields = [
  {
    name: "n_best",
    kinds: ["encoder-decoder", "decoder-only"],
    label: "Texts to choose from",
    options: ["1", "2", "3", "5"],
    value: "3"
  },
  {
    name: "beam",
    kinds: ["encoder-decoder", "decoder-only"],
    label: "Beam",
    options: [kUsual, "1", "2", "4", "5", "8"],
    value: kUsual,
    help:
        "How many hypotheses the search keeps at each step; 1 takes the likeliest token each time."
  },
  {
    name: "prefix",
    kinds: ["encoder-decoder"],
    label: "The translation begins with",
    type: "text",
    value: "",
    help: "The model has to go on from these words. For a single line of text."
  },
  {
    name: "max_tokens",
    kinds: ["decoder-only"],
    label: "Tokens at most",
    type: "number",
    min: "1",
    max: "1000",
    value: "40"
  },
  {
    name: "sample",
    kinds: ["decoder-only"],
    label: "Draw each token at random",
    type: "checkbox",
    value: false,
    help: "By its probability, instead of searching for the likeliest text."
  },
  {
    name: "temperature",
    kinds: ["decoder-only"],
    label: "Temperature",
    type: "number",
    min: "0.1",
    max: "2",
    step: "0.1",
    value: "1",
    help: "For drawing: below 1 likely tokens become likelier still."
  },
  {
    name: "seed",
    kinds: ["decoder-only"],
    label: "Seed",
    type: "number",
    min: "0",
    max: "999999999",
    value: "1",
    help: "For drawing: the same seed draws the same text again."
  }
];

export class Settings {
  constructor(changed) {
    this.changed_ = changed;
    this.values = Object.fromEntries(kFields.map(({name, value}) => [name, value]));
  }

  // The fields for a kind of model.
  show(kind) {
    this.kind = kind;
    byId("fields").replaceChildren(
        ...kFields.filter(({kinds}) => kinds.includes(kind)).map((field) => this.build_(field)));
    this.showWhich_();
  }
  // Another draw.
  nextSeed() {
    this.values.seed = String(Number(this.values.seed) + 1);
    byId("set-seed").value = this.values.seed;
  }
  get sampling() {
    return this.kind === "decoder-only" && this.values.sample;
  }

  // As fields of a request for a text.
  request(text) {
    const {n_best, beam, prefix, max_tokens, temperature, seed} = this.values;
    const count = Number(n_best);
    const fields = {};
    if (this.kind === "decoder-only") fields.max_tokens = Number(max_tokens) || 40;
    if (this.sampling)
      return {
        ...fields,
        sample: true,
        n_best: count,
        temperature: Number(temperature) || 1,
        seed: Number(seed) || 0
      };
    if (beam !== kUsual) fields.beam = Number(beam);
    // A decoder-only model usually goes on greedily, and then has one text to give.
    const usual = this.kind === "decoder-only" ? 1 : count;
    fields.n_best = beam === kUsual ? usual : Math.min(count, Number(beam));
    const begin = prefix.trim();
    if (this.kind === "encoder-decoder" && begin !== "" && !text.trim().includes("\n"))
      fields.prefix = begin;
    return fields;
  }

  build_({name, label, options, type, value, help, min, max, step}) {
    const id = `set-${name}`;
    const now = this.values[name] ?? value;
    const describedBy = help ? `${id}-help` : null;
    const input = options ? make(
                                "select", {id, "aria-describedby": describedBy},
                                ...options.map(
                                    (one) => make(
                                        "option", {value: one, selected: one === now},
                                        one === kUsual ? "as the model has it" : one))) :
                            make("input", {
                              id,
                              type,
                              min: min ?? null,
                              max: max ?? null,
                              step: step ?? null,
                              dir: type === "text" ? "auto" : null,
                              autocomplete: "off",
                              "aria-describedby": describedBy
                            });
    if (type === "checkbox")
      input.checked = now;
    else
      input.value = now;
    input.addEventListener("input", () => {
      this.values[name] = type === "checkbox" ? input.checked : input.value;
      this.showWhich_();
      this.changed_();
    });
    return make(
        "div", {class: type === "checkbox" ? "field tick" : "field", id: `${id}-field`},
        make("label", {for: id
        }, label), input, help ? make("p", {class: "note", id: `${id}-help`}, help) : null);
  }
  // Those that mean nothing now are disabled.
  showWhich_() {
    for (const name of ["temperature", "seed"]) {
      const input = byId(`set-${name}`);
      if (input) input.disabled = !this.sampling;
    }
    const beam = byId("set-beam");
    if (beam) beam.disabled = this.sampling;
  }
}
