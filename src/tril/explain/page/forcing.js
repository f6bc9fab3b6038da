// What teacher forcing fed in: at each step the right word, whatever the model predicted.
import {byId, make, scrollInside, tokenText, userText, watchScrolling} from "./dom.js";
import {fixed, percent} from "./numbers.js";
import {say, sayNodes} from "./words.js";

// Why a search wrote something other than the likeliest token at some step; computed, not guessed.
function searchWords({width, results, greedy, greedyText}) {
  if (width === 1) return sayNodes("greedy_only");
  if (JSON.stringify(greedy.tokens) === JSON.stringify(results[0].tokens))
    return sayNodes("greedy_same");
  const [own, best] = [greedy.rank, results[0].rank];
  const verdict = results[0].ended && !greedy.ended ? "ends" :
      best > own                                    ? "better" :
      best < own                                    ? "worse" :
                                                      "equal";
  return sayNodes("greedy_other", {
    ended: greedy.ended,
    width,
    verdict,
    text: userText(greedyText),
    own: fixed(own, 3),
    best: fixed(best, 3)
  });
}

// For a text that continues a given one.
function continuationWords({tokens, beam}, wrong) {
  const given = tokens.prompt;
  const all = tokens.right.length;
  const [early, late] = [wrong.filter((i) => i < given), wrong.filter((i) => i >= given)];
  const words = [];
  if (given > 0) {
    words.push(say("forcing_given", {n: given}));
    words.push(
        early.length === 0 ? say("forcing_given_right") :
                             say("forcing_given_wrong", {n: early.length, all: given}));
  }
  words.push(given > 0 ? say("forcing_from", {n: given + 1}) : say("forcing_alone"));
  if (late.length === 0) return [...words, say("forcing_likeliest")];
  return [
    ...words, say("forcing_unlikely", {n: late.length, all: all - given}), ...searchWords(beam)
  ];
}

// The contents of the table in words: texts and nodes. `wrong` are the steps whose likeliest token
// is not the right one.
export function forcingWords(page, wrong) {
  if (page.model.encoderLayers === 0) return continuationWords(page, wrong);
  const all = page.steps.length;
  if (wrong.length === 0) {
    const same = say("forcing_all_right", {all});
    return page.targetGiven ? [same] : [same, ...sayNodes("forcing_try")];
  }
  const corrected = say("forcing_wrong", {n: wrong.length, all});
  return page.targetGiven ? [corrected, say("forcing_own")] :
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

  // Scrolls the column of a step into view, next to the names of the rows, which stay.
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
      row(say("forcing_step"), "",
          positions.map(
              (i) => make(
                  "td", {"data-position": i, class: "position"},
                  make(
                      "button", {
                        type: "button",
                        "aria-label": say("go_to_step", {n: i + 1}),
                        onclick: () => this.state.change({step: i})
                      },
                      String(i + 1))))),
      row(say("fed_training"), say(continues ? "fed_text_note" : "fed_training_note"),
          positions.map((i) => cell(i, tokens.fed[i]))),
      row(say("predicted"), say("predicted_note"), positions.map((i) => {
        const good = predicted[i] === tokens.right[i];
        return cell(
            i, predicted[i],
            make(
                "small", {}, `${good ? "✓" : "✗"} ${percent(Math.exp(steps[i].candidates[0][1]))}`),
            good ? "good" : "bad");
      })),
      row(say("right"), say(continues ? "right_text_note" : "right_note"),
          positions.map(
              (i) =>
                  cell(i, tokens.right[i], make("small", {}, percent(Math.exp(steps[i].right)))))),
    ];
    if (targetGiven) {
      // END is an output; it is never an input.
      const own =
          [tokens.start, ...tokens.written].filter((token) => token !== tokens.right.at(-1));
      table.push(
          row(say("fed_inference"), say("fed_inference_note"),
              positions.map(
                  (i) => cell(
                      i, i < own.length ? own[i] : null, null,
                      i < own.length && own[i] !== tokens.fed[i] ? "other" : ""))));
    }
    byId("forcing").replaceChildren(...table);
    byId("forcing-words").replaceChildren(...forcingWords(this.page, wrong));
  }
}
