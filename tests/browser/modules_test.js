// Tests of the page's modules, run in the browser after them. `results` is what the C++ test reads.
const results = [];
function test(name, run) {
  try {
    run();
    results.push({name, failure: ""});
  } catch (error) {
    results.push({name, failure: String(error.message ?? error)});
  }
}
function expect(holds, what = "expectation") {
  if (!holds) throw new Error(`${what} failed`);
}
function expectEqual(actual, expected) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

test("colours: lightness alone tells the order of weights", () => {
  for (const theme of ["light", "dark"]) {
    const palette = new Palette(theme);
    for (const ramp of [palette.weight, palette.leak]) {
      for (let i = 1; i < ramp.length; ++i) {
        const rises = luminance(ramp[i]) >= luminance(ramp[i - 1]) - 1e-9;
        const falls = luminance(ramp[i]) <= luminance(ramp[i - 1]) + 1e-9;
        expect(theme === "dark" ? rises : falls, `${theme} ${i}`);
      }
      expect(contrast(ramp[0], ramp[255]) > 7, "ends far apart");
    }
  }
});

test("colours: a weight can be read on its cell", () => {
  for (const theme of ["light", "dark"]) {
    const palette = new Palette(theme);
    for (let i = 0; i <= 1000; ++i) {
      for (const leaks of [false, true]) {
        const ratio = contrast(palette.rgb(i / 1000, leaks), palette.ink(i / 1000, leaks));
        expect(ratio >= 4.5, `${theme} ${i / 1000} ${leaks}: ${ratio.toFixed(2)}`);
      }
    }
  }
});

// Machado, Oliveira, Fernandes (2009), severity 1.0, on linear light.
const kColourBlindness = {
  protanopia: [
    [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998]
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]
  ],
};
test("colours: leaks can be told from weights by all kinds of colour vision", () => {
  for (const [name, matrix] of Object.entries(kColourBlindness)) {
    for (const theme of ["light", "dark"]) {
      const palette = new Palette(theme);
      const seen = (rgb) =>
          matrix.map((row) => row.reduce((sum, part, i) => sum + part * byteToLinear(rgb[i]), 0))
              .map(linearToByte);
      for (const weight of [0.25, 0.5, 1]) {
        const [a, b] = [seen(palette.rgb(weight, false)), seen(palette.rgb(weight, true))];
        const distance = Math.hypot(...a.map((part, i) => part - b[i]));
        expect(distance > 40, `${name} ${theme} ${weight}: ${distance.toFixed(0)}`);
      }
    }
  }
});

test("painting: the page's own colours", () => {
  expectEqual(rgbOf("#f0eee8"), [240, 238, 232]);
});

test("numbers: base85 and both ways to carry them", () => {
  expectEqual([...new Uint8Array(decodeBase85("!!!!!"))], [0, 0, 0, 0]);
  // 0x3f800000 is 1.0f.
  const digits = [];
  for (let word = 0x3f800000; digits.length < 5; word = Math.floor(word / 85))
    digits.unshift(kDigits[word % 85]);
  expectEqual([...unpackNumbers({floats: digits.join("")}, 1)], [1]);
  const encode = (bytes) => {
    let text = "";
    for (const word of new Uint32Array(new Uint8Array(bytes).buffer)) {
      let part = "";
      for (let i = 0, rest = word; i < 5; ++i, rest = Math.floor(rest / 85))
        part = kDigits[rest % 85] + part;
      text += part;
    }
    return text;
  };
  const scales = encode(new Uint8Array(new Float32Array([0.5, 2]).buffer));
  const whole = encode(new Uint8Array(new Int16Array([3, -4, 1, 0]).buffer));
  expectEqual([...unpackNumbers({scales, whole, count: 3}, 2)], [1.5, -2, 2]);
});

test("numbers: as people read them", () => {
  expectEqual([fixed(-1.23456), fixed(-0.0001), fixed(2, 1)], ["−1.235", "0.000", "2.0"]);
  expectEqual(
      [share(0.0001), share(0), share(1), share(0.99999)],
      ["< 0.001", "0.000", "1.000", "> 0.999"]);
  expectEqual(
      [percent(0.5), percent(1e-9), percent(1), percent(0.99999)],
      ["50.0%", "< 0.1%", "100.0%", "> 99.9%"]);
  expectEqual([grouped(919040), grouped(12)], ["919\u202f040", "12"]);
  expectEqual([scientific(3.14e-7), scientific(0)], ["3.1 × 10⁻⁷", "0"]);
});

test("numbers: printed lines give their printed results", () => {
  const quotient = (a, b) => a / b;
  expectEqual(worked([1, 1.93], quotient, 1 / 1.93, 3), ["1.00", "1.93"]);
  // 1 ÷ 1.93 is 0.5181, not what is printed for 1 ÷ 1.9326.
  expectEqual(worked([1, 1.9326], quotient, 1 / 1.9326, 4), ["1.0000", "1.9326"]);
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let i = 0; i < 2000; ++i) {
    const [score, most] = [20 * random() - 10, 10 + random()];
    const sum = 1 + 9 * random();
    const weight = Math.exp(score - most) / sum;
    const [a, b, c] = worked([score, most, sum], (x, y, z) => Math.exp(x - y) / z, weight, 4)
                          .map((text) => Number(text.replace("−", "-")));
    expectEqual((Math.exp(a - b) / c).toFixed(4), weight.toFixed(4));
  }
});

// Two rows, two keys, two heads over one key head of two numbers.
function tinyPage() {
  const text = (values) => {
    let all = "";
    for (const word of new Uint32Array(new Float32Array(values).buffer)) {
      let part = "";
      for (let i = 0, rest = word; i < 5; ++i, rest = Math.floor(rest / 85))
        part = kDigits[rest % 85] + part;
      all += part;
    }
    return {floats: all};
  };
  const masked = {
    query: 2,
    key: 2,
    lo: [0, 0],
    hi: [1, 2],
    q: text([1, 0, 0, 1, 2, 0, 0, 2]),
    k: text([1, 2, 3, 4]),
    v: text([10, 20, 30, 40]),
    context: text([10, 20, 10, 20, 0, 0, 0, 0])
  };
  return {
    model: {heads: 2, kvHeads: 1, headDim: 2, scale: 0.5, bias: {masked: [], encoder: []}},
    steps: [{}, {}],
    attention: {masked: [masked], cross: [], encoder: []},
    leakedScores: [text([0, 0, 0, 0, 0, 1, 0, 1])]
  };
}
test("attention: scores, mask, softmax and values by hand", () => {
  const attentions = new Attentions(tinyPage());
  expectEqual(attentions.kinds(), ["masked"]);
  expectEqual([attentions.dot("masked", 0, 0, 1, 0), attentions.dot("masked", 0, 1, 1, 1)], [2, 8]);
  // Head 1, row 1: scores 0.5·(0·1 + 2·2) = 2 and 0.5·(0·3 + 2·4) = 4.
  const weights = attentions.weights("masked", 0, 1);
  const second = Math.exp(4) / (Math.exp(2) + Math.exp(4));
  expectEqual([weights[0], weights[1]], [1, 0]);
  expect(
      Math.abs(weights[3] - second) < 1e-15 && Math.abs(weights[2] + weights[3] - 1) < 1e-15,
      "softmax");
  const cell = attentions.cell("masked", 0, 1, 1, 1);
  expectEqual([cell.dot, cell.scaled, cell.score, cell.visible], [8, 4, 4, true]);
  expect(Math.abs(cell.vectors.context[0] - (10 * (1 - second) + 30 * second)) < 1e-12, "context");
  const hidden = attentions.cell("masked", 0, 0, 0, 1);
  expectEqual([hidden.visible, hidden.weight, hidden.leaks], [false, 0, false]);
});
test("attention: without the mask the future has weight", () => {
  const attentions = new Attentions(tinyPage());
  const weights = attentions.weights("masked", 0, 1, true);
  expect(Math.abs(weights[1] - Math.E / (1 + Math.E)) < 1e-7, "leaked weight");
  expect(
      attentions.leaks("masked", 0, 0, 1) && !attentions.leaks("masked", 0, 1, 1),
      "which are leaks");
  expect(attentions.cell("masked", 0, 1, 0, 1, true).leaks, "the cell says so");
});
test("attention: distance counts where scores have a bias by it", () => {
  const page = tinyPage();
  page.model.bias.masked = [[-0.25, 0, -0.25], [-0.5, 0, 0.125]];
  const attentions = new Attentions(page);
  expectEqual([attentions.bias("masked", 1, 1, 0), attentions.bias("cross", 1, 1, 0)], [-0.5, 0]);
  expectEqual([attentions.bias("masked", 1, 0, 1), attentions.bias("masked", 0, 1, 1)], [0.125, 0]);
  expectEqual(attentions.score("masked", 0, 1, 1, 0, false), 1.5);
});

test("attention: the stepwise pass has its own numbers where it carries some", () => {
  const page = tinyPage();
  page.stepwise = {masked: [null], cross: [], encoder: []};
  const training = new Attentions(page);
  const same = new Stepwise(page, training);
  expect(!same.differs("masked", 0), "nothing carried");
  expect(same.weights("masked", 0, 1) === training.weights("masked", 0, 1), "the same weights");
  // Row 1 of head 1 has no query left: all its scores are alike.
  const other = tinyPage().attention.masked[0];
  other.q = {floats: other.q.floats.slice(0, 30) + "!!!!!".repeat(2)};
  other.hi = [1, 2];
  page.stepwise.masked = [other];
  const own = new Stepwise(page, training);
  expect(own.differs("masked", 0), "carried");
  expectEqual([...own.weights("masked", 0, 1)], [1, 0, 0.5, 0.5]);
  expectEqual(own.sees("masked", 0, 1), {lo: 0, hi: 2});
});

test("text: pieces, bytes and special tokens", () => {
  const special = {start: 2, end: 3};
  expectEqual(labelOf("<s>", 2, special).text, "START");
  expectEqual(labelOf("</s>", 3, special).text, "END");
  expectEqual(labelOf("▁the", 9, special), {text: "the", kind: "piece", joined: false});
  expectEqual(labelOf("ory", 9, special), {text: "ory", kind: "piece", joined: true});
  expectEqual(labelOf("<0xE0>", 9, special), {text: "E0", kind: "byte", joined: true});
  expectEqual(labelOf("▁", 9, special).text, "␣");
  expectEqual(labelOf("▁<script>", 9, special).text, "<script>");
});
test("text: what goes on with a word is written with dots", () => {
  const special = {start: 2, end: 3};
  const shown = (piece, id = 9) => displayOf(labelOf(piece, id, special));
  expectEqual(
      ["▁the", "ory", "ा", "<0xE0>", "▁"].map((piece) => shown(piece)),
      ["the", "…ory", "…ा", "E0", "␣"]);
  expectEqual(
      [shown("<s>", 2), tokenText(labelOf("ory", 9, special)).textContent], ["START", "…ory"]);
});
test("text: languages by script", () => {
  expectEqual(
      ["मैं", "سلام", "שלום", "hello", "नमस्ते you"].map(languageOf), ["hi", "ar", "he", "und", "hi"]);
});

// What is said about a search comes from its numbers.
function forcingPage(values) {
  return {
    model: {encoderLayers: 2},
    steps: [{}, {}, {}],
    targetGiven: false,
    tokens: {prompt: 0, right: [5, 6, 3]},
    beam: {
      width: 5,
      results: [{tokens: [5, 6, 3], rank: -0.5, ended: true}],
      greedy: {tokens: [7, 3], rank: -0.7, ended: true},
      greedyText: "guten Tag"
    },
    ...values
  };
}
const said = (page, wrong) => make("p", {}, ...forcingWords(page, wrong)).textContent;
test("forcing: better is said where it was computed", () => {
  const greedy = (values) => {
    const page = forcingPage({});
    Object.assign(page.beam.greedy, values);
    return said(page, [1]);
  };
  const base = greedy({});
  expect(base.startsWith("1 prediction of 3 is not the right word."), base);
  expect(base.includes("writes “guten Tag”, ranked −0.700."), base);
  expect(base.endsWith("wrote one ranked −0.500, which is better."), base);
  expect(greedy({rank: -0.4}).endsWith("which is no better here."), "worse");
  expect(greedy({rank: -0.5}).endsWith("which is just as good."), "equal");
  expect(greedy({ended: false, rank: -0.1}).endsWith("which comes to an end."), "cut");
  expect(greedy({tokens: [5, 6, 3]}).endsWith("writes the same sentence."), "the same");
  const one = forcingPage({});
  Object.assign(one.beam, {width: 1, greedy: null});
  expect(
      said(one, [1]).includes("Greedy search took the likeliest token that may be written"),
      "beam 1");
  for (const word of ["Beam search", "better"]) expect(!said(one, [1]).includes(word), word);
});
test("forcing: a given target, and none", () => {
  const given = forcingPage({targetGiven: true});
  expect(said(given, [0, 1]).endsWith("its own words: the last row."), said(given, [0, 1]));
  expect(!said(given, []).includes("--target"), "one was given");
  expect(said(forcingPage({}), []).includes("tril explain --target"), "how to give one");
});
test("forcing: a text that is continued has no target", () => {
  const page = forcingPage({model: {encoderLayers: 0}, tokens: {prompt: 2, right: [5, 6, 3]}});
  const all = [[], [0], [0, 2], [2]].map((wrong) => said(page, wrong));
  for (const words of all) {
    expect(!words.includes("target") && words.startsWith("The first 2 steps"), words);
    expect(words.includes("From step 3 on the model writes on its own"), words);
  }
  expect(all[0].includes("Every prediction there is what comes next."), all[0]);
  expect(all[1].includes("1 prediction of 2 is not what comes next."), all[1]);
  expect(all[0].endsWith("the one it found likeliest."), all[0]);
  expect(all[2].includes("1 prediction of 1 is not what it wrote."), all[2]);
  const fromNothing = forcingPage({model: {encoderLayers: 0}});
  expect(said(fromNothing, []).startsWith("The model writes on its own"), said(fromNothing, []));
});

test("dom: what users write stays text", () => {
  const node = userText("<img src=x onerror=alert(1)>");
  expectEqual(
      [node.children.length, node.textContent, node.dir],
      [0, "<img src=x onerror=alert(1)>", "auto"]);
  expectEqual(
      make("p", {class: "a", hidden: true}, "x", null).outerHTML,
      "<p class=\"a\" hidden=\"\">x</p>");
});

test("words: values, code, one and many", () => {
  const nodes = make("p", {}, ...sayNodes("after_comes", {token: make("b", {}, "x")}));
  expectEqual(nodes.innerHTML, "After <b>x</b> comes");
  expectEqual(make("p", {}, ...sayNodes("how_keys")).querySelector("code").textContent, "←");
  expectEqual([say("calls", {n: 1}), say("calls", {n: 1200})], ["1 call", "1\u202f200 calls"]);
  expectEqual(say("call_of", {n: 2, all: 5}), "call 2 of 5");
});
test("text: letters keep their marks", () => {
  expectEqual(lettersOf("हूँ मैं"), ["हूँ", " ", "मैं"]);
});

test("state: listeners hear what changed, and nothing else", () => {
  const heard = [];
  const state = new State({a: 1, b: 2});
  state.listen((now, changed) => heard.push([now.a, [...changed]]));
  state.change({a: 1});
  state.change({a: 3, b: 2});
  expectEqual(heard, [[1, ["a", "b"]], [3, ["a"]]]);
});

test("tree: parents and the best path", () => {
  const beam = {
    width: 2,
    steps: [
      [[0, 7, -0.1, -0.1, 0], [0, 8, -1, -1, 0], [0, 9, -2, -2, 2]],
      [[1, 3, -0.1, -1.1, 1], [0, 5, -3, -3.1, 0], [1, 5, -4, -5, 2]]
    ]
  };
  const columns = layOutTree(beam);
  expectEqual(
      columns.map((nodes) => nodes.map((node) => node.fate)),
      [["kept", "kept", "dropped"], ["finished", "kept", "dropped"]]);
  expect(columns[1][0].parent === columns[0][1] && columns[0][0].parent === null, "parents");
  expect(markBest(columns, [8, 3], 0), "found");
  expectEqual(columns.flat().filter((node) => node.best).map((node) => node.token), [8, 3]);
  expect(!markBest(columns, [9, 3], 0), "dropped ones are no results");
  expect(markBest(layOutTree(beam), [1, 1, 8, 3], 2), "after a prompt");
});
