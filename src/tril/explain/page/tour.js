// A short guided tour: a few stops, each showing a part of the page. It can be left at any time and
// restores everything.
import {byId, make} from "./dom.js";
import {say} from "./words.js";

// What each stop shows. A stop whose part is not on the page is skipped.
const kStops = [
  {name: "start", target: "#verdict", change: {kind: "masked", maskOff: false, view: "matrix"}},
  {name: "training", target: "#training-matrix", change: {phase: "training"}}, {
    name: "inference",
    target: "#inference-matrix",
    change: {phase: "inference", step: 1, row: 1, column: 0}
  },
  {name: "mask", target: "#training-matrix", change: {maskOff: true, phase: "training"}},
  {name: "cell", target: "#brief", change: {maskOff: false}},
  {name: "stages", target: "#stages", change: {}}, {name: "next", target: "#next", change: {}},
  {name: "end", target: "#tree-block", change: {}}
];
const kGap = 12;

export class Tour {
  constructor(page, state) {
    Object.assign(this, {page, state});
    this.stops = kStops.filter(({change}) => (change.step ?? 0) < page.steps.length);
    this.at = -1;
    byId("tour").addEventListener("click", () => (this.at < 0 ? this.begin_() : this.end_()));
    const button = (id, act) => make("button", {type: "button", id, onclick: act});
    this.back = button("tour-back", () => this.go_(this.at - 1));
    this.next = button("tour-next", () => this.go_(this.at + 1));
    this.title = make("h2", {id: "tour-title"});
    this.words = make("p", {id: "tour-words"});
    this.count = make("p", {class: "note", id: "tour-count"});
    const leave = make(
        "button", {type: "button", id: "tour-end", onclick: () => this.end_()}, say("tour_leave"));
    this.box = make(
        "div", {
          id: "tour-box",
          role: "dialog",
          "aria-labelledby": "tour-title",
          "aria-describedby": "tour-words",
          hidden: true,
          onkeydown: (event) => this.key_(event)
        },
        this.count, this.title, this.words,
        make("div", {class: "tour-buttons"}, leave, this.back, this.next));
    document.querySelector("main").append(this.box);
    state.signal.addEventListener("abort", () => this.clear_());
  }

  begin_() {
    this.before = {...this.state.now};
    this.from = globalThis.scrollY;
    this.go_(0);
  }

  go_(at) {
    if (at >= this.stops.length) {
      this.end_();
      return;
    }
    this.at = Math.max(0, at);
    const {name, target, change} = this.stops[this.at];
    this.clear_();
    // Always set from the beginning, so that a stop looks the same from either direction.
    this.state.change(
        Object.assign({}, ...this.stops.slice(0, this.at + 1).map((one) => one.change)));
    const part = document.querySelector(target);
    part.classList.add("toured");
    this.count.textContent = say("step_of", {n: this.at + 1, all: this.stops.length});
    this.title.textContent = say(`tour_${name}`);
    this.words.textContent = say(`tour_${name}_words`);
    this.back.textContent = say("tour_back");
    this.back.disabled = this.at === 0;
    this.next.textContent = say(this.at === this.stops.length - 1 ? "tour_done" : "tour_forward");
    this.box.hidden = false;
    part.scrollIntoView({block: change.maskOff === false && this.at > 0 ? "nearest" : "center"});
    this.place_(part);
    this.next.focus({preventScroll: true});
  }

  // Beside the part, or in a corner if there is no room beside it.
  place_(part) {
    const [box, there] = [this.box.getBoundingClientRect(), part.getBoundingClientRect()];
    const {clientWidth: wide, clientHeight: tall} = document.documentElement;
    const within = (value, size, most) => Math.min(Math.max(kGap, value), most - size - kGap);
    const top = within(there.top, box.height, tall);
    const left = within(there.left, box.width, wide);
    const place = there.right + kGap + box.width < wide ? [there.right + kGap, top] :
        there.left - kGap - box.width > 0               ? [there.left - kGap - box.width, top] :
        there.bottom + kGap + box.height < tall         ? [left, there.bottom + kGap] :
        there.top - kGap - box.height > 0               ? [left, there.top - kGap - box.height] :
                                            [wide - box.width - kGap, tall - box.height - kGap];
    this.box.style.left = `${place[0]}px`;
    this.box.style.top = `${place[1]}px`;
  }

  clear_() {
    for (const part of document.querySelectorAll(".toured")) part.classList.remove("toured");
  }
  end_() {
    this.clear_();
    this.at = -1;
    this.box.hidden = true;
    this.state.change(this.before);
    globalThis.scrollTo(0, this.from);
    byId("tour").focus({preventScroll: true});
  }

  key_(event) {
    const act = {
      Escape: () => this.end_(),
      ArrowRight: () => this.go_(this.at + 1),
      ArrowLeft: () => this.go_(this.at - 1)
    }[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
    if (event.key !== "Tab") event.stopPropagation();  // the page's own keys wait
  }
}
