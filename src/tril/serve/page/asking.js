// One question at a time: a new one ends the one before, and waits a moment for more typing.
import {postJson, postStream, ServerError} from "./api.js";

const kRetries = 5;
const kLongestWait = 30;  // seconds

export class Asking {
  // `partial(text)` while it streams, `done(answer, question)`, `failed(error, seconds)`: seconds
  // until it is tried again, or null.
  constructor({begun, partial, done, failed}) {
    Object.assign(this, {begun, partial, done, failed});
    this.timer_ = 0;
    this.controller_ = null;
    this.single_ = new Set();  // models that give one text only
  }

  stop() {
    clearTimeout(this.timer_);
    this.controller_?.abort();
    this.controller_ = null;
  }
  // `question` is {path, body}; after `delay` milliseconds.
  ask(question, delay) {
    this.stop();
    this.timer_ = setTimeout(() => this.send_(question, kRetries), delay);
  }
  // The same question once more, as one answer with a receipt.
  receipt({path, body}) {
    return postJson(path, {...this.fitted_(body), receipt: true});
  }

  // A model whose own beam is narrower than the number of texts asked for gives what it can.
  fitted_(body) {
    const fitted = {...body};
    if (this.single_.has(body.model) && body.beam === undefined && !body.sample) fitted.n_best = 1;
    return fitted;
  }
  async send_(question, retries) {
    const controller = new AbortController();
    this.controller_ = controller;
    const current = () => this.controller_ === controller;
    this.begun();
    try {
      const answer = await postStream(
          question.path, this.fitted_(question.body),
          {signal: controller.signal, partial: (text) => current() && this.partial(text)});
      if (current()) this.done(answer, question);
    } catch (error) {
      if (!current() || error.name === "AbortError") return;
      if (!(error instanceof ServerError)) throw error;
      if (this.isNarrow_(error, question.body)) {
        this.single_.add(question.body.model);
        this.send_(question, retries);
        return;
      }
      const busy = error.status === 429 || error.status === 503;
      const wait = busy && retries > 0 ? Math.min(error.retryAfter ?? 1, kLongestWait) : null;
      this.failed(error, wait);
      if (wait !== null)
        this.timer_ = setTimeout(() => this.send_(question, retries - 1), 1000 * wait);
    }
  }
  isNarrow_({status, field}, body) {
    return (status === 400 || status === 422) && (field === "n_best" || field === "beam") &&
        body.n_best > 1 && body.beam === undefined && !this.single_.has(body.model);
  }
}
