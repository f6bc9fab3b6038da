// Reads the data and builds the parts.
import {Arithmetic} from "./arithmetic.js";
import {Attentions, Stepwise} from "./attention.js";
import {Candidates} from "./candidates.js";
import {Controls} from "./controls.js";
import {byId, make, userText} from "./dom.js";
import {Forcing} from "./forcing.js";
import {grouped, scientific} from "./numbers.js";
import {Overview} from "./overview.js";
import {Palette} from "./palette.js";
import {Panels} from "./panels.js";
import {Stages} from "./stages.js";
import {State} from "./state.js";
import {labelOf} from "./text.js";
import {Tour} from "./tour.js";
import {Tree} from "./tree.js";
import {chooseLanguage, say, sayAll, sayNodes} from "./words.js";

// What was given and what the model wrote after it.
function continuation({sentence, written}) {
  if (!written.startsWith(sentence)) return [userText(written)];
  return [
    userText(sentence, {class: "flow"}),
    userText(written.slice(sentence.length), {class: "flow continued"})
  ];
}

// What was compared, where the right side's numbers come from, and how accurate the weights are.
function describeMaking({bits, stepwise, precision}) {
  const apart = Object.values(stepwise).flat().filter((record) => record !== null).length;
  byId("how-compared").textContent =
      say("how_compared", {differing: bits.differing, apart, compared: grouped(bits.compared)});
  byId("how").textContent = say(precision === "rounded" ? "how_rounded" : "how_exact", {
    loss: scientific(bits.roundingLoss),
    contexts: grouped(bits.contexts),
    difference: scientific(bits.contextDifference),
    share: (100 * bits.contextShare).toFixed(1)
  });
}

function describePage(page) {
  const {model, targetGiven} = page;
  const decoderOnly = model.encoderLayers === 0;
  document.title = `${page.sentence} · tril explain`;
  byId("sentence").replaceChildren(...(decoderOnly ? continuation(page) : [
    userText(page.sentence),
    make(
        "span", {class: "arrow"}, make("span", {"aria-hidden": "true"}, "→"),
        make("span", {class: "sr"}, say("becomes"))),
    userText(page.target)
  ]));
  const letters = (decoderOnly ? 0 : page.sentence.length) + page.target.length;
  byId("sentence").dataset.length = letters > 160 ? "long" : letters > 40 ? "medium" : "short";
  // A long sentence scrolls, so the keyboard must be able to reach it.
  if (letters > 160) byId("sentence").tabIndex = 0;
  byId("facts").textContent = say("facts", {
    encoder: model.encoderLayers,
    decoder: model.decoderLayers,
    heads: model.heads,
    dim: model.headDim,
    parameters: model.parameters
  });
  const stepping = targetGiven ? "lede_step_by_step" : "lede_inference";
  const inference = make("b", {class: "i"}, say(`${stepping}_word`));
  byId("lede-phases").replaceChildren(...sayNodes("lede", {
    training: make("b", {class: "t"}, say("lede_training")),
    inference: make("span", {id: "lede-inference"}, ...sayNodes(stepping, {inference}))
  }));
  if (targetGiven) {
    const text = userText(page.written, {class: "token"});
    byId("lede-target").replaceChildren(...sayNodes("lede_target", {text}));
  }
  describeMaking(page);
}

// Whether the two passes are one function. With the mask off they are not.
function judge({bits, steps, model}, maskOff) {
  const compared = maskOff ? steps.length * model.vocab : bits.compared;
  const differing =
      maskOff ? steps.reduce((sum, step) => sum + step.leakedDiffering, 0) : bits.differing;
  const equal = differing === 0;
  byId("lede-mask").textContent = say(`mask_${maskOff ? "off_" : ""}${equal ? "same" : "differs"}`);
  byId("lede-mask").classList.toggle("differs", !equal);
  byId("verdict").classList.toggle("differs", !equal);
  byId("verdict-badge").textContent = equal ? "=" : "≠";
  byId("verdict-title").textContent =
      say(equal       ? "verdict_same" :
              maskOff ? "verdict_off" :
                        "verdict_differs");
  byId("verdict-words").textContent = say("verdict_words", {compared, differing, logits: maskOff});
}

// The most interesting view to begin with: the head whose rows spread their weights most widely.
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
  // In it, the off-diagonal cell whose weight is nearest to a half.
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

// The initial view; `kept` is what stays when another text is chosen.
function firstState(page, attentions, kept) {
  const first = liveliest(attentions);
  const step = Math.min(
      page.steps.length - 1,
      Math.max(2, first.row, page.tokens.prompt, Math.floor(page.steps.length / 2)));
  return new State({
    kind: "masked",
    ...first,
    maskOff: false,
    step,
    phase: "inference",
    view: "matrix",
    heat: 10,
    large: false,
    printing: false,
    ...kept
  });
}

// Builds the parts for one text that the decoder reads.
function build(page, kept) {
  const {tokens} = page;
  const labelFor = (id) => labelOf(tokens.pieces[id], id, tokens);
  const labels = {
    source: tokens.source.map(labelFor),
    fed: tokens.fed.map(labelFor),
    right: tokens.right.map(labelFor),
    predicted: page.steps.map((step) => labelFor(step.candidates[0][0]))
  };
  const attentions = new Attentions(page);
  const stepwise = new Stepwise(page, attentions);
  const state = firstState(page, attentions, kept);
  const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener(
      "change", () => state.change({theme: dark.matches ? "dark" : "light"}),
      {signal: state.signal});
  const palettes = {light: new Palette("light"), dark: new Palette("dark")};
  sayAll(document);
  describePage(page);
  new Controls(page, state, attentions, labels);
  new Panels(page, state, attentions, stepwise, palettes, labels);
  new Overview(state, attentions, palettes);
  new Arithmetic(state, attentions, stepwise, palettes, labels);
  new Stages(page, state, labels);
  new Candidates(page, state, labelFor);
  new Forcing(page, state, labelFor);
  new Tree(page, state, labelFor);
  new Tour(page, state);
  state.listen((now, changed) => {
    if (changed.has("maskOff")) judge(page, now.maskOff);
    if (changed.has("theme") || changed.has("maskOff")) paintLegend(palettes[now.theme]);
  });
  globalThis.tril = {page, state, attentions, labels};
  return state;
}

// With a given target the page holds two texts: that one, and what the model wrote by itself.
// Choosing the other rebuilds the page with the same view.
function begin() {
  const given = JSON.parse(byId("data").textContent);
  const parts = ["main", "footer"];
  const blank = parts.map((css) => document.querySelector(css).cloneNode(true));
  const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  let state = null;
  let language = "en";
  const show = (page, kept) => {
    state?.end();
    if (state !== null) {
      parts.forEach((css, i) => document.querySelector(css).replaceWith(blank[i].cloneNode(true)));
    }
    chooseLanguage(language);
    state = build(page, kept);
    if (given.own) offer(page);
    byId("language").lang = language === "en" ? "hi" : "en";
    byId("language").addEventListener("click", () => {
      language = language === "en" ? "hi" : "en";
      const from = globalThis.scrollY;
      show(page, {...state.now});
      globalThis.scrollTo(0, from);
      byId("language").focus({preventScroll: true});
    });
  };
  // Offers a choice between the two texts.
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
        choice(given, say("given_target")), choice(given.own, say("own_words")));
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
