// Reads the data, puts the parts together.
import {Arithmetic} from "./arithmetic.js";
import {Attentions, Stepwise} from "./attention.js";
import {Candidates} from "./candidates.js";
import {Controls} from "./controls.js";
import {byId, make, userText} from "./dom.js";
import {Forcing} from "./forcing.js";
import {grouped, plural, scientific} from "./numbers.js";
import {Overview} from "./overview.js";
import {Palette} from "./palette.js";
import {Panels} from "./panels.js";
import {State} from "./state.js";
import {labelOf} from "./text.js";
import {Tree} from "./tree.js";

// What was given and what the model wrote after it.
function continuation({sentence, written}) {
  if (!written.startsWith(sentence)) return [userText(written)];
  return [
    userText(sentence, {class: "flow"}),
    userText(written.slice(sentence.length), {class: "flow continued"})
  ];
}

// What was compared, and where the right side's numbers are from.
function comparison({bits, stepwise}) {
  const apart = Object.values(stepwise).flat().filter((record) => record !== null).length;
  return "Queries, keys, values and contextual embeddings of every attention, the outputs of the " +
      "decoder’s layers, its last states and all logits: " +
      `${grouped(bits.compared)} numbers of the training pass were compared with those of the ` +
      `step-by-step pass, as bit patterns, when this page was written. ${
             bits.differing === 0 ? "None differs" : `${grouped(bits.differing)} differ`}. ` +
      (apart === 0 ? "What has the same bits in both stands here once, and both sides are drawn " +
               "from it." :
                     `Of the step-by-step pass the page carries ${
                         plural(apart, "attention")} of its own, and draws the right side from ${
                         apart === 1 ? "it" : "them"}.`);
}

// How far the weights can be trusted.
function provenance({bits, precision}) {
  const rounded = precision === "rounded";
  const carried = rounded ?
      "Queries, keys and values are the engine’s, but rounded to sixteen bits of the largest of " +
          "each vector, as the sentence is long: weights drawn from them are off by " +
          `${scientific(bits.roundingLoss)} at most.` :
      "Queries, keys and values are the engine’s own numbers, with every bit.";
  return `${carried} The engine never holds a matrix of weights; this page computes the weights ` +
      `by the textbook’s formula. The formula was checked${
             rounded ? " on the numbers before they were rounded" : ""}: the ` +
      `${grouped(bits.contexts)} numbers of contextual embeddings it gives differ from the ` +
      `engine’s by ${scientific(bits.contextDifference)} at most, ${
             (100 * bits.contextShare).toFixed(1)}% of what fp32 rounding allows.`;
}

function describePage(page) {
  const {model} = page;
  const decoderOnly = model.encoderLayers === 0;
  document.title = `${page.sentence} · tril explain`;
  byId("sentence").replaceChildren(...(decoderOnly ? continuation(page) : [
    userText(page.sentence), make("span", {class: "arrow", "aria-label": "becomes"}, "→"),
    userText(page.target)
  ]));
  const layers = decoderOnly ? plural(model.decoderLayers, "layer") :
                               `${model.encoderLayers} + ${plural(model.decoderLayers, "layer")}`;
  const letters = (decoderOnly ? 0 : page.sentence.length) + page.target.length;
  byId("sentence").dataset.length = letters > 160 ? "long" : letters > 40 ? "medium" : "short";
  byId("facts").textContent = `${layers}, ${plural(model.heads, "head")} of ${model.headDim}, ${
      grouped(model.parameters)} parameters`;
  if (page.targetGiven) {
    byId("lede-target")
        .replaceChildren(
            "This target was given; by itself the model writes ",
            userText(page.written, {class: "token"}), ". ");
    byId("lede-inference")
        .replaceChildren(
            "Then ", make("b", {class: "i"}, "step by step"),
            ", as in inference, it reads one token a call.");
  }
  byId("how-compared").textContent = comparison(page);
  byId("how").textContent = provenance(page);
}

// Are the two passes one function? With the mask off they are not.
function judge({bits, steps, model}, maskOff) {
  const compared = maskOff ? steps.length * model.vocab : bits.compared;
  const differing =
      maskOff ? steps.reduce((sum, step) => sum + step.leakedDiffering, 0) : bits.differing;
  const equal = differing === 0;
  byId("lede-mask").textContent = maskOff ?
      (equal ? "The mask is off, but here there is no future to see." :
               "The mask is off: training sees words that inference has not written yet. The two " +
               "are no longer the same function.") :
      equal ? "The mask makes both the same function." :
              "Here the two are not the same function.";
  byId("lede-mask").classList.toggle("differs", !equal);
  byId("verdict").classList.toggle("differs", !equal);
  byId("verdict-badge").textContent = equal ? "=" : "≠";
  byId("verdict-title").textContent = equal ? "The same, to the last bit" :
      maskOff                               ? "Mask off: no longer the same" :
                                              "Not the same";
  byId("verdict-words").textContent =
      `${grouped(compared)} ${
          maskOff ? "logits" : "numbers"} of the two compared as bit patterns: ` +
      `${equal ? "none differs" : `${grouped(differing)} differ`}.`;
}

// Where there is most to see at first: the head whose rows spread their weights the widest.
function liveliest(attentions) {
  const {query, key} = attentions.size("masked");
  let best = {layer: 0, head: 0, spread: -1};
  for (let layer = 0; layer < attentions.layerCount("masked"); ++layer) {
    for (let head = 0; head < attentions.model.heads; ++head) {
      const weights = attentions.weights("masked", layer, head);
      let spread = 0;
      for (const weight of weights)
        if (weight > 0) spread -= weight * Math.log(weight);
      if (spread > best.spread) best = {layer, head, spread};
    }
  }
  // In it, the cell off the diagonal whose weight is nearest to a half.
  const weights = attentions.weights("masked", best.layer, best.head);
  let [row, column] = [Math.min(query - 1, 1), 0];
  for (let i = 1; i < query; ++i) {
    for (let j = 0; j < i; ++j) {
      if (Math.abs(weights[i * key + j] - 0.5) < Math.abs(weights[row * key + column] - 0.5))
        [row, column] = [i, j];
    }
  }
  return {layer: best.layer, head: best.head, row, column};
}

function paintLegend(palette) {
  const stops = [0, 0.01, 0.04, 0.1, 0.25, 0.5, 1];
  const ramp = (leaks) => `linear-gradient(90deg, ${
      stops.map((w) => `${palette.css(w, leaks)} ${100 * Math.sqrt(w)}%`).join(", ")})`;
  byId("legend-ramp").style.background = ramp(false);
  byId("legend-leak").style.background = ramp(true);
  for (const [id, leaks] of [["key-weight", false], ["key-leak-swatch", true]]) {
    byId(id).style.background = palette.css(0.5, leaks);
    byId(id).style.color = `rgb(${palette.ink(0.5, leaks).join(" ")})`;
  }
}

// What is looked at when a page opens; `kept` is what stays when another text is chosen.
function firstState(page, attentions, kept) {
  const first = liveliest(attentions);
  const step = Math.min(
      page.steps.length - 1,
      Math.max(2, first.row, page.tokens.prompt, Math.floor(page.steps.length / 2)));
  return new State({kind: "masked", ...first, maskOff: false, step, large: false, ...kept});
}

// Puts the parts together for one text that the decoder reads.
function build(page, kept) {
  const {tokens} = page;
  const labelFor = (id) => labelOf(tokens.pieces[id], id, tokens);
  const labels = {
    source: tokens.source.map(labelFor),
    fed: tokens.fed.map(labelFor),
    right: tokens.right.map(labelFor)
  };
  const attentions = new Attentions(page);
  const stepwise = new Stepwise(page, attentions);
  const state = firstState(page, attentions, kept);
  const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener(
      "change", () => state.change({theme: dark.matches ? "dark" : "light"}),
      {signal: state.signal});
  const palettes = {light: new Palette("light"), dark: new Palette("dark")};
  describePage(page);
  new Controls(page, state, attentions, labels);
  new Panels(page, state, attentions, stepwise, palettes, labels);
  new Overview(state, attentions, palettes);
  new Arithmetic(state, attentions, stepwise, palettes, labels);
  new Candidates(page, state, labelFor);
  new Forcing(page, state, labelFor);
  new Tree(page, state, labelFor);
  state.listen((now, changed) => {
    if (changed.has("maskOff")) judge(page, now.maskOff);
    if (changed.has("theme") || changed.has("maskOff")) paintLegend(palettes[now.theme]);
  });
  globalThis.tril = {page, state, attentions};
  return state;
}

// With a given target the page holds two texts: that one, and what the model wrote by itself.
// Another one is shown by building the page anew on what it was before.
function begin() {
  const given = JSON.parse(byId("data").textContent);
  const parts = ["header.top", "main", "footer"];
  const blank = parts.map((css) => document.querySelector(css).cloneNode(true));
  const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  let state = null;
  const show = (page, kept) => {
    state?.end();
    if (state !== null) {
      parts.forEach((css, i) => document.querySelector(css).replaceWith(blank[i].cloneNode(true)));
    }
    state = build(page, kept);
    if (given.own) offer(page);
  };
  // Which text is read: a choice of two.
  const offer = (page) => {
    const choose = (other) => {
      if (other === page) return;
      const {theme, large} = state.now;
      show(other, {theme, large});
      byId("follow").querySelector("[aria-checked=true]").focus();
    };
    const choice = (one, words) => make(
        "button", {
          type: "button",
          role: "radio",
          "aria-checked": String(one === page),
          tabindex: one === page ? "0" : "-1",
          onclick: () => choose(one)
        },
        words);
    byId("follow").hidden = false;
    byId("follow").replaceChildren(
        choice(given, "The given target"), choice(given.own, "The model’s own words"));
    byId("follow").addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      event.stopPropagation();
      choose(page === given ? given.own : given);
    });
  };
  show(given, {theme: dark.matches ? "dark" : "light"});
  document.documentElement.classList.add("ready");
}

if (document.getElementById("data")) begin();
