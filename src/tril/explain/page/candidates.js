// The model's next-token candidates with probabilities; and what these become without the mask.
import {byId, make, tokenText} from "./dom.js";
import {fixed, grouped, percent} from "./numbers.js";
import {say, sayNodes} from "./words.js";

const kPlain = 10;  // tenths: a temperature of 1

export class Candidates {
  constructor(page, state, labelFor) {
    Object.assign(this, {page, labelFor});
    state.listen((now, changed) => {
      if (["step", "maskOff", "heat"].some((name) => changed.has(name))) this.show(now);
    });
    byId("temperature").max = String(page.steps[0].logSums.length);
    byId("temperature").addEventListener("input", (event) => state.change({
      heat: Number(event.target.value)
    }));
  }

  // softmax(logit / T). The sum over the whole vocabulary is stored in the page for each
  // temperature; at 1 the result is the probability that the library computed.
  chance_([, logProb, logit], step, heat) {
    if (heat === kPlain) return Math.exp(logProb);
    return Math.exp(logit / (heat / kPlain) - this.page.steps[step].logSums[heat - 1]);
  }

  show({step, maskOff, heat}) {
    const {candidates, leaked} = this.page.steps[step];
    const right = this.page.tokens.right[step];
    const token = tokenText(this.labelFor(this.page.tokens.fed[step]));
    byId("next-title").replaceChildren(...sayNodes("after_comes", {token}));
    const list = (chances, className, at) => chances.map((one, place) => {
      const [token, , logit] = one;
      const chance = this.chance_(one, step, at);
      const bar = make("i", {});
      bar.style.width = `${100 * chance}%`;
      return make(
          "li", {
            class: `${className}${token === right ? " right" : ""}${
                place >= candidates.length ? " beyond" : ""}`
          },
          tokenText(this.labelFor(token)), make("span", {class: "bar", "aria-hidden": "true"}, bar),
          make("span", {class: "logit"}, fixed(logit, 2)), make("output", {}, percent(chance)));
    });
    const shown = this.withRight_(candidates, right, step);
    byId("candidates").replaceChildren(...list(shown, "", heat));
    this.tellHeat_(shown, step, heat);
    byId("leaked-box").hidden = !maskOff;
    byId("leaked-candidates").replaceChildren(...(maskOff ? list(leaked, "leaked", kPlain) : []));
    byId("leaked-words").replaceChildren(...sayNodes("leaked_words", {
      word: tokenText(this.labelFor(right)),
      masked: percent(Math.exp(this.page.steps[step].right)),
      unmasked: percent(Math.exp(this.page.steps[step].leakedRight))
    }));
  }

  tellHeat_(shown, step, heat) {
    const temperature = (heat / kPlain).toFixed(1);
    byId("temperature").value = String(heat);
    byId("temperature").setAttribute("aria-valuetext", temperature);
    byId("temperature-value").textContent = temperature;
    const sum = shown.reduce((all, one) => all + this.chance_(one, step, heat), 0);
    const others = this.page.model.vocab - shown.length;
    byId("others").textContent =
        say("others", {n: grouped(others), share: percent(Math.max(0, 1 - sum))});
    byId("heat-words").textContent =
        say(heat === kPlain   ? "heat_plain" :
                heat < kPlain ? "heat_cold" :
                                "heat_hot",
            {vocab: grouped(this.page.model.vocab), temperature});
  }

  // Includes the right token, after the likeliest if necessary.
  withRight_(candidates, right, step) {
    if (candidates.some(([token]) => token === right)) return candidates;
    const {right: logProb, rightLogit} = this.page.steps[step];
    return [...candidates, [right, logProb, rightLogit]];
  }
}
