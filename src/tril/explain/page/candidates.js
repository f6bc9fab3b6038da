// What the model would write next, with probabilities; and what that becomes without the mask.
import {byId, make, tokenText} from "./dom.js";
import {percent} from "./numbers.js";

export class Candidates {
  constructor(page, state, labelFor) {
    Object.assign(this, {page, labelFor});
    state.listen((now, changed) => {
      if (changed.has("step") || changed.has("maskOff")) this.show(now);
    });
  }

  show({step, maskOff}) {
    const {candidates, leaked} = this.page.steps[step];
    const right = this.page.tokens.right[step];
    byId("candidates-after")
        .replaceChildren("After ", tokenText(this.labelFor(this.page.tokens.fed[step])), " comes");
    const list = (chances, className) => chances.map(([token, logProb], place) => {
      const chance = Math.exp(logProb);
      const bar = make("i", {});
      bar.style.width = `${100 * chance}%`;
      return make(
          "li", {
            class: `${className}${token === right ? " right" : ""}${
                place >= candidates.length ? " beyond" : ""}`
          },
          tokenText(this.labelFor(token)), make("span", {class: "bar", "aria-hidden": "true"}, bar),
          make("output", {}, percent(chance)));
    });
    byId("candidates").replaceChildren(...list(this.withRight_(candidates, right, step), ""));
    byId("leaked-box").hidden = !maskOff;
    byId("leaked-candidates").replaceChildren(...(maskOff ? list(leaked, "leaked") : []));
    const fromTo = `${percent(Math.exp(this.page.steps[step].right))} with the mask, ${
        percent(Math.exp(this.page.steps[step].leakedRight))} without`;
    byId("leaked-words").replaceChildren(tokenText(this.labelFor(right)), `: ${fromTo}.`);
  }

  // The right one is among them, if need be after the likeliest.
  withRight_(candidates, right, step) {
    if (candidates.some(([token]) => token === right)) return candidates;
    return [...candidates, [right, this.page.steps[step].right]];
  }
}
