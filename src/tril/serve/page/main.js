// The page of `tril serve`: what is typed is translated, or continued, as it is typed.
import {getJson, getText, hasKey, ServerError, useKey} from "./api.js";
import {offerThemes} from "./appearance.js";
import {Asking} from "./asking.js";
import {byId, fill, make, quoted, saveFile, show} from "./dom.js";
import {beginnings, examplesFor} from "./examples.js";
import {kAuto, nameOf, pick, reverseOf, sourcesOf, tagOf, targetsOf} from "./languages.js";
import {describe, offer, tabulate} from "./report.js";
import {Result} from "./result.js";
import {Settings} from "./settings.js";
import {readAddress, writeAddress} from "./share.js";
import {Source} from "./source.js";
import {percent, readContinuation, readTranslation} from "./words.js";

const kPause = 300;  // milliseconds of typing nothing, after which the server is asked

class Page {
  constructor() {
    this.models = [];
    this.model = null;
    this.answer = null;    // the last complete one
    this.question = null;  // what it answers
    this.reading = null;   // its words
    this.choice = 0;
    this.source =
        new Source({typed: () => this.changed_(kPause), point: (i) => this.pointSource_(i)});
    this.result = new Result({point: (i, by) => this.pointTarget_(i, by)});
    this.settings = new Settings(() => this.changed_(kPause));
    this.asking = new Asking({
      begun: () => this.begun_(),
      partial: (text) => this.partial_(text),
      done: (answer, question) => this.done_(answer, question),
      failed: (error, seconds) => this.failed_(error, seconds)
    });
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on("model", "change", () => this.chooseModel_(byId("model").value));
    on("source", "change", () => this.languagesChanged_());
    on("target", "change", () => this.languagesChanged_());
    on("swap", "click", () => this.swap_());
    on("clear", "click", () => this.clear_());
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
    this.models = list.data;
    show("key-form", false);
    show("problem", false);
    show("desk", true);
    byId("model").replaceChildren(...this.models.map(({id}) => make("option", {value: id}, id)));
    byId("model").disabled = this.models.length < 2;
    this.fromAddress_();
    byId("text").focus();
    document.documentElement.classList.add("ready");
  }

  get languages_() {
    return {source: byId("source").value, target: byId("target").value};
  }
  get continues_() {
    return this.model.kind === "decoder-only";
  }
  // The language of the source, where it is known: chosen, or detected by the last answer.
  get from_() {
    const {source} = this.languages_;
    if (source !== kAuto) return source;
    return this.answer?.translations[0].detected?.language ?? "";
  }

  fromAddress_() {
    const {model, source, target, text} = readAddress();
    if (text !== "" || this.source.text === "") this.source.text = text;
    this.setModel_(this.models.find(({id}) => id === model) ?? this.models[0], {source, target});
    this.changed_(0);
  }

  // What depends on the model and its languages.
  setModel_(model, wanted) {
    this.model = model;
    byId("model").value = model.id;
    this.settings.show(model.kind);
    const list = (id, codes, usual) => {
      byId(id).replaceChildren(...codes.map((code) => make("option", {value: code}, nameOf(code))));
      byId(id).value = pick(codes, wanted[id], usual);
      byId(id).disabled = codes.length < 2;
    };
    list("source", sourcesOf(model), model.default_source);
    list("target", targetsOf(model), model.default_target);
    const known = byId("source").value !== "" && byId("target").value !== "";
    show("languages", known && !this.continues_);
    byId("title").textContent = this.continues_ ? "Continue" : "Translate";
    document.title = `${byId("title").textContent} · tril`;
    byId("alternatives-label").textContent =
        this.continues_ ? "Other continuations" : "Other translations";
    byId("result-label").textContent = this.continues_ ? "Your text, continued" : "Translation";
    const where = `${model.device === "cpu" ? "CPU" : model.device}, ${model.compute}`;
    fill(
        "about", make("b", {}, model.id),
        ` on this server's ${
            where}. The same request gets the same answer, bit for bit, however busy the server is. Programs can ask it too: `,
        make("a", {href: "/openapi.json"}, "its interface"), ".");
    this.showLanguages_();
  }
  showLanguages_() {
    const {source, target} = this.languages_;
    this.source.lang = source === kAuto ? "" : tagOf(source);
    this.showSwap_();
    const examples = this.continues_ ?
        beginnings() :
        examplesFor(
            source === kAuto ? {tags: this.model.source_languages.map(tagOf)} :
                               {tag: tagOf(source)});
    byId("examples")
        .replaceChildren(...examples.map(
            ({text, lang}) => make(
                "button", {
                  type: "button",
                  class: "example",
                  lang,
                  dir: "auto",
                  onclick: () => this.setText_(text)
                },
                text)));
    this.lang = this.continues_ ? "" : tagOf(target);
  }
  showSwap_() {
    byId("swap").disabled =
        reverseOf(this.models, this.model, this.from_, this.languages_.target) === null;
  }

  chooseModel_(id) {
    this.setModel_(this.models.find((model) => model.id === id), this.languages_);
    this.changed_(0);
  }
  languagesChanged_() {
    this.showLanguages_();
    this.changed_(0);
  }
  swap_() {
    const {target} = this.languages_;
    const reverse = reverseOf(this.models, this.model, this.from_, target);
    if (reverse === null) return;
    const text = this.reading?.text ?? this.source.text;
    this.setModel_(reverse.model, reverse);
    this.source.text = text;
    this.changed_(0);
  }
  setText_(text) {
    this.source.text = text;
    byId("text").focus();
    this.changed_(0);
  }
  clear_() {
    this.setText_("");
  }
  again_() {
    this.settings.nextSeed();
    this.changed_(0);
  }

  question_() {
    const {text} = this.source;
    const body = {text, model: this.model.id, details: true, ...this.settings.request(text)};
    if (this.continues_) return {path: "/v1/generate", body};
    const {source, target} = this.languages_;
    body.alignments = true;
    if (source) body.source = source;
    if (target) body.target = target;
    return {path: "/v1/translate", body};
  }

  // The text, a language or a setting has changed.
  changed_(delay) {
    if (this.model === null) return;
    const {text} = this.source;
    const empty = text.trim() === "";
    show("examples", empty);
    show("clear", text !== "");
    fill("count", text === "" ? "" : `${count([...text].length, "character")}`);
    this.asking.stop();
    writeAddress({model: this.models.length > 1 ? this.model.id : "", ...this.languages_, text});
    if (empty)
      this.forget_();
    else
      this.asking.ask(this.question_(), delay);
  }
  forget_() {
    this.answer = this.question = this.reading = null;
    this.showActs_(false);
    for (const id of ["problem", "warnings", "alternatives", "table", "again"]) show(id, false);
    for (const id of ["state", "detected", "readout", "receipt-words", "announce"]) fill(id);
    this.result.showNothing(
        this.continues_ ? "How it goes on appears here" : "The translation appears here",
        this.continues_ ? "with how sure the model was of each word." :
                          "with how sure the model was of each word, and where each comes from.");
  }
  showActs_(visible) {
    for (const id of ["why", "copy", "proof"]) show(id, visible);
    show("again", visible && this.settings.sampling);
  }

  begun_() {
    byId("alternatives").disabled = true;
    fill("state", this.continues_ ? "Writing …" : "Translating …");
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
    this.result.box.lang = this.lang;
    const given = this.source.text;
    if (this.continues_ && !text.startsWith(given))
      this.result.showPartial(text, given);
    else
      this.result.showPartial(text);
  }
  done_(answer, question) {
    Object.assign(this, {answer, question});
    byId("alternatives").disabled = false;
    show("problem", false);
    fill("receipt-words");
    const [translation] = answer.translations;
    const {warnings = [], detected} = translation;
    byId("warnings").replaceChildren(...warnings.map((text) => make("li", {}, text)));
    show("warnings", warnings.length > 0);
    fill(
        "detected",
        detected ? `Detected: ${nameOf(detected.language)} (${percent(detected.confidence)})` : "");
    if (detected) this.source.lang = tagOf(detected.language);
    this.showSwap_();
    fill("state", translation.ended ? "" : "Cut at the limit: the model had more to say.");
    const {source_tokens, target_tokens} = answer.usage ?? {};
    if (source_tokens !== undefined) {
      fill(
          "count",
          `${count([...question.body.text].length, "character")}, ${
              count(source_tokens, "token")}`);
      if (translation.ended) fill("state", count(target_tokens, "token"));
    }
    fill("fingerprint", answer.fingerprint);
    this.showActs_(true);
    this.showChoice_(0);
    fill("announce", quoted(this.reading.text, this.lang));
  }
  showChoice_(choice) {
    const [translation] = this.answer.translations;
    const {text: given, sample = false} = this.question.body;
    this.choice = choice;
    this.reading =
        (this.continues_ ? readContinuation : readTranslation)(given, translation, choice);
    const langs = this.langs_();
    this.result.showWords(this.reading, this.lang);
    this.source.showWords(given, this.reading.sources);
    offer(translation, {chosen: choice, lang: this.lang, sampled: sample}, (i) => {
      this.showChoice_(i);
      byId("choices").querySelectorAll("input")[i].focus();
    });
    tabulate(this.reading, langs);
    this.point_(null, null);
  }
  langs_() {
    return {source: tagOf(this.from_), target: this.lang};
  }

  failed_(error, seconds) {
    const asksForKey = error.status === 401 || error.status === 403;
    if (asksForKey) {
      show("key-form", true);
      fill(
          "key-words",
          error.status === 403 || hasKey() ? "The server does not accept this key." :
                                             "This server asks for a key.");
      byId("key").focus();
    }
    if (this.model === null) show("desk", false);
    this.result.showNothing("", "");
    this.reading = null;
    this.showActs_(false);
    for (const id of ["alternatives", "table"]) show(id, false);
    fill("state");
    fill("readout");
    const advice = error.status === 413 ?
        "The text is too long for this server: translate it in parts." :
        seconds !== null ? `Trying again in ${count(Math.ceil(seconds), "second")}.` :
                           "";
    fill(
        "problem", make("p", {}, error.message), advice ? make("p", {class: "note"}, advice) : null,
        isPassing(error) && seconds === null ?
            make(
                "button", {
                  type: "button",
                  onclick: () => this.model === null ? this.begin() : this.changed_(0)
                },
                "Try again") :
            null);
    show("problem", !asksForKey);
  }

  // Marks a word and those it belongs to on the other side, and says so.
  point_(target, source) {
    if (this.reading === null) return;
    const {words} = this.reading;
    const from = target === null ? source : words[target].source;
    const linked = new Set(
        [...words.keys()].filter((i) => from !== null && from >= 0 && words[i].source === from));
    if (target !== null) linked.add(target);
    this.source.mark(new Set(from === null || from < 0 ? [] : [from]));
    this.result.mark(linked, target);
    describe({reading: this.reading, target, source, langs: this.langs_()});
    this.showWhy_(target === null ? 0 : words[target].sentence);
  }
  pointTarget_(i, by) {
    this.point_(i, null);
    if (by === "keyboard" && i !== null) fill("announce", byId("readout").textContent);
  }
  pointSource_(i) {
    this.point_(null, i);
  }

  // The page of `tril explain` is about one sentence: that of the word pointed at, or the first.
  showWhy_(number) {
    const {model, translations: [{sentences = []}]} = this.answer;
    const text = sentences[number]?.source ?? this.question.body.text;
    const fields = new URLSearchParams({model, text});
    if (!this.continues_ && this.from_) fields.set("source", this.from_);
    if (!this.continues_ && this.languages_.target) fields.set("target", this.languages_.target);
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
      this.failed_(error, null);
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
      const answer = await this.asking.receipt(this.question);
      saveFile("receipt.json", `${JSON.stringify(answer.receipt, null, 2)}\n`, "application/json");
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

// Whether the same request may succeed later.
function isPassing({status}) {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

function count(number, what) {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

new Page().begin();
