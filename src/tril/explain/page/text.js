// Tokens in readable form, and the language for the browser to typeset them in.

const kBlank = "▁";  // what SentencePiece writes for a blank

// { text, kind, joined }: kind is piece, byte, special; joined: it goes on with the word before it.
export function labelOf(piece, id, {start, end}) {
  if (id === start) return {text: "START", kind: "special", joined: false};
  if (id === end) return {text: "END", kind: "special", joined: false};
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
  if (byte) return {text: byte[1], kind: "byte", joined: true};
  if (/^<[a-z]+>$/.test(piece)) return {text: piece.slice(1, -1), kind: "special", joined: false};
  const text = piece.split(kBlank).join(" ").trim();
  if (text === "") return {text: "␣", kind: "special", joined: false};
  return {text, kind: "piece", joined: !piece.startsWith(kBlank)};
}

// A token on its own: one that continues a word begins with dots.
export function displayOf({text, kind, joined}) {
  return joined && kind === "piece" ? `…${text}` : text;
}

const kScripts = [
  [/\p{Script=Devanagari}/u, "hi"],
  [/\p{Script=Bengali}/u, "bn"],
  [/\p{Script=Tamil}/u, "ta"],
  [/\p{Script=Telugu}/u, "te"],
  [/\p{Script=Gujarati}/u, "gu"],
  [/\p{Script=Gurmukhi}/u, "pa"],
  [/\p{Script=Kannada}/u, "kn"],
  [/\p{Script=Malayalam}/u, "ml"],
  [/\p{Script=Arabic}/u, "ar"],
  [/\p{Script=Hebrew}/u, "he"],
  [/\p{Script=Thai}/u, "th"],
  [/\p{Script=Hangul}/u, "ko"],
  [/[\p{Script=Hiragana}\p{Script=Katakana}]/u, "ja"],
  [/\p{Script=Han}/u, "zh"],
  [/\p{Script=Cyrillic}/u, "ru"],
  [/\p{Script=Greek}/u, "el"],
];

// By its script: what fonts and hyphenation need, not a guess at the language.
export function languageOf(text) {
  for (const [script, language] of kScripts)
    if (script.test(text)) return language;
  return "und";
}

// What people count as letters: a Devanagari letter together with its marks.
export function lettersOf(text) {
  return [...new Intl.Segmenter("und").segment(text)].map(({segment}) => segment);
}
