// One cell, worked out: q·k, ÷ √d, + mask, softmax, × v.
import {byId, make, makeSvg, tokenText} from "./dom.js";
import {fixed, plural, scientific, share, worked} from "./numbers.js";
import {displayOf} from "./text.js";

const kNamed = 6;  // bars of so many keys have their tokens below
const kBar = {
  width: 4,
  height: 26
};

// A row of bars above and below a line, one for each dimension.
function strip(name, values, most, kind) {
  const {width, height} = kBar;
  const all = width * values.length;
  const bars = {plus: "", minus: ""};
  values.forEach((value, d) => {
    const length = most === 0 ? 0 : Math.max(0.4, (Math.abs(value) / most) * (height / 2 - 1));
    const [sign, up] = value >= 0 ? ["plus", -length] : ["minus", length];
    bars[sign] += `M${d * width + 0.5} ${height / 2}v${up}h${width - 1}v${- up}z`;
  });
  return make(
      "div", {class: `strip ${kind}`}, make("span", {class: "lane"}, name),
      makeSvg(
          "svg",
          {viewBox: `0 0 ${all} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true"},
          makeSvg("line", {x1: 0, x2: all, y1: height / 2, y2: height / 2}),
          makeSvg("path", {class: "plus", d: bars.plus}),
          makeSvg("path", {class: "minus", d: bars.minus})));
}

function largest(...lists) {
  return Math.max(...lists.flatMap((list) => [...list].map(Math.abs)));
}

const kOtherQueries =
    "With the mask off, layers above the first have queries and keys of their own. " +
    "The page keeps their scores only.";
const inBrackets = (text) => (text.startsWith("−") ? `(${text})` : text);
const bracketed = (value) => inBrackets(fixed(value, 2));

function step(number, title, words, result, ...more) {
  return make(
      "li", {class: "sum-step", "data-step": title},
      make("h3", {}, make("span", {class: "number"}, number), ` ${title}`),
      make("p", {class: "words"}, words), ...more, make("p", {class: "result"}, ...result));
}
const value = (name, text) => make("output", {"data-value": name}, text);

// The largest score is taken off every score first: no e^x is too large then.
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
    const cell = this.attentions.cell(kind, layer, head, row, column, maskOff);
    const query = (kind === "encoder" ? this.labels.source : this.labels.fed)[row];
    const key = (kind === "masked" ? this.labels.fed : this.labels.source)[column];
    byId("arithmetic-title").replaceChildren(tokenText(query), " looks at ", tokenText(key));
    byId("arithmetic-place").textContent =
        `Row ${row + 1}, key ${column + 1}, layer ${layer + 1}, head ${head + 1}${
            this.stepwise.differs(kind, layer) ? ", as in training" : ""}`;
    byId("arithmetic-steps")
        .replaceChildren(
            this.dot_(cell), this.scale_(cell), this.mask_(cell), this.softmax_(cell, now),
            this.values_(cell));
    byId("arithmetic").classList.toggle("leaking", cell.leaks);
    this.terms_(cell);
    const weight = cell.visible ? share(cell.weight) : "exactly 0";
    byId("status").textContent = `${displayOf(query)} looks at ${displayOf(key)}: weight ${weight}${
        cell.leaks ? ", from the future" : ""}`;
  }

  dot_({vectors, dot}) {
    const {headDim} = this.attentions.model;
    if (vectors === null) {
      return step("1", "q · k", kOtherQueries, [value("dot", fixed(dot))]);
    }
    const {q, k} = vectors;
    const products = [...q].map((x, d) => x * k[d]);
    const few =
        products.slice(0, 2).map((_, d) => `${bracketed(q[d])}·${bracketed(k[d])}`).join(" + ");
    return step(
        "1", "q · k", `Query times key, ${headDim} products, added up.`,
        [make("span", {class: "working"}, `${few} + … = `), value("dot", fixed(dot))],
        strip("q", q, largest(q, k), "query"), strip("k", k, largest(q, k), "key"),
        strip("q·k", products, largest(products), "product"));
  }

  scale_({dot, scaled, bias}) {
    const {headDim, biasSlopes} = this.attentions.model;
    const [score, root] = worked([dot, Math.sqrt(headDim)], (a, b) => a / b, scaled, 3, 3);
    const parts =
        [make("span", {class: "working"}, `${score} ÷ ${root} = `), value("scaled", fixed(scaled))];
    if (biasSlopes.length > 0) {
      const [before, distance] =
          worked([scaled, Math.abs(bias)], (a, b) => a - b, scaled + bias, 3, 3);
      parts.push(
          make("span", {class: "working"}, ` ${before} − ${distance} for the distance = `),
          value("biased", fixed(scaled + bias)));
    }
    return step(
        "2", "÷ √d",
        `Divided by √${headDim}, or long vectors would make the softmax all or nothing.`, parts);
  }

  mask_({visible, leaks, score}) {
    const words = leaks ? "The mask is off: nothing is added. This key lies in the future." :
        visible         ? "This key may be seen: nothing is added." :
                          "This key may not be seen: −∞ is added.";
    const added = leaks ? " (mask off)" : visible ? " + 0" : " + (−∞)";
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
        "4", "softmax", `Over the ${plural(count, "key")} this row sees. The weights add up to 1.`,
        [
          make("span", {class: "working"}, cell.visible ? softmaxLine(cell) : "e^(−∞) = "),
          value("weight", cell.visible ? fixed(cell.weight, 4) : "0")
        ],
        bars);
  }

  values_({vectors, weight, visible, lo, hi}) {
    if (vectors === null) {
      return step(
          "5", "× v", "The values of this pass are not on the page.",
          [make("span", {class: "working"}, "weight × v")]);
    }
    const {v, context, engine} = vectors;
    const part = [...v].map((x) => weight * x);
    const most = largest(v, context);
    const strips = [
      strip("v", v, most, "value"), strip("w·v", part, most, "product"),
      strip("Σ", context, most, "context")
    ];
    const words = visible ?
        `Its value counts by its weight. The sum over ${plural(hi - lo, "key")} is the ` +
            "contextual embedding." :
        "Weight 0: nothing of this value comes in.";
    const result = [
      make("span", {class: "working"}, `${fixed(weight, 3)}·${bracketed(v[0])} + … = `),
      value("context", fixed(context[0]))
    ];
    if (engine !== null) {
      const off = Math.max(...[...context].map((x, d) => Math.abs(x - engine[d])));
      result.push(make(
          "span", {class: "engine"}, `The engine has `, value("engine", fixed(engine[0])),
          `; all ${v.length} within ${scientific(off)}.`));
    }
    return step("5", "× v", words, result, ...strips);
  }

  // Every term of the two sums, for those who want to add them up.
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
