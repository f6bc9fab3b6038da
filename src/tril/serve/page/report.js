// What is said about a result: the line below it, the table of its words, the other hypotheses.
import {byId, fill, make, quoted, show} from "./dom.js";
import {differences, kLevels, levelOf, percent} from "./words.js";

// What the underlines mean, and that more can be seen.
function legend(words) {
  const hint = matchMedia("(pointer: coarse)").matches ?
      "Tap a word to see more." :
      "Point at a word, or go from word to word with the arrow keys.";
  const key = (level, words) =>
      make("span", {}, make("span", {class: `word ${level}`}, kLevels[level]), words);
  const has = (level) => words.some(({chance}) => levelOf(chance) === level);
  return [
    has("fair") ? key("fair", ", below 80%") : null,
    has("unsure") ? key("unsure", ", below 50%") : null,
    make("span", {}, hint),
  ];
}

// The line below the result: about one word, about a word of the source, or the legend.
export function describe({reading, target, source, langs}) {
  const {words, sources} = reading;
  if (target !== null) {
    const {text, chance, source: from} = words[target];
    const sure = Number.isNaN(chance) ?
        null :
        make("span", {}, make("b", {}, percent(chance)), ` ${kLevels[levelOf(chance)]}`);
    const origin =
        from < 0 ? null : make("span", {}, "from ", quoted(sources[from].text, langs.source));
    fill("readout", quoted(text, langs.target), sure, origin);
  } else if (source !== null) {
    const to =
        words.filter((word) => word.source === source).map(({text}) => quoted(text, langs.target));
    const parts = to.length > 0 ? to.flatMap((one, i) => i === 0 ? [one] : [" ", one]) :
                                  ["no word of the translation"];
    fill(
        "readout", quoted(sources[source].text, langs.source),
        make("span", {}, to.length > 0 ? "became " : "", ...parts));
  } else if (words.length > 0) {
    fill("readout", ...legend(words));
  } else {
    fill("readout");
  }
}

function piecesCell({pieces}) {
  if (pieces.length < 2) return make("td", {}, "–");
  const piece = ({text, logProb}) =>
      make("span", {class: "piece"}, make("bdi", {}, text), ` ${percent(Math.exp(logProb))}`);
  return make("td", {}, ...pieces.flatMap((one, i) => i === 0 ? [piece(one)] : [" ", piece(one)]));
}

function row(word, {sources}, langs, {split, aligned}) {
  const level = levelOf(word.chance);
  const text = make("bdi", {lang: langs.target || null, class: `word ${level}`}, word.text);
  const origin = word.source < 0 ? "–" : quoted(sources[word.source].text, langs.source);
  return make(
      "tr", {}, make("th", {scope: "row"}, text),
      make(
          "td", {class: "number"}, percent(word.chance),
          make("span", {class: "note"}, ` ${kLevels[level]}`)),
      split ? piecesCell(word) : null, aligned ? make("td", {}, origin) : null);
}

// The same as the underlines and the marks, as a table. A column that would say nothing is left
// out.
export function tabulate(reading, langs) {
  const {words} = reading;
  const aligned = words.some(({source}) => source >= 0);
  const split = words.some(({pieces}) => pieces.length > 1);
  show("table", words.length > 0);
  show("table-from", aligned);
  show("table-pieces", split);
  byId("table-body")
      .replaceChildren(...words.map((word) => row(word, reading, langs, {split, aligned})));
}

// How likely a hypothesis is beside the first one: the ratio of their probabilities. Only known for
// a text that was translated as one.
function ratio(sentences, choice) {
  const [unit, ...others] = sentences;
  const [first, one] = [unit?.hypotheses[0]?.score, unit?.hypotheses[choice]?.score];
  if (others.length > 0 || first === undefined || one === undefined || choice === 0) return "";
  const times = Math.exp(one - first);
  return times < 0.01 ? "< 0.01×" : `${times.toPrecision(2)}×`;
}

// The texts to choose from, each with what differs from the first marked. Samples are in no order.
export function offer(sentences, texts, {lang, sampled, choose}) {
  const ratios = texts.map((_, i) => sampled ? "" : ratio(sentences, i));
  const compared = ratios.some((one) => one !== "");
  if (compared) ratios[0] = "best";
  const parts = (text) => differences(texts[0], text)
                              .map((part) => part.differs ? make("b", {}, part.text) : part.text);
  const line = (text, i) => make(
      "label", {class: "choice"},
      make(
          "input",
          {type: "radio", name: "choice", value: i, checked: i === 0, onchange: () => choose(i)}),
      make(
          "span", {dir: "auto", lang: lang || null, class: "text"},
          ...(i === 0 || sampled ? [text] : parts(text))),
      make("span", {class: "note"}, ratios[i]));
  byId("choices").replaceChildren(...texts.map(line));
  fill("choices-words", compared ? "0.5× means: half as likely to the model as the best one." : "");
  show("alternatives", texts.length > 1);
}

// Whether the same request may succeed later.
function isPassing({status}) {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

// The server's own line, and what can be done: `seconds` until it is tried again, or null.
export function showProblem(error, seconds, again) {
  const advice = error.status === 413 ?
      "The text is too long for this server: translate it in parts." :
      seconds !== null ? `Trying again in ${Math.ceil(seconds)} s.` :
                         null;
  const button = make("button", {type: "button", onclick: again}, "Try again");
  fill(
      "problem", make("p", {}, error.message),
      advice === null ? null : make("p", {class: "note"}, advice),
      isPassing(error) && seconds === null ? button : null);
}
