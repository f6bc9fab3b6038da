// Paints the cells of a matrix on a canvas; what they mean is in matrix.js.
import {fixed} from "./numbers.js";

export const kBoxed = 24;  // cells of so many pixels are boxes of their own
const kDense = 12;         // smaller ones are pixels of one picture
const kNumbered = 38;      // and from here on a cell has its weight in it

// The page's colours, as the theme sets them.
function coloursOf(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    hidden: colour("--hidden"),
    hiddenInk: colour("--hidden-ink"),
    absent: colour("--absent"),
    hatch: colour("--hatch"),
    card: colour("--card")
  };
}

// "#f0eee8" -> [240, 238, 232].
export function rgbOf(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// view: as Matrix.show takes it; size: of a cell, { width, height }; text: { font, family }.
export function paintCells(canvas, view, size, text) {
  const {rows, columns} = view;
  const ratio = globalThis.devicePixelRatio || 1;
  const [width, height] = [size.width * columns.length, size.height * rows.length];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = coloursOf(canvas);
  const lines = new Path2D();  // the hatch of all leaks, drawn at once
  const side = Math.min(size.width, size.height);
  if (side < kDense) {
    paintPicture(pen, view, size, colours, lines);
  } else {
    paintBoxes(pen, view, size, colours, lines, text);
  }
  pen.strokeStyle = colours.hatch;
  pen.lineWidth = side >= kBoxed ? 1.25 : 0.75;
  pen.stroke(lines);
  if (side >= kNumbered) paintNumbers(pen, view, size);
}

// Thousands of cells: one pixel each, enlarged, with thin lines between them.
function paintPicture(pen, {rows, columns, cell: look, palette}, size, colours, lines) {
  const [width, height] = [columns.length, rows.length];
  const image = new ImageData(width, height);
  const hidden = rgbOf(colours.hidden);
  for (let i = 0, at = 0; i < height; ++i) {
    for (let j = 0; j < width; ++j, at += 4) {
      const {kind, weight} = look(i, j);
      if (kind === "absent") continue;
      const colour = kind === "hidden" ? hidden : palette.rgb(weight, kind === "leak");
      for (let part = 0; part < 3; ++part) image.data[at + part] = colour[part];
      image.data[at + 3] = 255;
      if (kind === "leak") hatch(lines, j * size.width, i * size.height, size.width, size.height);
    }
  }
  const small = document.createElement("canvas");
  Object.assign(small, {width, height});
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  const [right, bottom] = [width * size.width, height * size.height];
  pen.drawImage(small, 0, 0, right, bottom);
  if (Math.min(size.width, size.height) < 5) return;
  pen.fillStyle = colours.card;
  for (let j = 1; j < width; ++j) pen.fillRect(j * size.width - 0.25, 0, 0.5, bottom);
  for (let i = 1; i < height; ++i) pen.fillRect(0, i * size.height - 0.25, right, 0.5);
}

function paintBoxes(pen, {rows, columns, cell: look, palette}, size, colours, lines, text) {
  const boxed = Math.min(size.width, size.height) >= kBoxed;
  const gap = boxed ? 3 : 1.5;
  const [wide, tall] = [size.width - gap, size.height - gap];
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = `500 ${Math.min(0.95 * text.font, size.width * 0.3)}px ${text.family}`;
  for (let i = 0; i < rows.length; ++i) {
    for (let j = 0; j < columns.length; ++j) {
      const {kind, weight} = look(i, j);
      if (kind === "absent" && !boxed) continue;
      const [left, top] = [j * size.width + gap / 2, i * size.height + gap / 2];
      pen.beginPath();
      pen.roundRect(left, top, wide, tall, boxed ? 5 : 1);
      if (kind === "absent") {
        pen.strokeStyle = colours.absent;
        pen.setLineDash([2, 3]);
        pen.stroke();
        pen.setLineDash([]);
        continue;
      }
      pen.fillStyle = kind === "hidden" ? colours.hidden : palette.css(weight, kind === "leak");
      pen.fill();
      if (kind === "leak") hatch(lines, left, top, wide, tall);
      if (kind === "hidden" && boxed) {
        pen.fillStyle = colours.hiddenInk;
        pen.fillText("−∞", (j + 0.5) * size.width, (i + 0.5) * size.height + 1);
      }
    }
  }
}

// Leaks are marked by a pattern as well as by their colour: lines that rise to the right.
function hatch(lines, left, top, wide, tall) {
  const side = Math.min(wide, tall);
  const pitch = side >= 20 ? 7 : Math.max(3, side);
  for (let at = pitch; at < wide + tall; at += pitch) {
    const [right, down] = [Math.min(at, wide), Math.min(at, tall)];
    lines.moveTo(left + right, top + at - right);
    lines.lineTo(left + at - down, top + down);
  }
}

// On top of everything else; a leak's lines are cleared behind its digits.
function paintNumbers(pen, {rows, columns, cell: look, palette}, size) {
  for (let i = 0; i < rows.length; ++i) {
    for (let j = 0; j < columns.length; ++j) {
      const {kind, weight} = look(i, j);
      if (kind !== "seen" && kind !== "leak") continue;
      const text = fixed(weight, 2);
      const [x, y] = [(j + 0.5) * size.width, (i + 0.5) * size.height + 1];
      if (kind === "leak") {
        pen.fillStyle = palette.css(weight, true);
        const half = pen.measureText(text).width / 2 + 2;
        pen.fillRect(x - half, y - 0.2 * size.height, 2 * half, 0.36 * size.height);
      }
      pen.fillStyle = `rgb(${palette.ink(weight, kind === "leak").join(" ")})`;
      pen.fillText(text, x, y);
    }
  }
}
