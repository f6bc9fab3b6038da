// What teacher forcing fed: at each step the right word, whatever the model predicted.
import {byId, make, tokenText} from "./dom.js";
import {percent, plural} from "./numbers.js";

// What the table shows, in words.
function judgement(wrong, all, targetGiven) {
  if (wrong === 0) {
    const same = `All ${all} predictions are right, so feeding the right word and feeding the ` +
        "predicted one are the same here.";
    return targetGiven ?
        same :
        `${same} The target is what the model itself wrote; tril explain --target shows it ` +
            "against a text of yours.";
  }
  const corrected = `${plural(wrong, "prediction")} of ${all} ${wrong === 1 ? "is" : "are"} not ` +
      "the right word. In training the right one goes in at the next step all the same.";
  return targetGiven ?
      `${corrected} In inference the model would go on from its own words: the last row.` :
      `${corrected} Beam search found the better sentence by looking further than one step.`;
}

export class Forcing {
  constructor(page, state, labelFor) {
    Object.assign(this, {page, state, labelFor});
    this.build_();
    state.listen((now, changed) => {
      if (!changed.has("step")) return;
      const cells = (css) => byId("forcing").querySelectorAll(css);
      for (const cell of cells(".current")) cell.classList.remove("current");
      for (const cell of cells(`[data-position="${now.step}"]`)) cell.classList.add("current");
    });
  }

  build_() {
    const {tokens, steps, targetGiven} = this.page;
    const predicted = steps.map((step) => step.candidates[0][0]);
    const wrong = predicted.filter((token, i) => token !== tokens.right[i]).length;
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
      row("Fed in training", "START, then the right words",
          positions.map((i) => cell(i, tokens.fed[i]))),
      row("Predicted", "the likeliest next", positions.map((i) => {
        const good = predicted[i] === tokens.right[i];
        return cell(
            i, predicted[i],
            make(
                "small", {}, `${good ? "✓" : "✗"} ${percent(Math.exp(steps[i].candidates[0][1]))}`),
            good ? "good" : "bad");
      })),
      row("Right", "what should come out",
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
    byId("forcing-words").textContent = judgement(wrong, steps.length, targetGiven);
  }
}
