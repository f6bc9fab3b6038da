// What chooses: the kind of attention, layer, head, mask, step, theme and size.
import {byId, make, tokenText} from "./dom.js";

const kKinds = {
  masked: "Masked self-attention",
  cross: "Cross-attention",
  encoder: "Encoder"
};
const kPace = 1100;  // milliseconds a step, in play

export class Controls {
  constructor(page, state, attentions, labels) {
    Object.assign(this, {page, state, attentions, labels});
    this.last = page.steps.length - 1;
    this.timer = 0;
    this.buildKinds_();
    this.buildTransport_();
    byId("layer").addEventListener(
        "change", (event) => state.change({layer: Number(event.target.value)}));
    byId("head").addEventListener(
        "change", (event) => state.change({head: Number(event.target.value)}));
    byId("mask").addEventListener("click", () => this.toggleMask_());
    byId("theme").addEventListener(
        "click", () => state.change({theme: state.now.theme === "dark" ? "light" : "dark"}));
    byId("large").addEventListener("click", () => state.change({large: !state.now.large}));
    const {signal} = state;
    signal.addEventListener("abort", () => this.pause_());
    document.addEventListener("keydown", (event) => this.key_(event), {signal});
    globalThis.addEventListener("beforeprint", () => {
      this.before = state.now.theme;
      state.change({theme: "light"});
    }, {signal});
    globalThis.addEventListener("afterprint", () => state.change({theme: this.before}), {signal});
    state.listen((now, changed) => this.show(now, changed));
  }

  buildKinds_() {
    byId("kinds").replaceChildren(...this.attentions.kinds().map(
        (kind) => make(
            "button", {
              type: "button",
              role: "radio",
              "data-kind": kind,
              onclick: () => this.chooseKind_(kind)
            },
            kKinds[kind])));
    byId("kinds").addEventListener("keydown", (event) => {
      const move = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (move === undefined) return;
      const kinds = this.attentions.kinds();
      const next = (kinds.indexOf(this.state.now.kind) + move + kinds.length) % kinds.length;
      this.chooseKind_(kinds[next]);
      byId("kinds").children[next].focus();
      event.preventDefault();
      event.stopPropagation();
    });
  }

  // The place chosen before may not exist in a matrix of another size, or tell nothing there: its
  // row is kept as far as there is one, and in it the key with the largest weight is chosen.
  chooseKind_(kind) {
    if (kind === this.state.now.kind) return;
    const {query, key} = this.attentions.size(kind);
    const {head} = this.state.now;
    const layer = Math.min(this.state.now.layer, this.attentions.layerCount(kind) - 1);
    const row = Math.min(this.state.now.row, query - 1);
    const weights = this.attentions.weights(kind, layer, head).subarray(row * key, (row + 1) * key);
    this.state.change({
      kind,
      // Only masked self-attention has a mask that can be taken off.
      maskOff: false,
      layer,
      row,
      column: weights.indexOf(Math.max(...weights))
    });
  }

  toggleMask_() {
    this.state.change({maskOff: !this.state.now.maskOff});
  }

  buildTransport_() {
    const on = (id, act) => byId(id).addEventListener("click", act);
    on("first", () => this.go_(0));
    on("back", () => this.go_(this.state.now.step - 1));
    on("forward", () => this.go_(this.state.now.step + 1));
    on("last", () => this.go_(this.last));
    on("play", () => (this.timer ? this.pause_() : this.play_()));
    const slider = byId("slider");
    slider.max = String(this.last);
    slider.addEventListener("input", () => this.go_(Number(slider.value)));
  }

  go_(step) {
    this.pause_();
    this.state.change({step: Math.min(this.last, Math.max(0, step))});
  }
  play_() {
    if (this.state.now.step === this.last) this.state.change({step: 0});
    this.timer = setInterval(() => {
      if (this.state.now.step < this.last) this.state.change({step: this.state.now.step + 1});
      if (this.state.now.step === this.last) this.pause_();
    }, kPace);
    this.showPlay_();
  }
  pause_() {
    clearInterval(this.timer);
    this.timer = 0;
    this.showPlay_();
  }
  showPlay_() {
    const playing = this.timer !== 0;
    byId("play").setAttribute("aria-pressed", String(playing));
    byId("play-word").textContent = playing ? "Pause" : "Play";
    byId("play").classList.toggle("playing", playing);
  }

  // Arrows, Home and End step and Space plays, wherever nothing else wants these keys.
  key_(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const {target} = event;
    if (target.closest("select, input, [role=radiogroup], .field, details, .scrolls")) return;
    if (event.key === " " && target.closest("button, a, summary")) return;
    const act = {
      ArrowLeft: () => this.go_(this.state.now.step - 1),
      ArrowRight: () => this.go_(this.state.now.step + 1),
      Home: () => this.go_(0),
      End: () => this.go_(this.last),
      " ": () => (this.timer ? this.pause_() : this.play_())
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  show(now, changed) {
    const root = document.documentElement;
    root.dataset.theme = now.theme;
    root.classList.toggle("large", now.large);
    byId("theme").textContent = now.theme === "dark" ? "Light" : "Dark";
    byId("large").setAttribute("aria-pressed", String(now.large));
    for (const button of byId("kinds").children) {
      const chosen = button.dataset.kind === now.kind;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
    if (changed.has("kind")) {
      const options = (count) =>
          Array.from({length: count}, (_, i) => make("option", {value: i}, String(i + 1)));
      byId("layer").replaceChildren(...options(this.attentions.layerCount(now.kind)));
      byId("head").replaceChildren(...options(this.attentions.model.heads));
    }
    byId("layer").value = String(now.layer);
    byId("head").value = String(now.head);
    const masked = now.kind === "masked";
    byId("mask").disabled = !masked;
    byId("mask").title = masked ? "" : "Only masked self-attention has a causal mask";
    byId("mask").setAttribute("aria-checked", String(masked && !now.maskOff));
    byId("mask-word").textContent = !masked ? "No mask here" : now.maskOff ? "Mask off" : "Mask on";
    document.body.classList.toggle("mask-off", now.maskOff);
    if (changed.has("step")) this.showStep_(now.step);
  }

  showStep_(step) {
    byId("slider").value = String(step);
    byId("slider").style.setProperty(
        "--share", `${this.last === 0 ? 100 : (100 * step) / this.last}%`);
    byId("slider").setAttribute("aria-valuetext", `Step ${step + 1} of ${this.last + 1}`);
    byId("first").disabled = byId("back").disabled = step === 0;
    byId("last").disabled = byId("forward").disabled = step === this.last;
    byId("step-words")
        .replaceChildren(
            `Step ${step + 1} of ${this.last + 1}: `, tokenText(this.labels.fed[step]),
            " goes in, ", tokenText(this.labels.right[step]), this.arrival_(step));
  }

  // Where the next token is from: the model wrote it, or it was given.
  arrival_(step) {
    if (step < this.page.tokens.prompt) return " was given next";
    return this.page.targetGiven ? " should come out" : " comes out";
  }
}
