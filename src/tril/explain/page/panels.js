// The two phases side by side: training with all rows at once, inference one row at a time.
import {byId, make, tokenText} from "./dom.js";
import {Matrix} from "./matrix.js";
import {grouped} from "./numbers.js";
import {say} from "./words.js";

const kLeastRoom = 12;  // rem: of a matrix, however low the window is

// The space between the bar above, where it is fixed, and the player below.
function openSpace() {
  const bar = document.querySelector(".bar");
  const top = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  const dock = document.querySelector(".transport");
  const below = dock.offsetHeight + parseFloat(getComputedStyle(dock).bottom || "0");
  return {top, bottom: document.documentElement.clientHeight - below};
}

export class Panels {
  constructor(page, state, attentions, stepwise, palettes, labels) {
    Object.assign(this, {page, state, attentions, stepwise, palettes, labels});
    if (page.targetGiven) byId("inference-title").textContent = say("on_target");
    this.buildWhich_();
    const matrix = (phase) => new Matrix(byId(`${phase}-matrix`), {
      label: say(`attention_in_${phase}`),
      select: (row, column, opens) => this.select_(phase, row, column, opens),
      room: () => this.room_()
    });
    this.training = matrix("training");
    this.inference = matrix("inference");
    state.listen((now, changed) => this.show(now, changed));
    const {signal} = state;
    globalThis.addEventListener("resize", () => this.draw_(), {signal});
    document.fonts.ready.then(() => this.draw_());
  }

  // The height a matrix may have so that all of it, with its panel's heading, is visible at once.
  room_() {
    const {top, bottom} = openSpace();
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const heading = document.querySelector(".panel > header").offsetHeight;
    return Math.max(kLeastRoom * rem, bottom - top - heading - 1.75 * rem);
  }
  draw_() {
    for (const matrix of [this.training, this.inference])
      if (matrix.view) matrix.draw();
  }

  // In a narrow window there is room for one phase at a time.
  buildWhich_() {
    byId("which").replaceChildren(...["training", "inference"].map(
        (phase) => make(
            "button", {
              type: "button",
              role: "radio",
              "data-phase": phase,
              onclick: () => this.state.change({phase})
            },
            say(phase))));
    byId("which").addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow")) return;
      this.state.change({phase: this.state.now.phase === "training" ? "inference" : "training"});
      byId("which").querySelector("[aria-checked=true]").focus();
      event.preventDefault();
      event.stopPropagation();
    });
  }
  showWhich_({phase}) {
    for (const button of byId("which").children) {
      const chosen = button.dataset.phase === phase;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    byId("phases").dataset.phase = phase;
  }

  select_(phase, row, column, opens) {
    const change = {row, column};
    // Choosing a row that does not exist yet moves decoding there.
    if (phase === "inference" && this.state.now.kind !== "encoder") change.step = row;
    this.state.change(change);
    if (opens) byId("arithmetic").focus();
  }

  show(now, changed) {
    const drawn = ["kind", "layer", "head", "maskOff", "theme", "large", "printing", "view"].some(
        (name) => changed.has(name));
    if (changed.has("phase")) this.showWhich_(now);
    const selected = {row: now.row, column: now.column};
    const band = now.kind === "encoder" ? -1 : now.step;
    if (drawn || changed.has("phase")) {
      this.training.show(this.view_(now, "training", selected, -1));
    } else if (changed.has("row") || changed.has("column")) {
      this.training.point(selected, -1);
    }
    if (drawn || changed.has("phase") || changed.has("step")) {
      this.inference.show(this.view_(now, "inference", selected, band));
    } else if (changed.has("row") || changed.has("column")) {
      this.inference.point(selected, band);
    }
    if (drawn) this.describe_(now);
    if (changed.has("step") || changed.has("kind") || changed.has("maskOff")) this.tell_(now);
    if (changed.has("step") || changed.has("row") || changed.has("column")) this.bring_(changed);
  }

  // While the player is docked at the foot of the window, the matrices are scrolled into view above
  // it; a reader further down is left alone.
  bring_(changed) {
    if (changed.has("theme")) return;  // the page has only just opened
    const dock = document.querySelector(".transport").getBoundingClientRect();
    if (dock.bottom < document.documentElement.clientHeight - 32) return;
    const {top, bottom} = openSpace();
    const seen = [this.training, this.inference].filter((one) => one.scroller.clientWidth > 0);
    const box = seen.at(-1).scroller.getBoundingClientRect();
    const margin = 8;
    const down = Math.min(box.bottom - bottom + margin, box.top - top - margin);
    if (box.bottom > bottom && down > 0)
      globalThis.scrollBy(0, down);
    else if (box.top < top)
      globalThis.scrollBy(0, box.top - top - margin);
  }

  view_({kind, layer, head, maskOff, step, theme, large, printing, view}, phase, selected, band) {
    const off = maskOff && phase === "training";
    const {key} = this.attentions.size(kind);
    const pass = phase === "training" ? this.attentions : this.stepwise;
    const weights = pass.weights(kind, layer, head, off);
    const {fed, source, predicted} = this.labels;
    const decoding = phase === "inference" && kind !== "encoder";
    const cell = (i, j) => {
      if (decoding && (i > step || (kind === "masked" && j > step)))
        return {kind: "absent", weight: 0};
      const {lo, hi} = pass.sees(kind, layer, i, off);
      if (j < lo || j >= hi) {
        // In a cached step there is nothing after the row: the cache does not contain it.
        return {kind: decoding && j > i ? "absent" : "hidden", weight: 0};
      }
      const leaks = off && this.attentions.leaks(kind, layer, i, j);
      return {kind: leaks ? "leak" : "seen", weight: weights[i * key + j]};
    };
    return {
      rows: kind === "encoder" ? source : fed,
      columns: kind === "masked" ? fed : source,
      ends: kind === "cross" ? predicted : null,
      cell,
      selected,
      band,
      layer,
      head,
      palette: this.palettes[theme],
      maxCell: large ? 112 : 76,
      fits: printing,
      lines: view === "lines",
      mark: (i) => this.mark_(i, phase, kind, step, maskOff),
      marks: kind !== "encoder"
    };
  }

  // For each row that both phases have computed: whether it has the same bits.
  mark_(i, phase, kind, step, maskOff) {
    if (phase === "training" || kind === "encoder") return "";
    if (i > step) return "absent";
    return this.differing_(i, maskOff) === 0 ? "same" : "differs";
  }

  // The number of values of a row whose bits differ between the phases.
  differing_(i, maskOff) {
    const {leakedDiffering, logitsDiffering, hiddenDiffering, layersDiffering} = this.page.steps[i];
    if (maskOff) return leakedDiffering;
    return layersDiffering.reduce((sum, count) => sum + count, logitsDiffering + hiddenDiffering);
  }

  describe_({kind, maskOff}) {
    const leak = kind === "masked" && maskOff;
    const rows = kind === "cross" ? ` ${say("cross_rows")}` : "";
    byId("training-words").textContent =
        leak ? say("leak_training") : `${say(`training_${kind}`)}${rows}`;
    const given = this.page.targetGiven && kind !== "encoder";
    byId("inference-words").textContent =
        say(leak      ? "leak_inference" :
                given ? `target_${kind}` :
                        `inference_${kind}`);
    const {parallelCalls, parallelEncoderCalls} = this.page.bits;
    byId("training-calls").textContent =
        say("calls", {n: kind === "encoder" ? parallelEncoderCalls : parallelCalls});
    byId("key-hidden").hidden = !this.hides_(kind, maskOff);
    byId("key-leak").hidden = !leak;
    byId("inference-below").hidden = kind === "encoder";
    byId("training").classList.toggle("leaking", leak);
  }

  // Whether there is a cell that a row may not see.
  hides_(kind, maskOff) {
    const {query, key} = this.attentions.size(kind);
    return Array.from({length: query}, (_, i) => this.attentions.sees(kind, 0, i, maskOff))
        .some(({lo, hi}) => lo > 0 || hi < key);
  }

  // Only added and removed elements are touched.
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
    const {steps, model} = this.page;
    const {stepwiseCalls, stepwiseEncoderCalls} = this.page.bits;
    byId("inference-calls").textContent = kind === "encoder" ?
        say("calls", {n: stepwiseEncoderCalls}) :
        say("call_of", {n: grouped(step + 1), all: grouped(stepwiseCalls)});
    this.growCache_(step + 1);
    const numbers = 2 * model.decoderLayers * model.kvHeads * model.headDim;
    byId("cache-size").textContent =
        say("cache_size", {tokens: step + 1, numbers, layers: model.decoderLayers});
    const now = steps[step];
    const differing = this.differing_(step, maskOff);
    const equal = differing === 0;
    const line = byId("bits");
    line.classList.toggle("differs", !equal);
    line.replaceChildren(
        make("span", {class: "badge", "aria-hidden": "true"}, equal ? "=" : "≠"),
        make(
            "span", {},
            equal ? say("bits_same", {row: grouped(step + 1), vocab: grouped(model.vocab)}) :
                    say("bits_differ", {row: step + 1, differing, logits: maskOff}),
            make(
                "code", {title: say("fingerprints")},
                `${(maskOff ? now.leakedBits : now.parallelBits).slice(0, 8)} ${
                    equal ? "=" : "≠"} ${now.stepwiseBits.slice(0, 8)}`)));
  }
}
