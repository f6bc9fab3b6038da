// One cell, worked out: q·k, ÷ √d, + mask, softmax, × v. In full in a block of its own, and in
// brief next to the player, where it is always visible.
import {byId, make} from "./dom.js";
import {lookWords} from "./matrix.js";
import {fixed, scientific, share, worked} from "./numbers.js";
import {largest, strip} from "./strips.js";
import {displayOf} from "./text.js";
import {say, sayNodes} from "./words.js";

const kNamed = 6;  // bars of so many keys have their tokens below
const inBrackets = (text) => (text.startsWith("−") ? `(${text})` : text);
const bracketed = (value) => inBrackets(fixed(value, 2));

function step(number, title, words, result, ...more) {
  return make(
      "li", {class: "sum-step", "data-step": title},
      make("h3", {}, make("span", {class: "number"}, number), ` ${title}`),
      make("p", {class: "words"}, words), ...more, make("p", {class: "result"}, ...result));
}
const value = (name, text) => make("output", {"data-value": name}, text);

// The largest score is subtracted from every score first, so that no e^x gets too large.
function softmaxLine({score, largest, sum, weight}) {
  const [own, most, all] =
      worked([score, largest, sum], (a, b, c) => Math.exp(a - b) / c, weight, 4);
  return `e^(${own} − ${inBrackets(most)}) ÷ ${all} = `;
}

export class Arithmetic {
  constructor(state, attentions, stepwise, palettes, labels) {
    Object.assign(this, {state, attentions, stepwise, palettes, labels});
    state.listen((now, changed) => {
      if (["kind", "layer", "head", "maskOff", "row", "column", "theme"].some(
              (name) => changed.has(name)))
        this.show(now);
    });
  }

  show(now) {
    const {kind, layer, head, maskOff, row, column} = now;
    const {source, fed, predicted} = this.labels;
    const cell = this.attentions.cell(kind, layer, head, row, column, maskOff);
    const names = {
      rows: kind === "encoder" ? source : fed,
      columns: kind === "masked" ? fed : source,
      ends: kind === "cross" ? predicted : null
    };
    byId("arithmetic-title").replaceChildren(...lookWords(names, row, column));
    byId("arithmetic-place").textContent =
        say(this.stepwise.differs(kind, layer) ? "cell_place_training" : "cell_place",
            {row: row + 1, key: column + 1, layer: layer + 1, head: head + 1});
    byId("arithmetic-steps")
        .replaceChildren(
            this.dot_(cell), this.scale_(cell), this.mask_(cell), this.softmax_(cell, now),
            this.values_(cell));
    byId("arithmetic").classList.toggle("leaking", cell.leaks);
    this.terms_(cell);
    this.brief_(cell, lookWords(names, row, column));
    byId("status").textContent = say(cell.leaks ? "status_leak" : "status", {
      query: displayOf(names.rows[row]),
      key: displayOf(names.columns[column]),
      weight: cell.visible ? share(cell.weight) : say("exactly_zero")
    });
  }

  // Each step and its result, one after the other.
  brief_({dot, scaled, score, visible, leaks, weight, vectors}, words) {
    const {headDim, scale} = this.attentions.model;
    const part = (name, sign, text) => make(
        "span", {class: "brief-step"}, make("span", {class: "sign"}, sign),
        make("output", {"data-brief": name}, text));
    const parts = [
      part("dot", "q · k =", fixed(dot)),
      part("scaled", this.byRoot_() ? `÷ √${headDim} =` : `× ${fixed(scale)} =`, fixed(scaled)),
      part(
          "masked",
          leaks       ? say("mask_is_off") :
              visible ? "+ 0 =" :
                        "+ (−∞) =",
          visible ? fixed(score) : "−∞"),
      part("weight", "softmax =", visible ? fixed(weight, 4) : "0")
    ];
    if (vectors !== null) parts.push(part("context", "Σ w·v =", `${fixed(vectors.context[0])}, …`));
    byId("brief").classList.toggle("leaking", leaks);
    byId("brief").replaceChildren(
        make("span", {class: "brief-words"}, ...words), ...parts,
        make("a", {class: "open", href: "#arithmetic"}, say("work_it_out")));
  }

  dot_({vectors, dot}) {
    const {headDim} = this.attentions.model;
    if (vectors === null) {
      return step("1", "q · k", say("dot_unknown"), [value("dot", fixed(dot))]);
    }
    const {q, k} = vectors;
    const products = [...q].map((x, d) => x * k[d]);
    const few =
        products.slice(0, 2).map((_, d) => `${bracketed(q[d])}·${bracketed(k[d])}`).join(" + ");
    return step(
        "1", "q · k", say("dot_words", {dim: headDim}),
        [make("span", {class: "working"}, `${few} + … = `), value("dot", fixed(dot))],
        strip("q", q, largest(q, k), "query"), strip("k", k, largest(q, k), "key"),
        strip("q·k", products, largest(products), "product"));
  }

  // Scores are divided by the root of d, unless the model has a scale of its own.
  byRoot_() {
    const {headDim, scale} = this.attentions.model;
    return Math.abs(scale * Math.sqrt(headDim) - 1) < 1e-6;
  }

  scale_({dot, scaled, bias, hasBias}) {
    const {headDim, scale} = this.attentions.model;
    const byRoot = this.byRoot_();
    const [score, by] = byRoot ? worked([dot, Math.sqrt(headDim)], (a, b) => a / b, scaled, 3, 3) :
                                 worked([dot, scale], (a, b) => a * b, scaled, 3, 3);
    const parts = [
      make("span", {class: "working"}, `${score} ${byRoot ? "÷" : "×"} ${by} = `),
      value("scaled", fixed(scaled))
    ];
    if (hasBias) {
      const sign = bias > 0 ? 1 : -1;
      const [before, distance] =
          worked([scaled, Math.abs(bias)], (a, b) => a + sign * b, scaled + bias, 3, 3);
      parts.push(
          make(
              "span", {class: "working"},
              ` ${before} ${sign > 0 ? "+" : "−"} ${distance} ${say("for_distance")} = `),
          value("biased", fixed(scaled + bias)));
    }
    return step(
        "2", byRoot ? "÷ √d" : `× ${fixed(scale)}`,
        byRoot ? say("scale_words", {dim: headDim}) : say("own_scale_words", {scale: fixed(scale)}),
        parts);
  }

  mask_({visible, leaks, score}) {
    const words =
        say(leaks       ? "mask_leak_words" :
                visible ? "mask_seen_words" :
                          "mask_hidden_words");
    const added = leaks ? ` ${say("mask_is_off")}` : visible ? " + 0" : " + (−∞)";
    return step("3", "+ mask", words, [
      make("span", {class: "working"}, `${fixed(score)}${added} = `),
      value("masked", visible ? fixed(score) : "−∞")
    ]);
  }

  // All weights of the row, of which this cell's is one.
  softmax_(cell, {kind, column, theme}) {
    const palette = this.palettes[theme];
    const keys = kind === "masked" ? this.labels.fed : this.labels.source;
    const shown = cell.weights.subarray(0, Math.max(cell.hi, column + 1));
    const named = shown.length <= kNamed;
    const most = Math.max(...cell.weights);
    const bars =
        make("div", {class: "row-bars", "aria-hidden": "true"}, ...[...shown].map((weight, j) => {
          const bar = make("i", {class: j === column ? "chosen" : ""});
          bar.style.height = `${most === 0 ? 0 : (100 * weight) / most}%`;
          bar.style.background = palette.css(Math.max(weight, 0.12), false);
          return make(
              "span", {}, make("span", {class: "stand"}, bar), named ? tokenText(keys[j]) : null);
        }));
    const count = cell.hi - cell.lo;
    return step(
        "4", "softmax", say("softmax_words", {n: count}),
        [
          make("span", {class: "working"}, cell.visible ? softmaxLine(cell) : "e^(−∞) = "),
          value("weight", cell.visible ? fixed(cell.weight, 4) : "0")
        ],
        bars);
  }

  values_({vectors, weight, visible, lo, hi}) {
    if (vectors === null) {
      return step(
          "5", "× v", say("values_unknown"), [make("span", {class: "working"}, "weight × v")]);
    }
    const {v, context, engine} = vectors;
    const part = [...v].map((x) => weight * x);
    const most = largest(v, context);
    const strips = [
      strip("v", v, most, "value"), strip("w·v", part, most, "product"),
      strip("Σ", context, most, "context")
    ];
    const words = visible ? say("values_words", {n: hi - lo}) : say("values_nothing");
    const result = [
      make("span", {class: "working"}, `${fixed(weight, 3)}·${bracketed(v[0])} + … = `),
      value("context", fixed(context[0]))
    ];
    if (engine !== null) {
      const off = Math.max(...[...context].map((x, d) => Math.abs(x - engine[d])));
      result.push(make(
          "span", {class: "engine"},
          ...sayNodes(
              "engine_has",
              {value: value("engine", fixed(engine[0])), n: v.length, off: scientific(off)})));
    }
    return step("5", "× v", words, result, ...strips);
  }

  // Every term of the two sums, for readers who want to add them up.
  terms_({vectors, weight}) {
    const box = byId("terms");
    box.hidden = vectors === null;
    if (vectors === null) return;
    const fill = () => {
      if (!box.open) return;
      const {q, k, v, context} = vectors;
      byId("terms-body")
          .replaceChildren(...[...q].map(
              (x, d) => make(
                  "tr", {},
                  ...[d + 1,
                      ...[x, k[d], x * k[d], v[d], weight * v[d], context[d]].map(
                          (number) => fixed(number, 6))]
                      .map((text) => make("td", {}, String(text))))));
    };
    box.ontoggle = fill;
    fill();
  }
}
