// What teacher forcing fed: at each step the right word, whatever the model predicted.
import {byId, make, scrollInside, tokenText, userText, watchScrolling} from "./dom.js";
import {fixed, percent, plural} from "./numbers.js";

// How a search came to write what was not the likeliest at some step; computed, not supposed.
function searchWords({width, results, greedy, greedyText}) {
  if (width === 1)
    return ["Greedy search took the likeliest that can be written: START, say, can not."];
  if (JSON.stringify(greedy.tokens) === JSON.stringify(results[0].tokens))
    return ["Greedy search, with a beam of 1, writes the same sentence."];
  const [own, best] = [greedy.rank, results[0].rank];
  const verdict = results[0].ended && !greedy.ended ? "which comes to an end" :
      best > own                                    ? "which is better" :
      best < own                                    ? "which is no better here" :
                                                      "which is as good";
  return [
    "Taking the likeliest at every step writes “", userText(greedyText),
    `”${greedy.ended ? "" : " without coming to an end"}, ranked ${fixed(own, 3)}. Beam search ` +
        `kept up to ${plural(width, "sentence")} a step and wrote one ranked ${fixed(best, 3)}, ${
            verdict}.`
  ];
}

const areNot = (wrong, all, what) =>
    `${plural(wrong, "prediction")} of ${all} ${wrong === 1 ? "is" : "are"} not ${what}.`;

// Of a text that goes on from what was given.
function continuationWords({tokens, beam}, wrong) {
  const given = tokens.prompt;
  const all = tokens.right.length;
  const [early, late] = [wrong.filter((i) => i < given), wrong.filter((i) => i >= given)];
  const words = [];
  if (given > 0) {
    words.push(
        `The first ${plural(given, "step")} ${
            given === 1 ? "reads" : "read"} towards what was given. `,
        early.length === 0 ? "Every prediction there is what comes next. " :
                             `${areNot(early.length, given, "what comes next")} What was given ` +
                "goes in all the same. ");
  }
  words.push(
      given > 0 ? `From step ${given + 1} on the model writes by itself` :
                  "The model writes by itself",
      late.length === 0 ? ": each word it reads is the one it found likeliest." :
                          `: ${areNot(late.length, all - given, "what it wrote")} `,
      ...(late.length === 0 ? [] : searchWords(beam)));
  return words;
}

// What the table shows, in words: texts and nodes. `wrong` are the steps whose likeliest token is
// not the right one.
export function forcingWords(page, wrong) {
  if (page.model.encoderLayers === 0) return continuationWords(page, wrong);
  const all = page.steps.length;
  if (wrong.length === 0) {
    const same = `All ${all} predictions are right, so feeding the right word and feeding the ` +
        "predicted one are the same here.";
    return page.targetGiven ? [same] : [
      `${same} The target is what the model itself wrote; `,
      make("code", {}, "tril explain --target"), " shows it against a text of yours."
    ];
  }
  const corrected = `${areNot(wrong.length, all, "the right word")} In training the right one ` +
      "goes in at the next step all the same. ";
  return page.targetGiven ?
      [`${corrected}In inference the model goes on from its own words: the last row.`] :
      [corrected, ...searchWords(page.beam)];
}

export class Forcing {
  constructor(page, state, labelFor) {
    Object.assign(this, {page, state, labelFor});
    this.build_();
    watchScrolling(byId("forcing-box"), () => this.bring_(state.now.step));
    state.listen((now, changed) => {
      if (!changed.has("step")) return;
      const cells = (css) => byId("forcing").querySelectorAll(css);
      for (const cell of cells(".current")) cell.classList.remove("current");
      for (const cell of cells(`[data-position="${now.step}"]`)) cell.classList.add("current");
      this.bring_(now.step);
    });
  }

  // The column of a step into view, beside the names of the rows, which stay.
  bring_(step) {
    const box = byId("forcing-box");
    if (!box.checkVisibility({contentVisibilityAuto: true})) return;
    const cell = box.querySelector(`[data-position="${step}"]`);
    scrollInside(
        box, cell.offsetLeft, cell.offsetLeft + cell.offsetWidth,
        box.querySelector("th").offsetWidth);
  }

  build_() {
    const {tokens, steps, targetGiven} = this.page;
    const predicted = steps.map((step) => step.candidates[0][0]);
    const wrong = steps.map((_, i) => i).filter((i) => predicted[i] !== tokens.right[i]);
    const continues = this.page.model.encoderLayers === 0;
    const row = (name, note, cells) =>
        make("tr", {}, make("th", {scope: "row"}, name, make("small", {}, note)), ...cells);
    const cell = (i, token, extra = null, className = "") => make(
        "td", {"data-position": i, class: className},
        token === null ? "" : tokenText(this.labelFor(token)), extra);
    const positions = steps.map((_, i) => i);
    const table = [
      row("Step", "",
          positions.map(
              (i) => make(
                  "td", {"data-position": i, class: "position"},
                  make(
                      "button", {
                        type: "button",
                        "aria-label": `Go to step ${i + 1}`,
                        onclick: () => this.state.change({step: i})
                      },
                      String(i + 1))))),
      row("Fed in training", continues ? "START, then the text" : "START, then the right words",
          positions.map((i) => cell(i, tokens.fed[i]))),
      row("Predicted", "the likeliest next", positions.map((i) => {
        const good = predicted[i] === tokens.right[i];
        return cell(
            i, predicted[i],
            make(
                "small", {}, `${good ? "✓" : "✗"} ${percent(Math.exp(steps[i].candidates[0][1]))}`),
            good ? "good" : "bad");
      })),
      row("Right", continues ? "what comes next in it" : "what should come out",
          positions.map(
              (i) =>
                  cell(i, tokens.right[i], make("small", {}, percent(Math.exp(steps[i].right)))))),
    ];
    if (targetGiven) {
      // END comes out; it never goes in.
      const own =
          [tokens.start, ...tokens.written].filter((token) => token !== tokens.right.at(-1));
      table.push(
          row("Fed in inference", "its own words",
              positions.map(
                  (i) => cell(
                      i, i < own.length ? own[i] : null, null,
                      i < own.length && own[i] !== tokens.fed[i] ? "other" : ""))));
    }
    byId("forcing").replaceChildren(...table);
    byId("forcing-words").replaceChildren(...forcingWords(this.page, wrong));
  }
}
