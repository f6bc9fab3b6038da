// Numbers as the page stores them (src/tril/explain/encode.h), and as people read them.

const kDigits =
    "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{";
const kValueOf = new Uint8Array(128);
for (let i = 0; i < kDigits.length; ++i) kValueOf[kDigits.charCodeAt(i)] = i;

// Five characters to four bytes.
export function decodeBase85(text) {
  const words = new Uint32Array(text.length / 5);
  for (let i = 0, at = 0; i < words.length; ++i) {
    let word = 0;
    for (let digit = 0; digit < 5; ++digit) word = word * 85 + kValueOf[text.charCodeAt(at++)];
    words[i] = word;
  }
  return words.buffer;
}

// Either every bit of every float, or rows of `width` integers with a scale each.
export function unpackNumbers(packed, width) {
  if (packed.floats !== undefined) return new Float32Array(decodeBase85(packed.floats));
  const scales = new Float32Array(decodeBase85(packed.scales));
  const whole = new Int16Array(decodeBase85(packed.whole));
  const values = new Float32Array(packed.count);
  for (let row = 0, i = 0; i < packed.count; ++row) {
    for (let end = i + width; i < end; ++i) values[i] = whole[i] * scales[row];
  }
  return values;
}

// A typographic minus, and never "-0.000".
export function fixed(value, decimals = 3) {
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

// Enough digits that recomputing a printed line gives the printed result: the fewest decimals, from
// `least` on, with which compute(...operands) rounds to `result` of `decimals`.
export function worked(operands, compute, result, decimals, least = 2) {
  const rounded = (x, digits) => Number(x.toFixed(digits));
  let digits = least;
  while (digits < 15 &&
         fixed(compute(...operands.map((x) => rounded(x, digits))), decimals) !==
             fixed(result, decimals))
    ++digits;
  return operands.map((x) => fixed(x, digits));
}

// A fraction: "0.43"; values next to 0 or 1 are marked as such.
export function share(value) {
  if (value > 0 && value < 0.0005) return "< 0.001";
  if (value < 1 && value > 0.9995) return "> 0.999";
  return fixed(value, 3);
}

export function percent(value) {
  if (value > 0 && value < 0.0005) return "< 0.1%";
  if (value < 1 && value > 0.9995) return "> 99.9%";
  return `${(100 * value).toFixed(1)}%`;
}

// 919040 -> "919 040", with narrow no-break spaces.
export function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// A small number in readable form: 3.1e-7 -> "3.1 × 10⁻⁷".
export function scientific(value) {
  if (value === 0) return "0";
  const [digits, exponent] = value.toExponential(1).split("e");
  const raised =
      [...String(Number(exponent))].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]));
  return `${digits} × 10${raised.join("")}`;
}
