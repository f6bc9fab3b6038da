// Attention by the textbook formula: softmax(q·k / √d + mask) v, from the queries, keys and values
// the library computed. The library itself never holds the matrix of weights.
import {unpackNumbers} from "./numbers.js";

export class Attentions {
  constructor(page) {
    this.page = page;
    this.model = page.model;
    this.layers_ = new Map();
    this.weights_ = new Map();
    this.leaked_ = new Map();
  }

  kinds() {
    return ["masked", "cross", "encoder"].filter((kind) => this.page.attention[kind].length > 0);
  }
  layerCount(kind) {
    return this.page.attention[kind].length;
  }
  // Numbers of rows and columns of its matrix.
  size(kind) {
    const {query, key} = this.page.attention[kind][0];
    return {query, key};
  }

  // Unpacked on first use.
  layer(kind, layer) {
    const name = `${kind} ${layer}`;
    if (!this.layers_.has(name)) {
      const packed = this.page.attention[kind][layer];
      const width = this.model.headDim;
      this.layers_.set(name, {
        ...packed,
        q: unpackNumbers(packed.q, width),
        k: unpackNumbers(packed.k, width),
        v: unpackNumbers(packed.v, width),
        context: packed.context ? unpackNumbers(packed.context, width) : null,
      });
    }
    return this.layers_.get(name);
  }

  // Scaled scores of the pass without the mask, [heads, query, key].
  leakedScores(layer) {
    if (!this.leaked_.has(layer)) {
      const rows = this.page.steps.length;
      this.leaked_.set(layer, unpackNumbers(this.page.leakedScores[layer], rows));
    }
    return this.leaked_.get(layer);
  }

  // The keys row i may see, [lo, hi). Without the mask: to the end.
  sees(kind, layer, i, maskOff) {
    const {lo, hi, key} = this.page.attention[kind][layer];
    return {lo: lo[i], hi: maskOff && kind === "masked" ? key : hi[i]};
  }

  // Whether row i sees key j only because the mask is off.
  leaks(kind, layer, i, j) {
    return kind === "masked" && j >= this.page.attention[kind][layer].hi[i];
  }

  dot(kind, layer, head, i, j) {
    const {q, k} = this.layer(kind, layer);
    const {heads, kvHeads, headDim} = this.model;
    const from = (i * heads + head) * headDim;
    const to = (j * kvHeads + this.kvHead(head)) * headDim;
    let sum = 0;
    for (let d = 0; d < headDim; ++d) sum += q[from + d] * k[to + d];
    return sum;
  }

  kvHead(head) {
    return Math.floor(head / (this.model.heads / this.model.kvHeads));
  }

  // Whether scores have a bias by distance, as with ALiBi; none has one between source and target.
  hasBias(kind) {
    return kind !== "cross" && this.model.bias[kind].length > 0;
  }

  bias(kind, head, i, j) {
    if (!this.hasBias(kind)) return 0;
    const row = this.model.bias[kind][head];
    return row[(row.length - 1) / 2 + j - i];
  }

  score(kind, layer, head, i, j, maskOff) {
    if (maskOff && kind === "masked") {
      const {query, key} = this.size(kind);
      return this.leakedScores(layer)[(head * query + i) * key + j];
    }
    return this.dot(kind, layer, head, i, j) * this.model.scale + this.bias(kind, head, i, j);
  }

  // [query, key]: exactly zero where a row may not see the key.
  weights(kind, layer, head, maskOff = false) {
    const off = maskOff && kind === "masked";
    const name = `${kind} ${layer} ${head} ${off}`;
    if (!this.weights_.has(name)) {
      const {query, key} = this.size(kind);
      const weights = new Float64Array(query * key);
      for (let i = 0; i < query; ++i) this.fillRow_(weights, kind, layer, head, i, off);
      this.weights_.set(name, weights);
    }
    return this.weights_.get(name);
  }

  fillRow_(weights, kind, layer, head, i, maskOff) {
    const {key} = this.size(kind);
    const {lo, hi} = this.sees(kind, layer, i, maskOff);
    const row = weights.subarray(i * key, (i + 1) * key);
    let largest = -Infinity;
    for (let j = lo; j < hi; ++j) {
      row[j] = this.score(kind, layer, head, i, j, maskOff);
      if (row[j] > largest) largest = row[j];
    }
    let sum = 0;
    for (let j = lo; j < hi; ++j) sum += row[j] = Math.exp(row[j] - largest);
    for (let j = lo; j < hi; ++j) row[j] /= sum;
  }

  // Every step of one cell's arithmetic.
  cell(kind, layer, head, i, j, maskOff = false) {
    const off = maskOff && kind === "masked";
    const {headDim, heads, kvHeads, scale} = this.model;
    const {lo, hi} = this.sees(kind, layer, i, off);
    const visible = j >= lo && j < hi;
    const {key} = this.size(kind);
    const weights = this.weights(kind, layer, head, off).subarray(i * key, (i + 1) * key);
    const scores = [];
    for (let at = lo; at < hi; ++at) scores.push(this.score(kind, layer, head, i, at, off));
    const largest = Math.max(...scores);
    const result = {
      visible,
      lo,
      hi,
      weights,
      largest,
      leaks: off && this.leaks(kind, layer, i, j),
      sum: scores.reduce((sum, score) => sum + Math.exp(score - largest), 0),
      weight: weights[j],
      bias: this.bias(kind, head, i, j),
      hasBias: this.hasBias(kind),
      score: this.score(kind, layer, head, i, j, off),
      vectors: null,
    };
    // Without the mask later layers have other queries, which the page does not store.
    if (off && layer > 0) {
      result.scaled = result.score - result.bias;
      result.dot = result.scaled / scale;
      return result;
    }
    const {q, k, v, context} = this.layer(kind, layer);
    const slice = (values, row, rowHeads, h) =>
        values.subarray((row * rowHeads + h) * headDim, (row * rowHeads + h + 1) * headDim);
    const kv = this.kvHead(head);
    const sum = new Float64Array(headDim);
    for (let at = lo; at < hi; ++at) {
      const value = slice(v, at, kvHeads, kv);
      for (let d = 0; d < headDim; ++d) sum[d] += weights[at] * value[d];
    }
    result.dot = this.dot(kind, layer, head, i, j);
    result.scaled = result.dot * scale;
    result.vectors = {
      q: slice(q, i, heads, head),
      k: slice(k, j, kvHeads, kv),
      v: slice(v, j, kvHeads, kv),
      context: sum,
      engine: context && !off ? slice(context, i, heads, head) : null,
    };
    return result;
  }
}

// The step-by-step pass. The page stores a layer of it only if a bit differs from training;
// otherwise both have the same numbers, and the same weights.
export class Stepwise {
  constructor(page, training) {
    this.page = page;
    this.training = training;
    const attention = {};
    for (const [kind, layers] of Object.entries(page.attention))
      attention[kind] = layers.map((record, layer) => page.stepwise[kind][layer] ?? record);
    this.own = new Attentions({...page, attention});
  }
  differs(kind, layer) {
    return this.page.stepwise[kind][layer] !== null;
  }
  pass_(kind, layer) {
    return this.differs(kind, layer) ? this.own : this.training;
  }
  weights(kind, layer, head) {
    return this.pass_(kind, layer).weights(kind, layer, head);
  }
  sees(kind, layer, i) {
    return this.pass_(kind, layer).sees(kind, layer, i, false);
  }
}
