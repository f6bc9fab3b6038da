// Colours for weights: two perceptually even ramps, computed in OKLCH (Ottosson 2020).
//
// A ramp runs from the page's own background to its strongest ink, and lightness alone gives the
// order, so it reads the same with all kinds of colour vision and in print. Leaks have a ramp of
// their own, which differs in hue and is hatched as well.

const kSteps = 256;

function linearToByte(x) {
  const bounded = Math.min(1, Math.max(0, x));
  const encoded = bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
  return Math.round(255 * encoded);
}

function byteToLinear(byte) {
  const x = byte / 255;
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
}

// Lightness 0 to 1, chroma, hue in degrees -> [red, green, blue], 0 to 255 each.
export function oklchToRgb(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    linearToByte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    linearToByte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    linearToByte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

// Relative luminance and contrast as WCAG 2 defines them.
export function luminance([red, green, blue]) {
  return 0.2126 * byteToLinear(red) + 0.7152 * byteToLinear(green) + 0.0722 * byteToLinear(blue);
}
export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

// Each end: [lightness, chroma, hue].
const kEnds = {
  light: {
    weight: [[0.965, 0.012, 235], [0.33, 0.125, 268]],
    leak: [[0.95, 0.03, 60], [0.42, 0.165, 33]]
  },
  dark:
      {weight: [[0.255, 0.02, 262], [0.9, 0.085, 225]], leak: [[0.3, 0.05, 40], [0.84, 0.14, 62]]},
};
const kInks = {
  dark: [0, 0, 0],
  light: [255, 255, 255]
};  // one of them has a contrast of 4.5 with any colour

function makeRamp([from, to]) {
  const colours = [];
  for (let i = 0; i < kSteps; ++i) {
    const t = i / (kSteps - 1);
    colours.push(oklchToRgb(...from.map((start, part) => start + (to[part] - start) * t)));
  }
  return colours;
}

// A weight's place on the ramp: the square root, so that a tenth can be told from nothing.
export function rampPlace(weight) {
  return Math.sqrt(Math.min(1, Math.max(0, weight)));
}

export class Palette {
  constructor(theme) {
    this.theme = theme;
    this.weight = makeRamp(kEnds[theme].weight);
    this.leak = makeRamp(kEnds[theme].leak);
    const css = (rgb) => `rgb(${rgb.join(" ")})`;
    this.weightCss = this.weight.map(css);
    this.leakCss = this.leak.map(css);
  }
  rgb(weight, leaks) {
    return (leaks ? this.leak : this.weight)[Math.round(rampPlace(weight) * (kSteps - 1))];
  }
  css(weight, leaks) {
    return (leaks ? this.leakCss : this.weightCss)[Math.round(rampPlace(weight) * (kSteps - 1))];
  }
  // The ink that is readable on a cell of this weight: the better of two.
  ink(weight, leaks) {
    const cell = this.rgb(weight, leaks);
    const [dark, light] = [contrast(cell, kInks.dark), contrast(cell, kInks.light)];
    return dark >= light ? kInks.dark : kInks.light;
  }
}
