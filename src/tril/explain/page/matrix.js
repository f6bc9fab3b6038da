// A matrix of weights: canvas for the cells, text for the tokens around them.
//
// It is one stop for the keyboard: arrows move from cell to cell, Enter opens the arithmetic.
import {make, tokenText} from "./dom.js";
import {fixed} from "./numbers.js";
import {kBoxed, paintCells} from "./painting.js";
import {displayOf} from "./text.js";

const kLabelled = 12;  // cells of so many pixels have their tokens beside them

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
  // null; band: a row or -1; mark(i) -> "same", "differs" or ""; markWidth; palette; maxCell }
  show(view) {
    this.view = view;
    this.draw();
  }

  draw() {
    this.measure_();
    this.place_();
    paintCells(this.canvas, this.view, this.cell_, {font: this.font_, family: this.family_});
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
    const typeface = `500 ${0.94 * font}px ${style.fontFamily}`;
    const widest = this.widest_(rows, typeface);
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
    const across = this.widest_(columns, typeface);
    this.upright_ = this.labelled_ && 0.86 * across <= this.cell_ - 3;
    const size = this.upright_ ? Math.min(0.94 * font, (0.94 * font * (this.cell_ - 3)) / across) :
                                 this.labelSize_();
    this.columnSize_ = size;
    this.head_ = this.upright_ ? 2.1 * font :
        this.labelled_         ? Math.min(5.6 * font, (across * size) / (0.94 * font) + font) :
                                 1.3 * font;
  }

  // Of these tokens; measured once.
  widest_(labels, typeface) {
    if (this.typeface_ !== typeface) this.widths_ = new Map();
    this.typeface_ = typeface;
    if (!this.widths_.has(labels)) {
      const pen = document.createElement("canvas").getContext("2d");
      pen.font = typeface;
      this.widths_.set(
          labels, Math.max(...labels.map((label) => pen.measureText(displayOf(label)).width)));
    }
    return this.widths_.get(labels);
  }

  labelSize_() {
    return Math.min(0.94 * this.font_, Math.max(8.5, this.cell_ * 0.62));
  }

  // A box beside the field, `count` cells long.
  box_(node, index, side, size, count = 1) {
    const box = make("span", {class: "label"}, node);
    box.style[side] = `${index * this.cell_}px`;
    box.style[side === "left" ? "width" : "height"] = `${count * this.cell_}px`;
    if (this.labelled_) box.style.fontSize = `${size}px`;
    return box;
  }

  place_() {
    this.placeMarks_();
    const {rows, columns} = this.view;
    const cell = this.cell_;
    // Tokens stay where they are while only weights change.
    const layout = [cell, this.labels_, this.head_, this.columnSize_].join(" ");
    if (layout === this.layout_ && rows === this.placed_.rows && columns === this.placed_.columns) {
      return;
    }
    this.layout_ = layout;
    this.placed_ = {rows, columns};
    this.grid.style.setProperty("--labels", `${this.labels_}px`);
    this.grid.style.setProperty("--field", `${cell * columns.length}px`);
    this.grid.style.setProperty("--head", `${this.head_}px`);
    this.grid.classList.toggle("upright", this.upright_);
    this.grid.classList.toggle("dense", !this.labelled_);
    this.grid.classList.toggle("fine", cell < kBoxed);
    const boxes = (labels, side, size) =>
        new Map(labels.map((one, index) => [index, one])
                    .filter(([index]) => this.labelled_ || index === 0 || (index + 1) % 10 === 0)
                    .map(([index, one]) => {
                      const node = this.labelled_ ?
                          tokenText(one) :
                          make("span", {class: "tick"}, String(index + 1));
                      return [index, this.box_(node, index, side, size)];
                    }));
    this.columnBoxes_ = boxes(columns, "left", this.columnSize_);
    this.rowBoxes_ = boxes(rows, "top", this.labelSize_());
    this.columns.replaceChildren(...this.columnBoxes_.values());
    this.rows.replaceChildren(...this.rowBoxes_.values());
    this.rows.style.height = `${cell * rows.length}px`;
    this.field.style.width = `${cell * columns.length}px`;
    this.field.style.height = `${cell * rows.length}px`;
  }

  // Beside each row whether its bits are the same; where rows are thin, a bar for rows alike.
  placeMarks_() {
    const {rows, mark} = this.view;
    const boxes = [];
    for (let i = 0; i < rows.length;) {
      const kind = mark(i);
      let end = i + 1;
      while (!this.labelled_ && end < rows.length && mark(end) === kind) ++end;
      if (kind !== "") {
        const same = kind === "same";
        const title = same ? "the same bits" : "other bits";
        const node = make("span", {class: kind, title}, this.labelled_ ? (same ? "=" : "≠") : "");
        boxes.push(this.box_(node, i, "top", this.labelSize_(), end - i));
      }
      i = end;
    }
    this.marks.replaceChildren(...boxes);
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
    this.emphasise_(this.rowBoxes_, selected?.row, "chosen");
    this.emphasise_(this.columnBoxes_, selected?.column, "chosen");
    this.emphasise_(this.rowBoxes_, band, "current");
    this.readout_(selected);
  }

  emphasise_(boxes, index, name) {
    for (const box of boxes.values()) {
      if (box.classList.contains(name)) box.classList.remove(name);
    }
    boxes.get(index)?.classList.add(name);
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
