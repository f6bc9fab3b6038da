// Tests of the modules of the page of `tril serve`, run in the page itself by serve_page_test.cpp,
// which gives them the modules. Returns what fails.
const failures = [];
const kBlank = "\u2581";
const {words, api, languages, examples} = modules;

function same(got, expected, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a !== b) failures.push(`${what}: ${a}, not ${b}`);
}
// A hypothesis whose pieces each have probability one half.
function half(pieces, more = {}) {
  const text = pieces.join("").replaceAll(kBlank, " ").replace("</s>", "").trim();
  return {text, pieces, log_probs: pieces.map(() => Math.log(0.5)), ...more};
}
const texts = (list) => list.map(({text}) => text);
const chances = (list) => list.map(({chance}) => Number(chance.toFixed(4)));

// Pieces to words: a word is as likely as its pieces one after the other, without END.
{
  const pieces = [`${kBlank}The`, `${kBlank}dog`, "s", kBlank, "run", "</s>"];
  const groups = words.groupPieces(pieces, pieces.map(() => Math.log(0.5)));
  same(
      groups.map(({text, index}) => [text, index]), [["The", 0], ["dogs", 1], ["run", 2]],
      "groups");
  same(groups.map(({pieces: its}) => its.length), [1, 2, 1], "pieces of each");
  same(texts(words.groupPieces(["hin_Deva", `${kBlank}a`, "b"], [0, 0, 0])), ["ab"], "language");
  same(words.groupPieces([], []), [], "no pieces");
}

// One sentence, with an alignment that crosses.
{
  const sentence = {
    source: "How are you",
    hypotheses: [half([`${kBlank}b`, `${kBlank}c`, "d", "</s>"], {alignment: [[2, 0], [1, 1]]})]
  };
  const got = words.readTranslation("How are you", {text: "b cd", sentences: [sentence]});
  same(texts(got.words), ["b", "cd"], "words");
  same(chances(got.words), [0.5, 0.25], "chances");
  same(got.words.map(({source}) => source), [2, 1], "links");
  same(got.sources.map(({from, to}) => [from, to]), [[0, 3], [4, 7], [8, 11]], "places");
}

// Lines and sentences: places in the whole text, links to words of the whole source.
{
  const one = (source, word) =>
      ({source, hypotheses: [half([kBlank + word], {alignment: [[0, 0]]})]});
  const given = "  A.  B.\n\nC.\n";
  const sentences = [one("A.", "x"), one("B.", "y"), one("C.", "z")];
  const got = words.readTranslation(given, {text: "x y\n\nz", sentences});
  same(
      got.words.map(({from, source, sentence}) => [from, source, sentence]),
      [[0, 0, 0], [2, 1, 1], [5, 2, 2]], "lines");
  same(got.sources.map(({from}) => given[from]), ["A", "B", "C"], "sources");
}

// What does not fit is shown without words; nothing fails.
{
  const sentences = [{source: "a", hypotheses: [half([`${kBlank}other`])]}];
  same(words.readTranslation("a", {text: "text", sentences}).words, [], "another text");
  same(words.readTranslation("a", {text: "text"}).words, [], "no details");
  const unknown = [{source: "b", hypotheses: [half([`${kBlank}text`], {alignment: [[0, 0]]})]}];
  same(
      words.readTranslation("a", {text: "text", sentences: unknown}).words[0].source, -1,
      "another source");
  const odd =
      [{source: "a", hypotheses: [{text: "one two", pieces: [`${kBlank}two`], log_probs: [-1]}]}];
  same(
      words.readTranslation("a", {text: "one two", sentences: odd})
          .words.map(({chance}) => chance > 0),
      [false, true], "fewer pieces");
}

// The second hypothesis; a script without blanks, whose pieces are shown each for itself.
{
  const sentences = [{
    source: "a",
    hypotheses: [half([`${kBlank}x`]), half([`${kBlank}本`, "を"], {alignment: [[0, 0]]})]
  }];
  const got = words.readTranslation("a", {text: "x", alternatives: ["本を"], sentences}, 1);
  same(texts(got.words), ["本", "を"], "unspaced");
  same(chances(got.words), [0.5, 0.5], "unspaced chances");
  same(got.words.map(({source}) => source), [0, 0], "unspaced links");
}

// Characters spelt in bytes belong to their word.
{
  const pieces = [`${kBlank}a`, "<0xE0>", "<0xA4>", "<0x95>", `${kBlank}b`];
  const [first] = words.groupPieces(pieces, pieces.map(() => 0));
  same([first.text, first.pieces.length], ["aक", 4], "bytes");
}

// A continuation: what was given stands before it, whatever became of its blanks. A word that began
// there is cut.
{
  const hypothesis = half([`${kBlank}a`, `${kBlank}b`, "<0x63>", `${kBlank}d`]);
  hypothesis.text = "a bc d";
  for (const given of ["a b", " a  b ", "a\nb"]) {
    const got = words.readContinuation(
        given, {text: "a bc d", sentences: [{source: given, hypotheses: [hypothesis]}]});
    same([got.given, got.text, texts(got.words)], ["a b", "c d", ["c", "d"]], "continued");
    same(chances(got.words), [0.5, 0.5], "chances of what was written");
    same(got.words.map(({from, to}) => got.text.slice(from, to)), ["c", "d"], "places");
  }
  same(words.endOfGiven("other", "a bc d"), 0, "another beginning");
}

same(
    [1, 0.99999, 0.996, 0.93, 0.004, NaN].map(words.percent),
    ["100%", "> 99.9%", "99.6%", "93%", "< 1%", ""], "percent");
same(
    [0.8, 0.79, 0.5, 0.49, NaN].map(words.levelOf), ["sure", "fair", "fair", "unsure", "unknown"],
    "levels");
{
  const marked = (a, b) =>
      words.differences(a, b).filter(({differs}) => differs).map(({text}) => text);
  same(marked("a b c", "a x c d"), ["x", "d"], "differences");
  same(marked("a b c", "a b c"), [], "no difference");
  same(marked("a b", "c"), ["c"], "all different");
  same(words.differences("a b", "a  x").map(({text}) => text).join(""), "a  x", "blanks are kept");
  const many = (word, count) => new Array(count).fill(word).join(" ");
  same(marked(many("a", 1000), `${many("a", 999)} x`), ["x"], "a thousand words");
  for (const [one, other] of [["a", many("x", 1001)], [many("a", 1001), "x"]]) {
    same(words.differences(one, other), [{text: other, differs: false}], "longer texts");
  }
}

// Server-sent events, however the bytes arrive.
{
  const stream =
      "event: partial\ndata: {\"text\":\"कै\"}\n\n: comment\nevent: done\r\ndata: 1\r\ndata: 2\r\n\r\nevent: late\ndata: 3\n";
  const bytes = new TextEncoder().encode(stream);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const chunks = async function*() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
    };
    const got = [];
    for await (const {event, data} of api.eventsOf(chunks())) got.push([event, data]);
    same(got, [["partial", "{\"text\":\"कै\"}"], ["done", "1\n2"]], `events of ${size} bytes`);
  }
}

// Languages: codes of several families, and the other direction.
{
  same(
      ["en", "hin_Deva", "en_XX", "zh-cn", "__fr__", "", "not a code"].map(languages.tagOf),
      ["en", "hi-Deva", "en", "zh-CN", "fr", "", ""], "tags");
  same(
      [languages.nameOf("hi"), languages.nameOf("en_XX"), languages.nameOf("not a code")],
      ["Hindi", "English", "not a code"], "names");
  const model = (id, from, to) => ({
    id,
    kind: "encoder-decoder",
    source_languages: from,
    target_languages: to,
    language_names: {}
  });
  const [there, back, many] = [
    model("a", ["en"], ["hi"]), model("b", ["hi"], ["en"]), model("c", ["en", "hi"], ["en", "hi"])
  ];
  same(languages.reverseOf([there, back], there, "en", "hi")?.model.id, "b", "another model's");
  same(languages.reverseOf([back, many], many, "en", "hi")?.model.id, "c", "its own");
  same(languages.reverseOf([there], there, "en", "hi"), null, "none");
  same(languages.reverseOf([many], many, "auto", "hi"), null, "not while the language is unknown");
  same(
      [languages.sourcesOf(there), languages.sourcesOf(many)], [["en"], ["auto", "en", "hi"]],
      "to choose from");
  same(languages.pick(["a", "b"], "x", "b"), "b", "the default");
  same(examples.examplesFor({tag: "hi-Deva"})[0].lang, "hi", "examples");
  same(examples.examplesFor({tag: "xx"}), [], "no examples");
}
return failures;
