// What happens to the token of a step besides attention: embedding and position, residuals and
// norms, feed-forward, logits.
import {byId, make, tokenText} from "./dom.js";
import {fixed, grouped, percent, unpackNumbers} from "./numbers.js";
import {largest, strip} from "./strips.js";
import {say, sayNodes} from "./words.js";

const kMostDigits = 6;
const kActivations = {
  relu: "ReLU",
  gelu: "GELU",
  silu: "SiLU",
  "gelu-tanh": "GELU (tanh)"
};

// "0.51 + 0.84 = 1.35": the fewest digits with which the printed line gives its printed result. The
// library rounds each operation to fp32, so a line may not be exact: then it says ≈.
export function lineOf(operands, compute, result, write) {
  const rounded = (x, digits) => Number(x.toFixed(digits));
  const shown = fixed(result, 3);
  for (let digits = 3; digits <= kMostDigits; ++digits) {
    if (fixed(compute(...operands.map((x) => rounded(x, digits))), 3) === shown)
      return `${write(...operands.map((x) => fixed(x, digits)))} = ${shown}`;
  }
  return `${write(...operands.map((x) => fixed(x, kMostDigits)))} ≈ ${shown}`;
}
const plus = (a, b) => `${a} + ${b.startsWith("−") ? `(${b})` : b}`;

export class Stages {
  constructor(page, state, labels) {
    Object.assign(this, {page, labels});
    this.unpacked_ = new Map();
    state.listen((now, changed) => {
      if (changed.has("step") || changed.has("layer") || changed.has("kind")) this.show(now);
    });
  }

  // Row `row` of packed vectors; null if there are none.
  row_(packed, row) {
    const {kept} = this.page.stages;
    if (packed === null) return null;
    if (!this.unpacked_.has(packed)) this.unpacked_.set(packed, unpackNumbers(packed, kept));
    return this.unpacked_.get(packed).subarray(row * kept, (row + 1) * kept);
  }

  show({step, layer, kind}) {
    const {model, stages} = this.page;
    const at = kind === "encoder" ? 0 : Math.min(layer, model.decoderLayers - 1);
    byId("stages-title")
        .replaceChildren(
            ...sayNodes("stages_title", {token: tokenText(this.labels.fed[step]), layer: at + 1}));
    byId("stages-place").textContent =
        say("stages_place", {step: step + 1, width: grouped(model.width), kept: stages.kept});
    const within =
        stages.subLayers.map((one, place) => ({one, place})).filter(({one}) => one.layer === at);
    byId("stage-list")
        .replaceChildren(
            this.embedding_(step),
            ...within.map(({one, place}) => this.subLayer_(one, this.before_(place, step), step)),
            this.logits_(step));
  }

  // The input of a sub-layer: the output of the one before it.
  before_(place, step) {
    const {stages} = this.page;
    return this.row_(place === 0 ? stages.embedded : stages.subLayers[place - 1].left, step);
  }

  card_(name, title, words, strips, lines) {
    return make(
        "li", {class: "stage-card", "data-stage": name}, make("h3", {}, title),
        make("p", {class: "words"}, words), ...strips,
        ...lines.map((line) => make("p", {class: "stage-line"}, ...[line].flat())));
  }
  // [name, values, kind] each, on one scale.
  strips_(...rows) {
    const there = rows.filter(([, values]) => values !== null);
    const most = largest(...there.map(([, values]) => values));
    return there.map(
        ([name, values, kind]) => strip(say(`stage_${name}`), [...values], most, kind));
  }

  embedding_(step) {
    const {model, stages} = this.page;
    const [token, position, embedded] =
        [stages.token, stages.position, stages.embedded].map((packed) => this.row_(packed, step));
    const words = say("stage_embedding_words", {
      scale: model.embeddingScale,
      position: position !== null,
      norm: model.embeddingNorm,
      width: model.width
    });
    const lines = position === null ? [say("stage_no_position")] : [];
    if (token !== null && position !== null && !model.embeddingNorm) {
      lines.push(lineOf([token[0], position[0]], (a, b) => a + b, embedded[0], plus));
    }
    return this.card_(
        "embedding", say("stage_embedding"), words,
        this.strips_(
            ["token", token, "query"], ["position", position, "product"],
            ["input", embedded, "context"]),
        lines);
  }

  // (x − mean) ÷ deviation × gain + shift, or x ÷ size × gain, of the first number.
  normLine_(one, x, step) {
    const {norm, normEpsilon} = this.page.model;
    const [mean, rms] = [one.mean[step], one.rms[step]];
    const result = this.row_(one.normed, step)[0];
    if (norm === "rms") {
      return lineOf(
          [x, Math.sqrt(rms * rms + normEpsilon), one.gain], (a, b, c) => a / b * c, result,
          (a, b, c) => `${a} ÷ ${b} × ${c}`);
    }
    const deviation = Math.sqrt(Math.max(0, rms * rms - mean * mean) + normEpsilon);
    return lineOf(
        [x, mean, deviation, one.gain, one.shift], (a, b, c, d, e) => (a - b) / c * d + e, result,
        (a, b, c, d, e) => `(${a} − ${b.startsWith("−") ? `(${b})` : b}) ÷ ${c} × ${plus(d, e)}`);
  }

  subLayer_(one, before, step) {
    const {model} = this.page;
    const [normed, added, left] =
        [one.normed, one.added, one.left].map((packed) => this.row_(packed, step));
    const hidden = this.row_(one.hidden, step);
    const words = say(`stage_${one.kind}_words`, {
      width: grouped(model.width),
      hidden: grouped(model.feedForward),
      activation: kActivations[model.activation] ?? model.activation,
      active: grouped(one.active[step] ?? 0)
    });
    const sum = before[0] + added[0];
    const lines = [say(
        "stage_norm_line", {line: this.normLine_(one, model.normFirst ? before[0] : sum, step)})];
    if (model.normFirst) {
      const line = lineOf([before[0], added[0]], (a, b) => a + b, left[0], plus);
      lines.push(say("stage_sum_line", {line}));
    }
    lines.push(
        say(model.normFirst ? "stage_lengths" : "stage_lengths_last",
            {added: fixed(one.addedLength[step], 2), left: fixed(one.leftLength[step], 2)}));
    const norm = ["normed", normed, "key"];
    return this.card_(
        one.kind, say(`stage_${one.kind}`), words,
        [
          ...this.strips_(["before", before, "query"]),
          ...(model.normFirst ? this.strips_(norm) : []),
          ...this.strips_(["hidden", hidden, "product"]),
          ...this.strips_(["added", added, "product"]),
          ...this.strips_([model.normFirst ? "after" : "normed", left, "context"])
        ],
        lines);
  }

  logits_(step) {
    const {model, stages, steps} = this.page;
    const [token, logProb, logit] = steps[step].candidates[0];
    const words =
        say("stage_logits_words",
            {norm: model.normFirst, layers: model.decoderLayers, vocab: grouped(model.vocab)});
    return this.card_(
        "logits", say("stage_logits"), words,
        this.strips_(["last", this.row_(stages.last, step), "context"]),
        [sayNodes("stage_likeliest", {
          token: tokenText(this.labels.predicted[step], {"data-token": token}),
          logit: fixed(logit),
          chance: percent(Math.exp(logProb))
        })]);
  }
}
