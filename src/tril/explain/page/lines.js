// The same weights as lines between words: a row's token on the left, what it attends to on the
// right, the thicker the line the larger the weight.
import {make, makeSvg, tokenText} from "./dom.js";

const kFaintest = 0.02;  // smaller weights have no line, unless their row is chosen

export class Lines {
  // `select(row, column)` is called for a click on a word or a line.
  constructor(select) {
    this.select = select;
    this.drawing = makeSvg("svg", {"aria-hidden": "true"});
    this.left = make("div", {class: "web-side from"});
    this.right = make("div", {class: "web-side to"});
    this.web = make("div", {class: "web", hidden: true}, this.left, this.drawing, this.right);
  }

  // view: as for Matrix.show; room: { wide, tall, font } in pixels.
  draw(view, {wide, tall, font}) {
    this.view = view;
    const {rows, columns, ends} = view;
    const most = Math.max(rows.length, columns.length);
    this.pitch_ = view.fits ? Math.min(1.5 * font, tall / most) :
                              Math.max(1.3 * font, Math.min(2.8 * font, tall / most));
    const named = (label, i) => ends ?
        [tokenText(label), make("span", {class: "arrow"}, " → "), tokenText(ends[i])] :
        [tokenText(label)];
    const side = (labels, count, nodes, choose) => labels.map((label, i) => {
      const box = make(
          "span", {class: "label", onclick: () => choose(i)},
          ...(nodes ? nodes(label, i) : [tokenText(label)]));
      box.style.top = `${this.top_(i, count)}px`;
      box.style.height = `${this.pitch_}px`;
      return box;
    });
    this.boxes_ = {
      from: side(rows, rows.length, named, (i) => this.select(i, this.strongest_(i))),
      to: side(columns, columns.length, null, (j) => this.select(this.view.selected?.row ?? 0, j))
    };
    this.left.replaceChildren(...this.boxes_.from);
    this.right.replaceChildren(...this.boxes_.to);
    this.height_ = most * this.pitch_;
    this.web.style.height = `${this.height_}px`;
    const width = (boxes) => Math.max(...boxes.map((box) => box.offsetWidth)) + 0.5 * font;
    this.ends_ = {
      from: Math.min(0.42 * wide, width(this.boxes_.from)),
      to: wide - Math.min(0.3 * wide, width(this.boxes_.to))
    };
    this.left.style.width = `${this.ends_.from}px`;
    this.right.style.left = `${this.ends_.to}px`;
    this.drawing.setAttribute("width", wide);
    this.drawing.setAttribute("height", this.height_);
    this.point(view.selected, view.band);
  }

  // The shorter side is centred.
  top_(i, count) {
    const {rows, columns} = this.view;
    return (i + (Math.max(rows.length, columns.length) - count) / 2) * this.pitch_;
  }
  strongest_(row) {
    const {columns, cell} = this.view;
    let best = 0;
    for (let j = 1; j < columns.length; ++j)
      if (cell(row, j).weight > cell(row, best).weight) best = j;
    return best;
  }

  point(selected, band) {
    Object.assign(this.view, {selected, band});
    const {rows, columns, cell} = this.view;
    const lines = [];
    for (let i = 0; i < rows.length; ++i) {
      const chosen = selected?.row === i;
      this.boxes_.from[i].classList.toggle("chosen", chosen);
      this.boxes_.from[i].classList.toggle("current", band === i);
      this.boxes_.from[i].classList.toggle("absent", cell(i, 0).kind === "absent");
      for (let j = 0; j < columns.length; ++j) {
        const {kind, weight} = cell(i, j);
        if (kind === "hidden" || kind === "absent" || (!chosen && weight < kFaintest)) continue;
        lines.push({i, j, weight, chosen, leaks: kind === "leak"});
      }
    }
    columns.forEach((_, j) => {
      this.boxes_.to[j].classList.toggle("chosen", selected?.column === j);
      this.boxes_.to[j].classList.toggle(
          "absent", rows.every((__, i) => cell(i, j).kind === "absent"));
    });
    // The chosen lines are drawn last.
    lines.sort((a, b) => a.chosen - b.chosen || a.weight - b.weight);
    this.drawing.replaceChildren(...lines.map((line) => this.line_(line, selected)));
  }

  line_({i, j, weight, chosen, leaks}, selected) {
    const {rows, columns} = this.view;
    const [x, right] = [this.ends_.from + 8, this.ends_.to - 8];
    const y = this.top_(i, rows.length) + this.pitch_ / 2;
    const end = this.top_(j, columns.length) + this.pitch_ / 2;
    const middle = (x + right) / 2;
    const cell = chosen && selected.column === j ? " cell" : "";
    const path = makeSvg("path", {
      class: `thread${chosen ? " chosen" : ""}${leaks ? " leak" : ""}${cell}`,
      d: `M${x} ${y} C${middle} ${y} ${middle} ${end} ${right} ${end}`,
      "stroke-width": (0.6 + 6 * weight).toFixed(2),
      "data-weight": weight.toFixed(4),
      onclick: () => this.select(i, j)
    });
    path.style.opacity =
        chosen ? Math.max(0.35, weight).toFixed(2) : (0.1 + 0.35 * weight).toFixed(2);
    return path;
  }
}
