// All heads of all layers at a glance, and the way to choose one.
import {byId, make} from "./dom.js";
import {say} from "./words.js";

const kFrameShare = 8;  // milliseconds

export class Overview {
  constructor(state, attentions, palettes) {
    Object.assign(this, {state, attentions, palettes});
    this.host = byId("overview");
    this.host.addEventListener("keydown", (event) => this.key_(event));
    this.paints_ = 0;
    state.listen((now, changed) => this.show(now, changed));
  }

  show(now, changed) {
    if (changed.has("kind")) this.build_(now);
    if (changed.has("kind") || changed.has("maskOff") || changed.has("theme")) this.paintAll_(now);
    this.choose_(now);
  }

  build_({kind}) {
    const {heads} = this.attentions.model;
    if (this.thumbs?.length === heads * this.attentions.layerCount(kind)) return;
    this.thumbs = [];
    const children = [make("span")];
    for (let head = 0; head < heads; ++head) {
      children.push(make("span", {class: "axis", "aria-hidden": "true"}, String(head + 1)));
    }
    for (let layer = 0; layer < this.attentions.layerCount(kind); ++layer) {
      children.push(make("span", {class: "axis", "aria-hidden": "true"}, String(layer + 1)));
      for (let head = 0; head < heads; ++head) {
        const canvas = make("canvas", {"aria-hidden": "true"});
        const button = make(
            "button", {
              type: "button",
              class: "thumb",
              role: "radio",
              "aria-label": say("head_label", {layer: layer + 1, head: head + 1}),
              onclick: () => this.state.change({layer, head})
            },
            canvas);
        this.thumbs.push({layer, head, canvas, button});
        children.push(button);
      }
    }
    this.host.style.setProperty("--heads", heads);
    this.host.replaceChildren(...children);
  }

  // Paints for a few milliseconds per frame, so that the page answers clicks before it is done.
  paintAll_({kind, maskOff, theme}) {
    const turn = ++this.paints_;
    const left = [...this.thumbs];
    const next = () => {
      const begin = performance.now();
      while (turn === this.paints_ && left.length > 0) {
        if (performance.now() - begin > kFrameShare) {
          requestAnimationFrame(next);
          return;
        }
        this.paint_(left.shift(), kind, maskOff, this.palettes[theme]);
      }
    };
    // After the frame that shows what was chosen.
    requestAnimationFrame(() => requestAnimationFrame(next));
  }

  paint_({layer, head, canvas}, kind, maskOff, palette) {
    const {query, key} = this.attentions.size(kind);
    const weights = this.attentions.weights(kind, layer, head, maskOff);
    canvas.width = key;
    canvas.height = query;
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(key, query);
    for (let i = 0; i < query; ++i) {
      const {lo, hi} = this.attentions.sees(kind, layer, i, maskOff);
      for (let j = lo; j < hi; ++j) {
        const at = i * key + j;
        const colour = palette.rgb(weights[at], this.attentions.leaks(kind, layer, i, j));
        for (let part = 0; part < 3; ++part) image.data[4 * at + part] = colour[part];
        image.data[4 * at + 3] = 255;
      }
    }
    pen.putImageData(image, 0, 0);
  }

  choose_({layer, head}) {
    for (const thumb of this.thumbs) {
      const chosen = thumb.layer === layer && thumb.head === head;
      thumb.button.setAttribute("aria-checked", String(chosen));
      thumb.button.tabIndex = chosen ? 0 : -1;
    }
  }

  key_(event) {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    if (!(event.key in moves)) return;
    const {layer, head, kind} = this.state.now;
    const [down, right] = moves[event.key];
    const within = (value, count) => (value + count) % count;
    this.state.change({
      layer: within(layer + down, this.attentions.layerCount(kind)),
      head: within(head + right, this.attentions.model.heads)
    });
    this.thumbs.find((thumb) => thumb.button.tabIndex === 0).button.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
