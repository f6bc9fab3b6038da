// Vectors as rows of bars.
import {make, makeSvg} from "./dom.js";

const kBar = {
  width: 4,
  height: 26
};

// A row of bars above and below a line, one for each dimension.
export function strip(name, values, most, kind) {
  const {width, height} = kBar;
  const all = width * values.length;
  const bars = {plus: "", minus: ""};
  values.forEach((value, d) => {
    const length = most === 0 ? 0 : Math.max(0.4, (Math.abs(value) / most) * (height / 2 - 1));
    const [sign, up] = value >= 0 ? ["plus", -length] : ["minus", length];
    bars[sign] += `M${d * width + 0.5} ${height / 2}v${up}h${width - 1}v${- up}z`;
  });
  return make(
      "div", {class: `strip ${kind}`}, make("span", {class: "lane"}, name),
      makeSvg(
          "svg",
          {viewBox: `0 0 ${all} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true"},
          makeSvg("line", {x1: 0, x2: all, y1: height / 2, y2: height / 2}),
          makeSvg("path", {class: "plus", d: bars.plus}),
          makeSvg("path", {class: "minus", d: bars.minus})));
}

export function largest(...lists) {
  return Math.max(...lists.flatMap((list) => [...list].map(Math.abs)));
}
