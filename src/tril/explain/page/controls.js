// The controls: kind of attention, layer, head, mask, step, theme and size.
import {byId, make, tokenText} from "./dom.js";
import {say, sayNodes} from "./words.js";

const kPace = 1100;  // milliseconds per step, in play

export class Controls {
  constructor(page, state, attentions, labels) {
    Object.assign(this, {page, state, attentions, labels});
    this.last = page.steps.length - 1;
    this.timer = 0;
    this.buildChoice_("kinds", attentions.kinds(), (kind) => this.chooseKind_(kind));
    this.buildChoice_("views", ["matrix", "lines"], (view) => state.change({view}));
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
    this.printsItself_(signal);
    this.showPlay_();
    state.listen((now, changed) => this.show(now, changed));
  }

  // In print: light theme, normal size, and everything fits.
  printsItself_(signal) {
    globalThis.addEventListener("beforeprint", () => {
      const {theme, large} = this.state.now;
      this.before = {theme, large};
      document.documentElement.classList.add("printing");
      this.state.change({theme: "light", large: false, printing: true});
    }, {signal});
    globalThis.addEventListener("afterprint", () => {
      document.documentElement.classList.remove("printing");
      this.state.change({...this.before, printing: false});
    }, {signal});
  }

  // A row of buttons, one of which is chosen by click or arrow key. Names are keys of the word
  // tables, with a shorter one for narrow windows.
  buildChoice_(id, names, choose) {
    const host = byId(id);
    const button = (name) => make(
        "button", {
          type: "button",
          role: "radio",
          [`data-${id === "kinds" ? "kind" : "view"}`]: name,
          "aria-label": say(name),
          onclick: () => choose(name)
        },
        make("span", {class: "wide"}, say(name)),
        make("span", {class: "narrow"}, say(`${name}_short`)));
    host.replaceChildren(...names.map(button));
    host.addEventListener("keydown", (event) => {
      const move = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (move === undefined) return;
      const now = [...host.children].findIndex((one) => one.tabIndex === 0);
      const next = (now + move + names.length) % names.length;
      choose(names[next]);
      host.children[next].focus();
      event.preventDefault();
      event.stopPropagation();
    });
  }
  showChoice_(id, name) {
    for (const button of byId(id).children) {
      const chosen = (button.dataset.kind ?? button.dataset.view) === name;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }
  }

  // The key of a row with the largest weight.
  strongest_(kind, layer, head, row) {
    const {key} = this.attentions.size(kind);
    const weights = this.attentions.weights(kind, layer, head).subarray(row * key, (row + 1) * key);
    return weights.indexOf(Math.max(...weights));
  }

  // The cell chosen before may not exist in a matrix of another size, or say nothing there: the row
  // becomes that of the step, or in the encoder the same row if there is one, and the key with the
  // largest weight in it is chosen.
  chooseKind_(kind) {
    if (kind === this.state.now.kind) return;
    const {query} = this.attentions.size(kind);
    const {head} = this.state.now;
    const layer = Math.min(this.state.now.layer, this.attentions.layerCount(kind) - 1);
    const row = kind === "encoder" ? Math.min(this.state.now.row, query - 1) : this.state.now.step;
    this.state.change({
      kind,
      // Only masked self-attention has a mask that can be removed.
      maskOff: false,
      layer,
      row,
      column: this.strongest_(kind, layer, head, row)
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

  // Moves to a step and its row: keeps the key if the row sees it, else takes the one with the
  // largest weight.
  step_(step) {
    const {kind, layer, head, column} = this.state.now;
    if (kind === "encoder") {
      this.state.change({step});
      return;
    }
    const {lo, hi} = this.attentions.sees(kind, layer, step, false);
    const sees = column >= lo && column < hi;
    this.state.change(
        {step, row: step, column: sees ? column : this.strongest_(kind, layer, head, step)});
  }
  go_(step) {
    this.pause_();
    this.step_(Math.min(this.last, Math.max(0, step)));
  }
  play_() {
    if (this.state.now.step === this.last) this.step_(0);
    this.timer = setInterval(() => {
      if (this.state.now.step < this.last) this.step_(this.state.now.step + 1);
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
    byId("play-word").textContent = say(playing ? "pause" : "play");
    byId("play").classList.toggle("playing", playing);
  }

  // Arrows, Home and End step and Space plays, wherever nothing else uses these keys.
  key_(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const {target} = event;
    if (target.closest("select, input, [role=radiogroup], .field, .web, details, .scrolls")) return;
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
    byId("theme").textContent = say(now.theme === "dark" ? "light" : "dark");
    byId("large").setAttribute("aria-pressed", String(now.large));
    this.showChoice_("kinds", now.kind);
    this.showChoice_("views", now.view);
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
    byId("mask").title = masked ? "" : say("mask_only");
    byId("mask").setAttribute("aria-checked", String(masked && !now.maskOff));
    byId("mask-word").textContent =
        say(!masked         ? "mask_none" :
                now.maskOff ? "mask_off" :
                              "mask_on");
    document.body.classList.toggle("mask-off", now.maskOff);
    if (changed.has("step")) this.showStep_(now.step);
  }

  showStep_(step) {
    const [n, all] = [step + 1, this.last + 1];
    byId("slider").value = String(step);
    byId("slider").style.setProperty(
        "--share", `${this.last === 0 ? 100 : (100 * step) / this.last}%`);
    byId("slider").setAttribute("aria-valuetext", say("step_of", {n, all}));
    byId("first").disabled = byId("back").disabled = step === 0;
    byId("last").disabled = byId("forward").disabled = step === this.last;
    const [fed, right] = [tokenText(this.labels.fed[step]), tokenText(this.labels.right[step])];
    byId("step-words").replaceChildren(...sayNodes(this.arrival_(step), {n, all, fed, right}));
  }

  // Where the next token comes from: the model wrote it, or it was given.
  arrival_(step) {
    if (step < this.page.tokens.prompt) return "step_given";
    return this.page.targetGiven ? "step_should" : "step_comes";
  }
}
