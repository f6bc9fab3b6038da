// From an answer of the server to the words that the page shows: where each stands in the text, how
// sure the model was of it, and which word of the source it comes from.

const kBlank = "▁";  // what SentencePiece writes for a blank
const kSpecial = /^(<(?!0x[0-9A-F]{2}>)[^<>]+>|__[a-z_]+__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3})$/;
// Scripts that write no blanks between words: there, each piece stands for itself.
const kUnspaced =
    /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;

const kByte = /^<0x([0-9A-F]{2})>$/;

const plain = (piece) => piece.split(kBlank).join("");
const bytesOf = (text) => [...new TextEncoder().encode(text)];

// The bytes of a piece: characters that no piece covers are spelt in bytes.
function spelt(piece) {
  const [, byte] = kByte.exec(piece) ?? [];
  return byte === undefined ? bytesOf(plain(piece)) : [parseInt(byte, 16)];
}

// The pieces of each word. Words are counted as the server counts them for its alignments: one
// begins at a blank and at the first piece, and a piece of blanks alone belongs to none. What is no
// text, such as END, adds nothing to a word.
export function groupPieces(pieces, logProbs) {
  const groups = [];
  let begins = true;
  pieces.forEach((piece, i) => {
    if (piece.startsWith(kBlank)) begins = true;
    const text = plain(piece);
    if (text === "") return;
    if (begins) groups.push([]);
    begins = false;
    if (!kSpecial.test(piece))
      groups.at(-1).push({text, logProb: logProbs[i] ?? NaN, bytes: spelt(piece)});
  });
  return groups
      .map((group, index) => ({
             index,
             text: new TextDecoder().decode(new Uint8Array(group.flatMap(({bytes}) => bytes))),
             pieces: group
           }))
      .filter((group) => group.pieces.length > 0);
}

function sumOf(pieces) {
  return pieces.reduce((sum, {logProb}) => sum + logProb, pieces.length > 0 ? 0 : NaN);
}

// The group of each word of a text. Usually there are as many; where not (a tokenizer that changes
// what it reads), those whose letters agree, in order, and null for the others.
function groupsOfWords(words, groups) {
  if (words.length === groups.length) return groups;
  let next = 0;
  return words.map((word) => {
    const found = groups.findIndex(({text}, i) => i >= next && text === word);
    if (found < 0) return null;
    next = found + 1;
    return groups[found];
  });
}

// Where the words of `part` stand in `text` from `at` on, if nothing but blanks is between them;
// null if they do not stand there.
function place(text, at, part) {
  const words = [];
  for (const word of part.split(/\s+/).filter((one) => one !== "")) {
    while (/\s/.test(text[at] ?? "")) ++at;
    if (!text.startsWith(word, at)) return null;
    words.push({text: word, from: at, to: at + word.length});
    at += word.length;
  }
  return words;
}

// A word of an unspaced script becomes its pieces.
function split(word, group) {
  const pieces = group?.pieces ?? [];
  const apart = kUnspaced.test(word.text) && group?.text === word.text &&
      !pieces.some(({text}) => kByte.test(text));
  if (!apart) return [{...word, pieces}];
  let from = word.from;
  return pieces.map((piece) => {
    const to = from + piece.text.length;
    const part = {text: piece.text, from, to, pieces: [piece]};
    from = to;
    return part;
  });
}

// {text, words, sources}: the chosen text of a translation; its words in order, each {text, from,
// to, sentence, chance, pieces, source}; those of the source, {text, from, to, sentence}. `source`
// is the number of a word in `sources`, or -1. `chance` is the probability of the word after those
// before it, NaN where it is not known. `given` is the source as it was sent. Where a sentence
// cannot be found in its text, it and what follows has no words: the text is shown all the same.
export function readTranslation(given, translation, choice = 0) {
  const text = choice === 0 ? translation.text : translation.alternatives[choice - 1];
  const [words, sources] = [[], []];
  let [at, sourceAt] = [0, 0];
  for (const [sentence, unit] of (translation.sentences ?? []).entries()) {
    const hypothesis = unit.hypotheses[choice] ?? unit.hypotheses[0];
    const placed = place(text, at, hypothesis.text);
    if (placed === null) break;
    at = placed.at(-1)?.to ?? at;
    const first = sources.length;
    const origin = place(given, sourceAt, unit.source ?? "") ?? [];
    sourceAt = origin.at(-1)?.to ?? sourceAt;
    sources.push(...origin.map((word) => ({...word, sentence})));
    const linked = new Map((hypothesis.alignment ?? []).map(([from, to]) => [to, from]));
    const groups = groupsOfWords(
        placed.map((word) => word.text),
        groupPieces(hypothesis.pieces ?? [], hypothesis.log_probs ?? []));
    placed.forEach((word, i) => {
      const from = linked.get(groups[i]?.index ?? i) ?? -1;
      for (const part of split(word, groups[i])) {
        words.push({
          ...part,
          sentence,
          chance: Math.exp(sumOf(part.pieces)),
          source: from >= 0 && from < origin.length ? first + from : -1
        });
      }
    });
  }
  return {text, words, sources};
}

// Where what was given ends in a text that begins with it, whatever became of its blanks; 0 if the
// text does not begin with it.
export function endOfGiven(given, text) {
  let at = 0;
  for (const letter of given.replace(/\s+/g, "")) {
    while (/\s/.test(text[at] ?? "")) ++at;
    if (!text.startsWith(letter, at)) return 0;
    at += letter.length;
  }
  return at;
}

// What of a word comes after `at`, with the pieces that make it.
function cut(word, at) {
  const skipped = bytesOf(word.text.slice(0, at - word.from)).length;
  let size = 0;
  const pieces = word.pieces.filter(({bytes}) => {
    size += bytes.length;
    return size > skipped;
  });
  const whole = size === bytesOf(word.text).length;
  return {
    ...word,
    text: word.text.slice(at - word.from),
    from: at,
    pieces: whole ? pieces : [],
    chance: whole ? Math.exp(sumOf(pieces)) : NaN
  };
}

// The same for a text that was continued: `given` is what it begins with, `text` and `words` are
// what the model wrote after it.
export function readContinuation(prompt, translation, choice = 0) {
  const {text, words} = readTranslation("", translation, choice);
  const begin = endOfGiven(prompt, text);
  const written =
      words.filter(({to}) => to > begin).map((word) => word.from < begin ? cut(word, begin) : word);
  return {
    given: text.slice(0, begin),
    text: text.slice(begin),
    words: written.map((word) => ({...word, from: word.from - begin, to: word.to - begin})),
    sources: []
  };
}

// How sure: shown by the shape of the underline, and in words.
export function levelOf(chance) {
  if (Number.isNaN(chance)) return "unknown";
  return chance >= 0.8 ? "sure" : chance >= 0.5 ? "fair" : "unsure";
}

export const kLevels = {
  sure: "sure",
  fair: "less sure",
  unsure: "unsure",
  unknown: "not known"
};

// 0.934 as "93%". Neither certainty nor impossibility is claimed by rounding.
export function percent(chance) {
  if (Number.isNaN(chance)) return "";
  const whole = Math.round(100 * chance);
  if (whole >= 100 && chance < 1)
    return chance >= 0.9995 ? "> 99.9%" : `${(100 * chance).toFixed(1)}%`;
  return whole < 1 ? "< 1%" : `${whole}%`;
}

// The search for differences takes time and memory for each pair of words.
const kMostCompared = 1000;

// Which words of `other` are not in `text`, in order: the longest common subsequence stays. Given
// as parts {text, differs}, blanks included. Where either has more than a thousand words, none is
// marked.
export function differences(text, other) {
  const [a, b] = [text.split(/\s+/), other.split(/(\s+)/)];
  const words = b.filter((_, i) => i % 2 === 0);
  if (Math.max(a.length, words.length) > kMostCompared) return [{text: other, differs: false}];
  const longest = Array.from({length: a.length + 1}, () => new Array(words.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; --i) {
    for (let j = words.length - 1; j >= 0; --j) {
      longest[i][j] = a[i] === words[j] ? longest[i + 1][j + 1] + 1 :
                                          Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  let i = 0;
  return b.map((part, place) => {
    if (place % 2 === 1) return {text: part, differs: false};
    const j = place / 2;
    while (i < a.length && a[i] !== part && longest[i + 1][j] === longest[i][j]) ++i;
    const same = i < a.length && a[i] === part && longest[i][j] === longest[i + 1][j + 1] + 1;
    if (same) ++i;
    return {text: part, differs: !same};
  });
}
