// The page of `tril serve`: what is typed is translated, or continued, as it is typed.
import {getJson, getText, hasKey, ServerError, useKey} from "./api.js";
import {offerThemes} from "./appearance.js";
import {Asking} from "./asking.js";
import {Choosing} from "./choosing.js";
import {byId, fill, make, quoted, saveFile, show} from "./dom.js";
import {nameOf, tagOf} from "./languages.js";
import {describe, offer, showProblem, tabulate} from "./report.js";
import {Result} from "./result.js";
import {Settings} from "./settings.js";
import {readAddress, writeAddress} from "./share.js";
import {Source} from "./source.js";
import {endOfGiven, percent, readContinuation, readTranslation} from "./words.js";

const kPause = 300;  // milliseconds without typing, after which the server is asked

class Page {
  constructor() {
    this.forgetAnswer_();
    this.source =
        new Source({typed: () => this.changed_(kPause), point: (i) => this.point_(null, i)});
    this.result = new Result({point: (i, by) => this.pointAtResult_(i, by)});
    this.settings = new Settings(() => this.changed_(kPause));
    this.choosing = new Choosing({
      changed: () => this.chosen_(),
      swapped: (reverse) => this.swap_(reverse),
      example: (text) => this.setText_(text)
    });
    this.asking = new Asking({
      begun: () => this.begun_(),
      partial: (text) => this.partial_(text),
      done: (answer, question) => this.done_(answer, question),
      failed: (error, seconds) => this.failed_(error, seconds)
    });
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on("clear", "click", () => this.setText_(""));
    on("copy", "click", () => this.copy_());
    on("again", "click", () => this.again_());
    on("why", "click", (event) => this.why_(event));
    on("receipt", "click", () => this.receipt_());
    on("key-form", "submit", (event) => {
      event.preventDefault();
      useKey(byId("key").value);
      this.begin();
    });
    addEventListener("hashchange", () => this.fromAddress_());
    offerThemes();
  }

  async begin() {
    let list;
    try {
      list = await getJson("/v1/models");
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.failed_(error, null);
      return;
    }
    show("key-form", false);
    show("problem", false);
    this.choosing.offer(list.data);
    document.documentElement.classList.add("ready");
    this.fromAddress_();
    // Where there is a keyboard on the screen it would cover half of the page.
    if (!matchMedia("(pointer: coarse)").matches) byId("text").focus();
  }

  fromAddress_() {
    const {model, source, target, text} = readAddress();
    if (text !== "" || this.source.text === "") this.source.text = text;
    this.choosing.set(this.choosing.find(model), {source, target});
    this.chosen_();
  }
  // What depends on the model and its languages.
  chosen_() {
    const {model, continues, from} = this.choosing;
    if (this.settings.kind !== model.kind) this.settings.show(model.kind);
    byId("title").textContent = continues ? "Continue" : "Translate";
    document.title = `${byId("title").textContent} · tril`;
    byId("result-label").textContent = continues ? "Your text, continued" : "Translation";
    byId("alternatives-label").textContent =
        continues ? "Other continuations" : "Other translations";
    this.source.lang = tagOf(from);
    this.changed_(0);
  }

  swap_({model, source, target}) {
    // The translation that is shown may still be that of an earlier text.
    const {text: typed} = this.source;
    const isCurrent = this.reading !== null && this.question.body.text === typed;
    const text = isCurrent ? this.reading.text : typed;
    this.choosing.set(model, {source, target});
    this.source.text = text;
    this.chosen_();
  }
  setText_(text) {
    this.source.text = text;
    byId("text").focus();
    this.changed_(0);
  }
  again_() {
    this.settings.nextSeed();
    this.changed_(0);
  }

  // The text, a language or a setting has changed.
  changed_(delay) {
    if (this.choosing.model === null) return;
    const {text} = this.source;
    const empty = text.trim() === "";
    show("examples", empty);
    show("clear", text !== "");
    fill("count", text === "" ? "" : count([...text].length, "character"));
    this.asking.stop();
    if (empty) {
      this.showIdle_();
      this.share_();
    } else {
      this.asking.ask(this.question_(text), delay);
    }
  }
  share_() {
    writeAddress({...this.choosing.state, text: this.source.text});
  }
  question_(text) {
    const {model, source, target, continues} = this.choosing;
    const body = {text, model: model.id, details: true, ...this.settings.request(text)};
    if (continues) return {path: "/v1/generate", body};
    body.alignments = true;
    if (source) body.source = source;
    if (target) body.target = target;
    return {path: "/v1/translate", body};
  }

  // No text, no answer.
  showIdle_() {
    this.forgetAnswer_();
    this.showActs_(false);
    for (const id of ["problem", "warnings", "alternatives", "table"]) show(id, false);
    for (const id of ["state", "detected", "readout", "receipt-words", "announce"]) fill(id);
    if (this.choosing.continues)
      this.result.showNothing(
          "How it goes on appears here", "with how sure the model was of each word.");
    else
      this.result.showNothing(
          "The translation appears here",
          "with how sure the model was of each word, and where each comes from.");
  }
  forgetAnswer_() {
    this.answer = null;    // the last complete one
    this.question = null;  // what it answers
    this.reading = null;   // the words of what is shown of it
  }
  showActs_(visible) {
    for (const id of ["why", "copy", "proof"]) show(id, visible);
    show("again", visible && this.settings.sampling);
  }

  // A question is sent: not for every letter, since browsers limit how often a page may change its
  // address.
  begun_() {
    this.share_();
    byId("alternatives").disabled = true;
    fill("state", this.choosing.continues ? "Writing …" : "Translating …");
    fill("announce");
    if (this.reading === null)
      this.result.showPartial("");
    else
      this.result.showStale();
  }
  partial_(text) {
    show("problem", false);
    this.reading = null;
    this.showActs_(false);
    fill("readout");
    this.result.lang = this.lang_();
    const begin = this.choosing.continues ? endOfGiven(this.source.text, text) : 0;
    this.result.showPartial(text.slice(begin), text.slice(0, begin));
  }
  done_(answer, question) {
    Object.assign(this, {answer, question});
    byId("alternatives").disabled = false;
    show("problem", false);
    fill("receipt-words");
    const [{warnings = [], detected}] = answer.translations;
    byId("warnings").replaceChildren(...warnings.map((text) => make("li", {}, text)));
    show("warnings", warnings.length > 0);
    this.showDetected_(detected);
    this.showCounts_();
    this.showServer_();
    this.showActs_(true);
    this.showChoice_(0);
    this.offer_();
    fill("announce", quoted(this.reading.text, this.lang_()));
  }
  showDetected_(detected) {
    this.choosing.detect(detected?.language ?? "");
    this.source.lang = tagOf(this.choosing.from);
    const names = this.choosing.model.language_names;
    fill(
        "detected",
        detected ?
            `Detected: ${nameOf(detected.language, names)} (${percent(detected.confidence)})` :
            "");
  }
  showCounts_() {
    const {text} = this.question.body;
    const tokens = this.answer.usage?.source_tokens;
    const parts = [count([...text].length, "character")];
    if (tokens !== undefined) parts.push(count(tokens, "token"));
    fill("count", parts.join(", "));
  }
  showServer_() {
    const {model, fingerprint} = this.answer;
    const {device, compute} = this.choosing.model;
    fill(
        "server", "Answered by ", make("b", {}, model),
        ` on ${device === "cpu" ? "the CPU" : device}, ${compute}. Fingerprint `,
        make("code", {id: "fingerprint"}, fingerprint));
  }

  // One of the texts of the answer.
  showChoice_(choice) {
    const [translation] = this.answer.translations;
    const read = this.choosing.continues ? readContinuation : readTranslation;
    const {text} = this.question.body;
    this.reading = read(text, translation, choice);
    if (this.reading.text.trim() === "")
      this.result.showNothing("The model wrote nothing", "");
    else
      this.result.showWords(this.reading, this.lang_());
    this.source.showWords(text, this.reading.sources);
    tabulate(this.reading, this.langs_());
    this.showEnd_(choice);
    this.point_(null, null);
  }
  // How many tokens the model wrote, and whether it came to an end.
  showEnd_(choice) {
    const [{sentences = [], ended}] = this.answer.translations;
    const shown = sentences.map(({hypotheses}) => hypotheses[choice] ?? hypotheses[0]);
    const all = shown.reduce((sum, {ids}) => sum + ids.length, 0);
    const {continues} = this.choosing;
    // Those of a continued text begin with what was given.
    const tokens = count(all - (continues ? this.answer.usage.source_tokens : 0), "token");
    const whole = shown.length > 0 ? shown.every((one) => one.ended) : ended;
    fill("state", whole ? tokens : `${tokens}, then cut at the limit`);
  }
  offer_() {
    const [translation] = this.answer.translations;
    const begin = (text) => this.choosing.continues ? endOfGiven(this.question.body.text, text) : 0;
    const texts = [translation.text, ...(translation.alternatives ?? [])];
    offer(translation.sentences ?? [], texts.map((text) => text.slice(begin(text)).trim()), {
      lang: this.lang_(),
      sampled: this.question.body.sample ?? false,
      choose: (i) => this.showChoice_(i)
    });
  }
  // Of what the model wrote, and of both sides.
  lang_() {
    return this.choosing.continues ? "" : tagOf(this.choosing.target);
  }
  langs_() {
    return {source: tagOf(this.choosing.from), target: this.lang_()};
  }

  failed_(error, seconds) {
    const asksForKey = error.status === 401 || error.status === 403;
    if (asksForKey) {
      show("key-form", true);
      fill(
          "key-words",
          hasKey() ? "The server does not accept this key." : "This server asks for a key.");
      byId("key").focus();
    }
    this.forgetAnswer_();
    this.result.showNothing("", "");
    this.showActs_(false);
    for (const id of ["alternatives", "table", "warnings"]) show(id, false);
    for (const id of ["state", "readout"]) fill(id);
    const again = () => this.choosing.model === null ? this.begin() : this.changed_(0);
    showProblem(error, seconds, again);
    show("problem", !asksForKey);
  }

  // Marks a word and those it belongs to on the other side, and says so. Null: none.
  point_(target, source) {
    if (this.reading === null) return;
    const {words} = this.reading;
    const from = target === null ? source ?? -1 : words[target].source;
    const linked = new Set([...words.keys()].filter((i) => from >= 0 && words[i].source === from));
    if (target !== null) linked.add(target);
    this.source.mark(new Set(from < 0 ? [] : [from]));
    this.result.mark(linked, target);
    describe({reading: this.reading, target, source, langs: this.langs_()});
    this.showWhy_(target === null ? 0 : words[target].sentence);
  }
  pointAtResult_(i, by) {
    this.point_(i, null);
    if (by === "keyboard" && i !== null) fill("announce", byId("readout").textContent);
  }

  // The page of `tril explain` is about one sentence: that of the word pointed at, or the first.
  showWhy_(number) {
    const {model, translations: [{sentences = []}]} = this.answer;
    const text = sentences[number]?.source ?? this.question.body.text;
    const fields = new URLSearchParams({model, text});
    const {continues, from, target} = this.choosing;
    if (!continues && from) fields.set("source", from);
    if (!continues && target) fields.set("target", target);
    byId("why").href = `/explain?${fields}`;
    byId("why").textContent = sentences.length > 1 ? `Why? (sentence ${number + 1})` : "Why?";
    byId("why").title = hasKey() ?
        "Saves a page that shows what the model computed for this sentence" :
        "What the model computed for this sentence, in a new tab";
  }
  // A new tab would not send the key: the page is fetched here, and saved.
  async why_(event) {
    if (!hasKey()) return;
    event.preventDefault();
    try {
      saveFile("explain.html", await getText(byId("why").getAttribute("href")), "text/html");
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.say_(error.message);
    }
  }
  async copy_() {
    const text = (this.reading.given ?? "") + this.reading.text;
    try {
      await navigator.clipboard.writeText(text);
      this.say_("Copied");
    } catch {
      // Not offered to pages that came over plain HTTP from another machine.
      this.say_("The browser does not let this page copy: select the text instead");
    }
  }
  say_(words) {
    fill("state", words);
    fill("announce", words);
  }
  async receipt_() {
    try {
      const {receipt} = await this.asking.receipt(this.question);
      saveFile("receipt.json", `${JSON.stringify(receipt, null, 2)}\n`, "application/json");
      fill(
          "receipt-words",
          "Saved as receipt.json. Whoever has the model can check that this is its answer: ",
          make("code", {}, "tril verify-answer receipt.json --model MODEL"));
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      fill("receipt-words", error.message);
    }
  }
}

function count(number, what) {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

new Page().begin();
