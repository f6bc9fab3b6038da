// The two phases, side by side: training with all rows at once, inference a row at a time.
import {byId, make, tokenText} from "./dom.js";
import {Matrix} from "./matrix.js";
import {grouped, plural} from "./numbers.js";

const kWords = {
  masked: {
    training:
        "The whole target goes in at once. Every row is computed in the same call. The mask hides " +
        "what comes after it.",
    inference:
        "One token goes in. One row comes out. The keys and values of earlier tokens wait in the " +
        "cache.",
  },
  cross: {
    training:
        "Every row of the target looks at the whole source. There is no future to hide in it.",
    inference: "Each new token looks at the same source. Its keys and values were computed once.",
  },
  encoder: {
    training:
        "The encoder reads the source in one call. It has no causal mask: words see each other.",
    inference: "The same call, also once, before the first token is written.",
  },
};

// A target that was given goes in on both sides, so that they can be compared.
const kOnTarget = {
  title: "Step by step, on the given target",
  masked: "One token goes in, one row comes out, as in inference. But what goes in is the given " +
      "target, not what the model wrote: both sides read the same.",
  cross: "Each token of the given target looks at the same source. Its keys and values were " +
      "computed once.",
};

const kLeak = {
  training: "The mask is off. Every row sees words that do not exist yet when the model writes: " +
      "the leak, hatched in red.",
  inference: "Decoding is as before. There is no future in the cache to look at, so training " +
      "without the mask learns something else.",
};

export class Panels {
  constructor(page, state, attentions, stepwise, palettes, labels) {
    Object.assign(this, {page, state, attentions, stepwise, palettes, labels});
    if (page.targetGiven) byId("inference-title").textContent = kOnTarget.title;
    const select = (phase) => (row, column, opens) => this.select_(phase, row, column, opens);
    this.training = new Matrix(
        byId("training-matrix"), {label: "Attention in training", select: select("training")});
    this.inference = new Matrix(
        byId("inference-matrix"), {label: "Attention in inference", select: select("inference")});
    state.listen((now, changed) => this.show(now, changed));
  }

  select_(phase, row, column, opens) {
    const change = {row, column};
    // A row that is not there yet is where decoding goes next.
    if (phase === "inference" && this.state.now.kind !== "encoder") change.step = row;
    this.state.change(change);
    if (opens) byId("arithmetic").focus();
  }

  show(now, changed) {
    const drawn =
        ["kind", "layer", "head", "maskOff", "theme", "large"].some((name) => changed.has(name));
    const selected = {row: now.row, column: now.column};
    const band = now.kind === "encoder" ? -1 : now.step;
    if (drawn) {
      this.training.show(this.view_(now, "training", selected, -1));
    } else if (changed.has("row") || changed.has("column")) {
      this.training.point(selected, -1);
    }
    if (drawn || changed.has("step")) {
      this.inference.show(this.view_(now, "inference", selected, band));
    } else if (changed.has("row") || changed.has("column")) {
      this.inference.point(selected, band);
    }
    if (drawn) this.describe_(now);
    if (changed.has("step") || changed.has("kind") || changed.has("maskOff")) this.tell_(now);
  }

  view_({kind, layer, head, maskOff, step, theme, large}, phase, selected, band) {
    const off = maskOff && phase === "training";
    const {key} = this.attentions.size(kind);
    const pass = phase === "training" ? this.attentions : this.stepwise;
    const weights = pass.weights(kind, layer, head, off);
    const {fed, source} = this.labels;
    const decoding = phase === "inference" && kind !== "encoder";
    const cell = (i, j) => {
      if (decoding && (i > step || (kind === "masked" && j > step)))
        return {kind: "absent", weight: 0};
      const {lo, hi} = pass.sees(kind, layer, i, off);
      if (j < lo || j >= hi) {
        // In a cached step there is nothing after the row: the cache does not hold it.
        return {kind: decoding && j > i ? "absent" : "hidden", weight: 0};
      }
      const leaks = off && this.attentions.leaks(kind, layer, i, j);
      return {kind: leaks ? "leak" : "seen", weight: weights[i * key + j]};
    };
    return {
      rows: kind === "encoder" ? source : fed,
      columns: kind === "masked" ? fed : source,
      cell,
      selected,
      band,
      palette: this.palettes[theme],
      maxCell: large ? 112 : 76,
      mark: (i) => this.mark_(i, phase, kind, step, maskOff),
      markWidth: kind === "encoder" ? 0.2 : 2.2
    };
  }

  // Of each row that both phases have computed: does it have the same bits?
  mark_(i, phase, kind, step, maskOff) {
    if (phase === "training" || kind === "encoder" || i > step) return "";
    return this.differing_(i, maskOff) === 0 ? "same" : "differs";
  }

  // Numbers of a row whose bits are not the same in both phases.
  differing_(i, maskOff) {
    const {leakedDiffering, logitsDiffering, hiddenDiffering, layersDiffering} = this.page.steps[i];
    if (maskOff) return leakedDiffering;
    return layersDiffering.reduce((sum, count) => sum + count, logitsDiffering + hiddenDiffering);
  }

  describe_({kind, maskOff}) {
    const leak = kind === "masked" && maskOff;
    byId("training-words").textContent = leak ? kLeak.training : kWords[kind].training;
    const stepping = (this.page.targetGiven && kOnTarget[kind]) || kWords[kind].inference;
    byId("inference-words").textContent = leak ? kLeak.inference : stepping;
    const {parallelCalls, parallelEncoderCalls} = this.page.bits;
    byId("training-calls").textContent =
        plural(kind === "encoder" ? parallelEncoderCalls : parallelCalls, "call");
    byId("key-hidden").hidden = !this.hides_(kind, maskOff);
    byId("key-leak").hidden = !leak;
    byId("inference-below").hidden = kind === "encoder";
    byId("training").classList.toggle("leaking", leak);
  }

  // Is there a cell that a row may not see?
  hides_(kind, maskOff) {
    const {query, key} = this.attentions.size(kind);
    return Array.from({length: query}, (_, i) => this.attentions.sees(kind, 0, i, maskOff))
        .some(({lo, hi}) => lo > 0 || hi < key);
  }

  // Only what came or went is touched.
  growCache_(count) {
    const list = byId("cache");
    while (list.children.length > count) list.lastChild.remove();
    list.lastChild?.classList.remove("new");
    for (const label of this.labels.fed.slice(list.children.length, count)) {
      list.append(make("li", {}, tokenText(label)));
    }
    list.lastChild.classList.add("new");
  }

  tell_({kind, step, maskOff}) {
    byId("key-differs").hidden =
        !this.page.steps.some((_, i) => i <= step && this.differing_(i, maskOff) > 0);
    const {steps} = this.page;
    const {model} = this.page;
    const {stepwiseCalls, stepwiseEncoderCalls} = this.page.bits;
    byId("inference-calls").textContent = kind === "encoder" ?
        plural(stepwiseEncoderCalls, "call") :
        `call ${grouped(step + 1)} of ${grouped(stepwiseCalls)}`;
    this.growCache_(step + 1);
    const numbers = 2 * model.decoderLayers * model.kvHeads * model.headDim;
    byId("cache-size").textContent = `${plural(step + 1, "token")} × ${
                                         grouped(numbers)} numbers: a key and a value in each of ` +
        `${plural(model.decoderLayers, "layer")}.`;
    const now = steps[step];
    const differing = this.differing_(step, maskOff);
    const equal = differing === 0;
    const line = byId("bits");
    line.classList.toggle("differs", !equal);
    line.replaceChildren(
        make("span", {class: "badge", "aria-hidden": "true"}, equal ? "=" : "≠"),
        make(
            "span", {}, `Row ${grouped(step + 1)}: `,
            equal ? `all ${grouped(model.vocab)} logits, the same bits` :
                    `${plural(differing, maskOff ? "logit" : "number")} with other bits`,
            make(
                "code", {title: "Fingerprints of the logits, training and inference"},
                `${(maskOff ? now.leakedBits : now.parallelBits).slice(0, 8)} ${
                    equal ? "=" : "≠"} ${now.stepwiseBits.slice(0, 8)}`)));
  }
}
