// What is being looked at: one object; the parts that show some of it listen for changes.

export class State {
  constructor(initial) {
    this.now = {...initial};
    this.listeners_ = [];
    this.life_ = new AbortController();
    this.signal = this.life_.signal;  // of listeners to what outlives the page's parts
  }
  // The page's parts are being replaced.
  end() {
    this.life_.abort();
  }
  // Calls `show(now, changed)` now and after each change; `changed` is a Set of names.
  listen(show) {
    this.listeners_.push(show);
    show(this.now, new Set(Object.keys(this.now)));
  }
  change(values) {
    const changed = new Set(Object.keys(values).filter((name) => this.now[name] !== values[name]));
    if (changed.size === 0) return;
    Object.assign(this.now, values);
    for (const show of this.listeners_) show(this.now, changed);
  }
}
