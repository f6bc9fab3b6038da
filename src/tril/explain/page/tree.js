// Beam search as a tree: one column per step, the best on top; hypotheses that fell out of the beam
// are hollow.
import {byId, make, makeSvg, scrollInside, userText, watchScrolling} from "./dom.js";
import {fixed, percent} from "./numbers.js";
import {displayOf, languageOf, lettersOf} from "./text.js";
import {say} from "./words.js";

const kFates = ["kept", "finished", "dropped"];
const kSpace = {
  column: 128,
  row: 42,
  left: 74,
  top: 30
};
const kFont = {
  word: 15,
  longest: 10
};

// Nodes by step: { token, chance, score, fate, parent (a node or null), x, y, best }.
export function layOutTree(beam) {
  let alive = [null];
  const columns = [];
  for (const step of beam.steps) {
    const nodes = step.map(([parent, token, logProb, score, fate], place) => ({
                             parent: alive[parent],
                             token,
                             chance: Math.exp(logProb),
                             score,
                             fate: kFates[fate],
                             place,
                             step: columns.length,
                             best: false
                           }));
    columns.push(nodes);
    alive = nodes.filter((node) => node.fate === "kept");
  }
  return columns;
}

// The nodes of a result, from its last to its first: of those with its tokens, the one that ended.
export function markBest(columns, tokens, prefix) {
  const own = tokens.slice(prefix);
  const last = columns[own.length - 1] ?? [];
  const spells = (node) => {
    for (let at = own.length - 1; at >= 0; --at, node = node.parent) {
      if (node === null || node.token !== own[at]) return false;
    }
    return true;
  };
  const found = last.filter((node) => node.fate !== "dropped").find(spells);
  for (let node = found ?? null; node !== null; node = node.parent) node.best = true;
  return found !== undefined;
}

export class Tree {
  constructor(page, state, labelFor) {
    Object.assign(this, {page, state, labelFor});
    this.columns = layOutTree(page.beam);
    markBest(this.columns, page.beam.results[0].tokens, page.tokens.prompt);
    this.draw_();
    this.describe_();
    this.results_();
    const point = () => this.point_(state.now.step - page.tokens.prompt);
    watchScrolling(byId("tree"), point);
    state.listen((now, changed) => {
      if (changed.has("step")) point();
    });
  }

  at_(node) {
    if (node === null) return {x: kSpace.left - 12, y: kSpace.top + kSpace.row / 2};
    return {
      x: kSpace.left + 30 + node.step * kSpace.column,
      y: kSpace.top + (node.place + 0.5) * kSpace.row
    };
  }

  draw_() {
    const rows = Math.max(...this.columns.map((nodes) => nodes.length));
    const [width, height] = [
      kSpace.left + 24 + this.columns.length * kSpace.column, kSpace.top + rows * kSpace.row + 8
    ];
    const svg = makeSvg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": say("tree_picture", {width: this.page.beam.width})
    });
    this.pointer =
        makeSvg("rect", {class: "pointer", y: 0, width: kSpace.column - 6, height, rx: 8});
    svg.append(this.pointer);
    const nodes = this.columns.flat();
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `650 ${kFont.word}px ${getComputedStyle(document.body).fontFamily}`;
    this.widths =
        new Map(nodes.map((node) => [node, Math.max(34, pen.measureText(this.word_(node)).width)]));
    // Highlighted nodes are drawn last.
    const order = (node) => (node.best ? 2 : node.fate === "dropped" ? 0 : 1);
    nodes.sort((a, b) => order(a) - order(b));
    for (const node of nodes) svg.append(this.edge_(node));
    svg.append(this.text_(
        null, "START", kSpace.left - 18, kSpace.top + kSpace.row / 2, "special best", "end"));
    for (const node of nodes) svg.append(this.node_(node));
    this.columns.forEach(
        (_, i) => svg.append(this.text_(
            null, String(i + 1 + this.page.tokens.prompt), kSpace.left + 30 + i * kSpace.column, 16,
            "axis", "start")));
    byId("tree").replaceChildren(svg);
  }

  // Cut where it would run into the next column.
  word_(node) {
    const letters = lettersOf(displayOf(this.labelFor(node.token)));
    return letters.length > kFont.longest ? `${letters.slice(0, kFont.longest - 1).join("")}…` :
                                            letters.join("");
  }

  classes_(node) {
    return `${node.fate}${node.best ? " best" : ""}`;
  }

  edge_(node) {
    const [from, to] = [this.at_(node.parent), this.at_(node)];
    const begin = node.parent === null ? from.x : from.x + 10 + this.widths.get(node.parent);
    const end = to.x - 8;
    const middle = (begin + end) / 2;
    return makeSvg("path", {
      class: `edge ${this.classes_(node)}`,
      d: `M${begin} ${from.y} C${middle} ${from.y} ${middle} ${to.y} ${end} ${to.y}`
    });
  }

  node_(node) {
    const {x, y} = this.at_(node);
    const label = this.labelFor(node.token);
    const group = makeSvg(
        "g", {class: `node ${this.classes_(node)}`}, makeSvg("title", {}, say("node", {
                                                               word: displayOf(label),
                                                               chance: percent(node.chance),
                                                               score: fixed(node.score, 2),
                                                               fate: say(node.fate)
                                                             })),
        makeSvg("circle", {cx: x - 5, cy: y, r: 3}),
        this.text_(
            languageOf(label.text), this.word_(node), x + 4, y - 5, `word ${label.kind}`, "start"),
        this.text_(null, percent(node.chance), x + 4, y + 14, "chance", "start"));
    return group;
  }

  text_(lang, text, x, y, className, anchor) {
    return makeSvg(
        "text",
        {x, y, class: className, "text-anchor": anchor, "dominant-baseline": "middle", lang}, text);
  }

  describe_() {
    const {width, lengthPenalty} = this.page.beam;
    const search = width === 1 ? "greedy" : "beam";
    byId("tree-eyebrow").textContent = say(search);
    byId("tree-title").textContent = say(`${search}_title`);
    byId("tree-words").textContent = say(`${search}_words`);
    byId("results-words").textContent =
        say(lengthPenalty === 0 ? "results_words" : "results_words_length", {power: lengthPenalty});
  }

  // Each result as one text node, so that letters of neighbouring pieces join.
  results_() {
    byId("results").replaceChildren(...this.page.beam.results.map(
        (result, i) => make(
            "li", {class: i === 0 ? "best" : ""}, userText(result.text, {class: "result-words"}),
            make(
                "span", {class: "score"},
                say(result.ended ? "result" : "result_cut",
                    {score: fixed(result.score, 2), rank: fixed(result.rank, 2)})))));
  }

  point_(column) {
    const inside = column >= 0 && column < this.columns.length;
    this.pointer.setAttribute("visibility", inside ? "visible" : "hidden");
    if (!inside) return;
    const x = kSpace.left + 14 + column * kSpace.column;
    this.pointer.setAttribute("x", x);
    scrollInside(byId("tree"), x, x + kSpace.column);
  }
}
