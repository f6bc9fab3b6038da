// A matrix of weights: canvas for the cells, text for the tokens around them.
//
// It fits into the space it is given as long as each token keeps its name beside its row or column;
// beyond that it scrolls, and the names stay. For the keyboard it is one stop: arrows move from
// cell to cell, Enter opens the arithmetic. For those who cannot see it, the table below has the
// same numbers.
import {make, tokenText} from "./dom.js";
import {Lines} from "./lines.js";
import {fixed} from "./numbers.js";
import {kBoxed, paintCells} from "./painting.js";
import {displayOf} from "./text.js";
import {say, sayNodes} from "./words.js";

// Kinds of cell: seen (a weight), hidden (by the mask), leak (seen because the mask is off), absent
// (does not exist at this step).
export class Matrix {
  // `label` says what it shows; `select(row, column, opens)` is called for a click, a key, Enter;
  // `room()` returns the height it may take.
  constructor(host, {label, select, room}) {
    Object.assign(this, {label, select, room});
    this.canvas = make("canvas", {"aria-hidden": "true"});
    this.band = make("div", {class: "band", hidden: true});
    this.cursor = make("div", {class: "cursor", hidden: true});
    this.field = make(
        "div", {
          class: "field",
          tabindex: "0",
          role: "group",
          onkeydown: (event) => this.key_(event),
          onclick: (event) => this.click_(event),
          onpointermove: (event) => this.hover_(event),
          onpointerleave: () => this.readout_(this.selected_())
        },
        this.canvas, this.band, this.cursor);
    this.columns = make("div", {class: "column-labels", "aria-hidden": "true"});
    this.rows = make("div", {class: "row-labels", "aria-hidden": "true"});
    this.ends = make("div", {class: "row-ends"});
    this.readout = make("p", {class: "readout"});
    this.grid = make(
        "div", {class: "matrix"}, make("div", {class: "corner"}), this.columns,
        make("div", {class: "corner end"}), this.rows, this.field, this.ends);
    this.lines = new Lines((row, column) => this.select(row, column, false));
    this.web = this.lines.web;
    this.web.tabIndex = 0;
    this.web.setAttribute("role", "group");
    this.web.addEventListener("keydown", (event) => this.key_(event));
    this.scroller = make("div", {class: "matrix-scroll"}, this.grid, this.web);
    this.table = make("table", {class: "weights"});
    this.details = make(
        "details", {class: "as-table", ontoggle: () => this.fillTable_()},
        make("summary", {}, say("as_table")),
        make(
            "div", {class: "scrolls", tabindex: "0", role: "region", "aria-label": label},
            this.table));
    host.append(this.scroller, this.readout, this.details);
    this.view = null;
    this.width_ = 0;
    new ResizeObserver(() => {
      if (this.view && this.scroller.clientWidth !== this.width_) this.draw();
    }).observe(this.scroller);
  }

  // view: { rows, columns: labels; ends: labels after the rows, or null; cell(i, j) -> { kind,
  // weight }; selected: { row, column } or null; band: a row or -1; mark(i) -> "same", "differs" or
  // ""; marks: whether any row has one; palette; maxCell; fits: all of it, however small; lines:
  // words joined by lines instead of cells; layer; head }
  show(view) {
    this.view = view;
    this.draw();
    this.fillTable_();
  }

  draw() {
    if (this.scroller.clientWidth === 0) return;  // nobody sees it
    this.grid.hidden = this.view.lines;
    this.web.hidden = !this.view.lines;
    if (this.view.lines) {
      this.drawLines_();
      return;
    }
    this.measure_();
    this.place_();
    paintCells(
        this.canvas, this.view, {width: this.cell_, height: this.tall_},
        {font: this.font_, family: this.family_});
    this.point_();
  }
  // Only the selection or the highlighted row has changed.
  point(selected, band) {
    Object.assign(this.view, {selected, band});
    if (this.scroller.clientWidth === 0) return;
    if (this.view.lines) {
      this.pointLines_();
    } else {
      this.point_();
    }
  }

  drawLines_() {
    const {rows, columns, fits} = this.view;
    const font = parseFloat(getComputedStyle(this.scroller).fontSize);
    const wide = this.width_ = this.scroller.clientWidth;
    const tall = fits ? 60 * font : this.room();
    this.scroller.style.maxHeight = fits ? "" : `${Math.ceil(tall)}px`;
    this.web.setAttribute(
        "aria-label",
        say("matrix_label", {what: this.label, rows: rows.length, columns: columns.length}));
    this.lines.draw(this.view, {wide, tall: tall - 4, font});
    this.pointLines_();
  }
  pointLines_() {
    const {selected, band} = this.view;
    this.lines.point(selected, band);
    this.readout_(selected);
    const box = this.scroller;
    const row = this.lines.boxes_.from[band >= 0 ? band : selected?.row ?? 0];
    if (row.offsetTop < box.scrollTop)
      box.scrollTop = row.offsetTop - row.offsetHeight;
    else if (row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight)
      box.scrollTop = row.offsetTop + 2 * row.offsetHeight - box.clientHeight;
  }

  // The size of a cell: square while it is a box, otherwise as the space allows, but large enough
  // for the names beside it.
  measure_() {
    const {rows, columns, ends, marks, maxCell, fits} = this.view;
    const style = getComputedStyle(this.grid);
    const font = this.font_ = parseFloat(style.fontSize);
    this.family_ = style.fontFamily;
    const wide = this.width_ = this.scroller.clientWidth;
    const tall = fits ? Infinity : this.room();
    const typeface = `500 ${0.94 * font}px ${style.fontFamily}`;
    const [across, beside] = [this.widest_(columns, typeface), this.widest_(rows, typeface)];
    this.labels_ = Math.min(beside + 1.4 * font, 0.4 * wide);
    this.after_ = (marks ? 2.2 * font : 0.3 * font) +
        (ends ? Math.min(this.widest_(ends, typeface) + 1.6 * font, 0.3 * wide) : 0);
    const least = fits ? 3 : font;
    const within = (size) => Math.max(least, Math.min(size, maxCell));
    let width = within((wide - this.labels_ - this.after_) / columns.length);
    let height = 0;
    for (let turn = 0; turn < 2; ++turn) {
      this.upright_ = 0.86 * across <= width - 3;
      this.columnSize_ = this.upright_ ?
          Math.min(0.94 * font, (0.94 * font * (width - 3)) / across) :
          this.labelSize_(width);
      this.head_ = this.upright_ ?
          2.1 * font :
          Math.min(8 * font, (across * this.columnSize_) / (0.94 * font) + 0.9 * font);
      height = within((tall - this.head_ - 4) / rows.length);
      if (Math.min(width, height) >= kBoxed) width = height = Math.min(width, height);
    }
    const whole = (size) => (size >= 12 ? Math.floor(size) : Math.floor(size * 4) / 4);
    this.cell_ = whole(Math.min(width, 2 * height));
    this.tall_ = whole(Math.min(height, 2 * width));
    this.scroller.style.maxHeight = fits ? "" : `${Math.ceil(tall)}px`;
  }

  // The width of the widest of these tokens; measured once.
  widest_(labels, typeface) {
    return Math.max(...labels.map((label) => this.length_(label, typeface)));
  }
  length_(label, typeface) {
    if (this.typeface_ !== typeface) {
      this.widths_ = new Map();
      this.pen_ = document.createElement("canvas").getContext("2d");
      this.pen_.font = typeface;
    }
    this.typeface_ = typeface;
    const text = displayOf(label);
    if (!this.widths_.has(text)) this.widths_.set(text, this.pen_.measureText(text).width);
    return this.widths_.get(text);
  }

  labelSize_(cell) {
    return Math.min(0.94 * this.font_, Math.max(0.72 * cell, Math.min(8.5, 0.9 * cell)));
  }

  // A box beside the cells, `count` cells long. A token that is too long for its place is cut;
  // other tokens get no clipping box, which could cut their marks.
  box_(index, side, size, place, ...nodes) {
    const box = make("span", {class: "label"}, ...nodes);
    const cell = side === "left" ? this.cell_ : this.tall_;
    box.style[side] = `${index * cell}px`;
    box.style[side === "left" ? "width" : "height"] = `${cell}px`;
    box.style.fontSize = `${size}px`;
    if (place !== null) {
      const length = this.length_(place.label, this.typeface_) * size / (0.94 * this.font_);
      box.classList.toggle("cut", length > place.length);
    }
    return box;
  }

  place_() {
    const {rows, columns} = this.view;
    this.placeEnds_();
    // Tokens stay where they are while only weights change.
    const layout = [this.cell_, this.tall_, this.labels_, this.head_, this.columnSize_].join(" ");
    if (layout === this.layout_ && rows === this.placed_.rows && columns === this.placed_.columns) {
      return;
    }
    this.layout_ = layout;
    this.placed_ = {rows, columns};
    const [width, height] = [this.cell_ * columns.length, this.tall_ * rows.length];
    this.grid.style.setProperty("--labels", `${this.labels_}px`);
    this.grid.style.setProperty("--field", `${width}px`);
    this.grid.style.setProperty("--ends", `${this.after_}px`);
    this.grid.style.setProperty("--head", `${this.head_}px`);
    this.grid.classList.toggle("upright", this.upright_);
    this.grid.classList.toggle("fine", Math.min(this.cell_, this.tall_) < kBoxed);
    const boxes = (labels, side, size, length) => new Map(
        labels.map((label, i) => [i, this.box_(i, side, size, {label, length}, tokenText(label))]));
    this.columnBoxes_ = boxes(
        columns, "left", this.columnSize_,
        this.upright_ ? this.cell_ + 2 : this.head_ - 0.3 * this.font_);
    this.rowBoxes_ =
        boxes(rows, "top", this.labelSize_(this.tall_), this.labels_ - 0.6 * this.font_);
    this.columns.replaceChildren(...this.columnBoxes_.values());
    this.rows.replaceChildren(...this.rowBoxes_.values());
    for (const part of [this.rows, this.ends, this.field]) part.style.height = `${height}px`;
    this.field.style.width = `${width}px`;
    this.field.setAttribute(
        "aria-label",
        say("matrix_label", {what: this.label, rows: rows.length, columns: columns.length}));
  }

  // After each row: what is predicted from it, and whether its bits are the same.
  placeEnds_() {
    const {rows, mark, ends} = this.view;
    const size = this.labelSize_(this.tall_);
    const boxes = [];
    for (let i = 0; i < rows.length; ++i) {
      const kind = mark(i);
      const predicted = ends && kind !== "absent" ?
          [make("span", {class: "arrow", "aria-hidden": "true"}, "→"), tokenText(ends[i])] :
          [];
      const title = kind === "same" ? say("same_bits") : say("other_bits");
      const sign = kind === "same" || kind === "differs" ?
          [make("span", {class: kind, title}, kind === "same" ? "=" : "≠")] :
          [];
      if (predicted.length + sign.length === 0) continue;
      const place = ends ? {label: ends[i], length: this.after_ - 3.4 * this.font_} : null;
      boxes.push(this.box_(i, "top", size, place, ...predicted, ...sign));
    }
    this.ends.replaceChildren(...boxes);
  }

  selected_() {
    return this.view?.selected ?? null;
  }

  point_() {
    const {selected, band, columns} = this.view;
    const [cell, tall] = [this.cell_, this.tall_];
    this.band.hidden = band < 0;
    if (band >= 0) {
      this.band.style.top = `${band * tall}px`;
      this.band.style.height = `${tall}px`;
      this.band.style.width = `${cell * columns.length}px`;
    }
    this.cursor.hidden =
        selected === null || this.view.cell(selected.row, selected.column).kind === "absent";
    if (selected !== null) {
      this.cursor.style.left = `${selected.column * cell}px`;
      this.cursor.style.top = `${selected.row * tall}px`;
      this.cursor.style.width = `${cell}px`;
      this.cursor.style.height = `${tall}px`;
    }
    this.emphasise_(this.rowBoxes_, selected?.row, "chosen");
    this.emphasise_(this.columnBoxes_, selected?.column, "chosen");
    this.emphasise_(this.rowBoxes_, band, "current");
    this.readout_(selected);
    this.reveal_(band >= 0 ? band : selected?.row ?? 0, selected?.column ?? 0);
  }

  // Scrolls the row and the column into the visible part.
  reveal_(row, column) {
    const box = this.scroller;
    const into = (begin, length, from, seen, before, after) => {
      if (begin < from) return Math.max(0, begin - before);
      if (begin + length > from + seen) return begin + length - seen + after;
      return from;
    };
    if (box.scrollHeight > box.clientHeight + 1) {
      const seen = box.clientHeight - this.head_;
      box.scrollTop =
          into(row * this.tall_, this.tall_, box.scrollTop, seen, this.tall_, this.tall_);
    }
    if (box.scrollWidth > box.clientWidth + 1) {
      const seen = box.clientWidth - this.labels_ - this.after_;
      box.scrollLeft =
          into(column * this.cell_, this.cell_, box.scrollLeft, seen, this.cell_, this.cell_);
    }
  }

  emphasise_(boxes, index, name) {
    for (const box of boxes.values()) {
      if (box.classList.contains(name)) box.classList.remove(name);
    }
    boxes.get(index)?.classList.add(name);
  }

  // One line in words about the cell under the pointer, or the chosen one.
  readout_(place) {
    if (place === null) {
      this.readout.replaceChildren("\u00a0");
      return;
    }
    const {kind, weight} = this.view.cell(place.row, place.column);
    this.readout.replaceChildren(
        ...lookWords(this.view, place.row, place.column), ": ",
        say(`says_${kind}`, {weight: fixed(weight, 3)}));
  }

  // All cells as a table, while it is open.
  fillTable_() {
    if (!this.details.open || !this.view) return;
    const {rows, columns, ends, layer, head} = this.view;
    const says = ({kind, weight}) => kind === "seen" ? fixed(weight, 3) :
        kind === "leak" ? say("table_leak", {weight: fixed(weight, 3)}) :
                          say(`table_${kind}`);
    const named = (i) =>
        ends ? [tokenText(rows[i]), " → ", tokenText(ends[i])] : [tokenText(rows[i])];
    this.table.replaceChildren(
        make(
            "caption", {},
            say("table_caption", {what: this.label, layer: layer + 1, head: head + 1})),
        make(
            "thead", {},
            make(
                "tr", {}, make("td", {}),
                ...columns.map((one) => make("th", {scope: "col"}, tokenText(one))))),
        make(
            "tbody", {},
            ...rows.map(
                (_, i) => make(
                    "tr", {}, make("th", {scope: "row"}, ...named(i)),
                    ...columns.map((__, j) => make("td", {}, says(this.view.cell(i, j))))))));
  }

  at_(event) {
    const box = this.field.getBoundingClientRect();
    const within = (value, size, count) =>
        Math.min(count - 1, Math.max(0, Math.floor(value / size)));
    return {
      row: within(event.clientY - box.top, this.tall_, this.view.rows.length),
      column: within(event.clientX - box.left, this.cell_, this.view.columns.length)
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

// "किताब (→ पढ़) looks at reading", as texts and nodes.
export function lookWords({rows, columns, ends}, row, column) {
  const [query, key] = [tokenText(rows[row]), tokenText(columns[column])];
  return ends ? sayNodes("looks_at_predicting", {query, key, predicted: tokenText(ends[row])}) :
                sayNodes("looks_at", {query, key});
}
