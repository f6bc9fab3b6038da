// A matrix of weights: canvas for the cells, text for the tokens around them.
//
// It is one stop for the keyboard: arrows move from cell to cell, Enter opens the arithmetic.
import {make, tokenText} from "./dom.js";
import {fixed} from "./numbers.js";

const kLabelled = 12;  // cells of so many pixels have their tokens beside them
const kBoxed = 24;     // from here on cells that are not there yet have an outline
const kNumbered = 38;  // and from here on their weight in them

// What a cell is: seen (a weight), hidden (by the mask), leak (seen because the mask is off),
// absent (does not exist at this step).
export class Matrix {
  // `select(row, column, opens)` is called for a click, a key, Enter.
  constructor(host, {label, select}) {
    this.select = select;
    this.canvas = make("canvas", {"aria-hidden": "true"});
    this.band = make("div", {class: "band", hidden: true});
    this.cursor = make("div", {class: "cursor", hidden: true});
    this.field = make(
        "div", {
          class: "field",
          tabindex: "0",
          role: "application",
          "aria-label": label,
          "aria-roledescription": "attention matrix",
          onkeydown: (event) => this.key_(event),
          onclick: (event) => this.click_(event),
          onpointermove: (event) => this.hover_(event),
          onpointerleave: () => this.readout_(this.selected_())
        },
        this.canvas, this.band, this.cursor);
    this.columns = make("div", {class: "column-labels", "aria-hidden": "true"});
    this.rows = make("div", {class: "row-labels", "aria-hidden": "true"});
    this.marks = make("div", {class: "row-marks"});
    this.readout = make("p", {class: "readout"});
    this.grid = make("div", {class: "matrix"}, this.columns, this.rows, this.field, this.marks);
    host.append(this.grid, this.readout);
    this.view = null;
    this.width_ = 0;
    new ResizeObserver(() => {
      if (this.view && this.grid.clientWidth !== this.width_) this.draw();
    }).observe(this.grid);
  }

  // view: { rows, columns: labels; cell(i, j) -> { kind, weight }; selected: { row, column } or
  // null; band: a row or -1; mark(i) -> node or null; palette; maxCell; readsAs, sees: words }
  show(view) {
    this.view = view;
    this.draw();
  }

  draw() {
    this.measure_();
    this.place_();
    this.paint_();
    this.point_();
  }
  // Only what is selected or stands out has changed.
  point(selected, band) {
    Object.assign(this.view, {selected, band});
    this.point_();
  }

  measure_() {
    const {rows, columns, maxCell} = this.view;
    const style = getComputedStyle(this.grid);
    const font = parseFloat(style.fontSize);
    const available = this.width_ = this.grid.clientWidth;
    const measure = document.createElement("canvas").getContext("2d");
    measure.font = `500 ${0.94 * font}px ${style.fontFamily}`;
    const widestOf = (labels) =>
        Math.max(...labels.map((label) => measure.measureText(label.text).width));
    const widest = widestOf(rows);
    const marks = this.view.markWidth * font;
    this.labels_ = Math.min(widest + 1.4 * font, available * 0.26);
    let cell = Math.floor((available - this.labels_ - marks) / columns.length);
    this.labelled_ = cell >= kLabelled;
    if (!this.labelled_) {
      this.labels_ = 1.9 * font;
      cell = Math.floor(((available - this.labels_ - marks) / columns.length) * 4) / 4;
    }
    this.cell_ = Math.max(3, Math.min(cell, maxCell));
    this.font_ = font;
    this.family_ = style.fontFamily;
    // Tokens stand upright above their columns where they fit, if need be a little smaller.
    const across = widestOf(columns);
    this.upright_ = this.labelled_ && 0.86 * across <= this.cell_ - 3;
    const size = this.upright_ ? Math.min(0.94 * font, (0.94 * font * (this.cell_ - 3)) / across) :
                                 this.labelSize_();
    this.columnSize_ = size;
    this.head_ = this.upright_ ? 2.1 * font :
        this.labelled_         ? Math.min(5.6 * font, (across * size) / (0.94 * font) + font) :
                                 1.3 * font;
  }

  labelSize_() {
    return Math.min(0.94 * this.font_, Math.max(8.5, this.cell_ * 0.62));
  }

  place_() {
    const {rows, columns, mark} = this.view;
    const cell = this.cell_;
    const layout = [cell, this.labels_, this.head_, this.columnSize_].join(" ");
    const set = (box, index, vertical, size) => {
      box.style[vertical ? "left" : "top"] = `${index * cell}px`;
      box.style[vertical ? "width" : "height"] = `${cell}px`;
      if (this.labelled_) box.style.fontSize = `${size}px`;
      return box;
    };
    this.marks.replaceChildren(...rows.map(
        (one, i) => set(
            make("span", {class: "label"}, mark(i, this.labelled_)), i, false, this.labelSize_())));
    // Tokens stay where they are while only weights change.
    if (layout === this.layout_ && rows === this.placed_?.rows && columns === this.placed_?.columns)
      return;
    this.layout_ = layout;
    this.placed_ = {rows, columns};
    this.grid.style.setProperty("--labels", `${this.labels_}px`);
    this.grid.style.setProperty("--field", `${cell * columns.length}px`);
    this.grid.style.setProperty("--head", `${this.head_}px`);
    this.grid.classList.toggle("upright", this.upright_);
    this.grid.classList.toggle("dense", !this.labelled_);
    this.grid.classList.toggle("fine", cell < kBoxed);
    const label = (one, index, vertical, size) => {
      const tick = index === 0 || (index + 1) % 10 === 0 ? String(index + 1) : "";
      const node = this.labelled_ ? tokenText(one) : make("span", {class: "tick"}, tick);
      return set(make("span", {class: "label"}, node), index, vertical, size);
    };
    this.columns.replaceChildren(...columns.map((one, j) => label(one, j, true, this.columnSize_)));
    this.rows.replaceChildren(...rows.map((one, i) => label(one, i, false, this.labelSize_())));
    this.rows.style.height = `${cell * rows.length}px`;
    this.field.style.width = `${cell * columns.length}px`;
    this.field.style.height = `${cell * rows.length}px`;
  }

  paint_() {
    const {rows, columns, cell: look, palette} = this.view;
    const size = this.cell_;
    const ratio = globalThis.devicePixelRatio || 1;
    const {canvas} = this;
    canvas.width = Math.round(size * columns.length * ratio);
    canvas.height = Math.round(size * rows.length * ratio);
    canvas.style.width = `${size * columns.length}px`;
    canvas.style.height = `${size * rows.length}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.grid);
    const colours = {
      hidden: style.getPropertyValue("--hidden"),
      hiddenInk: style.getPropertyValue("--hidden-ink"),
      absent: style.getPropertyValue("--absent"),
      hatch: style.getPropertyValue("--hatch")
    };
    const gap = size >= 24 ? 3 : size >= 12 ? 1.5 : size >= 6 ? 0.5 : 0;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `500 ${Math.min(0.95 * this.font_, size * 0.3)}px ${this.family_}`;
    const lines = new Path2D();  // of all leaks, drawn at once
    for (let i = 0; i < rows.length; ++i) {
      for (let j = 0; j < columns.length; ++j) {
        this.paintCell_(
            pen, look(i, j), {x: j * size, y: i * size, size, gap}, palette, colours, lines);
      }
    }
    pen.strokeStyle = colours.hatch;
    pen.lineWidth = size >= 24 ? 1.25 : 0.75;
    pen.stroke(lines);
    if (size >= kNumbered) this.number_(pen);
  }

  // Above everything else, so that no line crosses a digit unseen.
  number_(pen) {
    const {rows, columns, cell: look, palette} = this.view;
    const size = this.cell_;
    for (let i = 0; i < rows.length; ++i) {
      for (let j = 0; j < columns.length; ++j) {
        const {kind, weight} = look(i, j);
        if (kind !== "seen" && kind !== "leak") continue;
        const text = fixed(weight, 2);
        const [x, y] = [(j + 0.5) * size, (i + 0.5) * size + 1];
        if (kind === "leak") {
          pen.fillStyle = palette.css(weight, true);
          const half = pen.measureText(text).width / 2 + 2;
          pen.fillRect(x - half, y - 0.2 * size, 2 * half, 0.36 * size);
        }
        pen.fillStyle = `rgb(${palette.ink(weight, kind === "leak").join(" ")})`;
        pen.fillText(text, x, y);
      }
    }
  }

  paintCell_(pen, {kind, weight}, {x, y, size, gap}, palette, colours, lines) {
    const side = size - gap;
    const [left, top] = [x + gap / 2, y + gap / 2];
    const box = () => {
      pen.beginPath();
      pen.roundRect(left, top, side, side, size >= 24 ? 5 : 0);
    };
    if (kind === "absent") {
      if (size < kBoxed) return;
      box();
      pen.strokeStyle = colours.absent;
      pen.setLineDash([2, 3]);
      pen.lineWidth = 1;
      pen.stroke();
      pen.setLineDash([]);
      return;
    }
    if (kind === "hidden") {
      pen.fillStyle = colours.hidden;
      box();
      pen.fill();
      pen.fillStyle = colours.hiddenInk;
      if (size >= 26) {
        pen.fillText("−∞", x + size / 2, y + size / 2 + 1);
      } else if (size >= 7) {
        pen.fillRect(x + size / 2 - 0.5, y + size / 2 - 0.5, 1, 1);
      }
      return;
    }
    const leaks = kind === "leak";
    pen.fillStyle = palette.css(weight, leaks);
    if (size >= 12) {
      box();
      pen.fill();
    } else {
      pen.fillRect(left, top, side, side);
    }
    if (leaks) this.hatch_(lines, left, top, side);
  }

  // Leaks are told by a pattern as well as by their colour.
  hatch_(lines, left, top, side) {
    const pitch = side >= 20 ? 7 : Math.max(3, side);
    for (let at = pitch; at < 2 * side; at += pitch) {
      const over = Math.max(0, at - side);
      lines.moveTo(left + at - over, top + over);
      lines.lineTo(left + over, top + at - over);
    }
  }

  selected_() {
    return this.view?.selected ?? null;
  }

  point_() {
    const {selected, band, columns} = this.view;
    const cell = this.cell_;
    this.band.hidden = band < 0;
    if (band >= 0) {
      this.band.style.top = `${band * cell}px`;
      this.band.style.height = `${cell}px`;
      this.band.style.width = `${cell * columns.length}px`;
    }
    this.cursor.hidden =
        selected === null || this.view.cell(selected.row, selected.column).kind === "absent";
    if (selected !== null) {
      this.cursor.style.left = `${selected.column * cell}px`;
      this.cursor.style.top = `${selected.row * cell}px`;
      this.cursor.style.width = this.cursor.style.height = `${cell}px`;
    }
    for (const [labels, chosen] of [[this.rows, selected?.row], [this.columns, selected?.column]]) {
      [...labels.children].forEach(
          (box, index) => box.classList.toggle("chosen", index === chosen));
    }
    [...this.rows.children].forEach(
        (box, index) => box.classList.toggle("current", index === band));
    this.readout_(selected);
  }

  // One line in words: what the cell under the pointer, or the chosen one, says.
  readout_(place) {
    if (place === null) {
      this.readout.replaceChildren("\u00a0");
      return;
    }
    const {rows, columns, cell: look} = this.view;
    const {kind, weight} = look(place.row, place.column);
    const says = {
      seen: `weight ${fixed(weight, 3)}`,
      leak: `weight ${fixed(weight, 3)}, from the future`,
      hidden: "hidden: −∞, weight exactly 0",
      absent: "not there yet"
    }[kind];
    this.readout.replaceChildren(
        tokenText(rows[place.row]), " looks at ", tokenText(columns[place.column]), `: ${says} `,
        make("a", {class: "open", href: "#arithmetic"}, "Work it out"));
  }

  at_(event) {
    const box = this.field.getBoundingClientRect();
    const within = (value, count) =>
        Math.min(count - 1, Math.max(0, Math.floor(value / this.cell_)));
    return {
      row: within(event.clientY - box.top, this.view.rows.length),
      column: within(event.clientX - box.left, this.view.columns.length)
    };
  }
  click_(event) {
    const {row, column} = this.at_(event);
    this.select(row, column, false);
  }
  hover_(event) {
    if (event.pointerType !== "touch") this.readout_(this.at_(event));
  }

  key_(event) {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const {rows, columns} = this.view;
    const {row, column} = this.selected_() ?? {row: 0, column: 0};
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter") {
      this.select(row, column, true);
    } else if (event.key in moves) {
      const [down, right] = moves[event.key];
      this.select(
          Math.min(rows.length - 1, Math.max(0, row + down)),
          Math.min(columns.length - 1, Math.max(0, column + right)), false);
    } else if (event.key === "Home" || event.key === "End") {
      this.select(row, event.key === "Home" ? 0 : columns.length - 1, false);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
