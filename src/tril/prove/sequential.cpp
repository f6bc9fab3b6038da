#include "tril/prove/sequential.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tril/base/clock.h"
#include "tril/base/gamma.h"

namespace tril {
namespace {

// The targets' labels: the token that follows each row.
std::vector<int32_t> labels_of(const TokenPair& pair) {
  std::vector<int32_t> labels(pair.target.begin() + 1, pair.target.end());
  labels.push_back(pair.next);
  return labels;
}

// One way to train: a session of its own, so that its memory is its own.
class Learner {
 public:
  Learner(const Transformer& model, const SequentialOptions& options)
      : model_(model), session_(model, options.threads) {
    session_.masking = options.masking;
    session_.hooks = options.hooks;
    session_.observer = &counter_;
  }

  // One step on these targets, with one label a row. The gradients are valid until the next.
  struct Step {
    double loss = 0.0;
    Gradients gradients;
  };
  Step step(std::span<const TokenPair> pairs, std::span<const int32_t> labels) {
    session_.reset();
    const Stopwatch time;
    Tape tape(session_);
    const Memory memory = encode_pairs(model_, pairs, session_);
    Rows rows;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto slot = static_cast<int32_t>(i);
      rows.add_sequence(pairs[i].target,
                        {.slot = slot, .segment = model_.config().decoder_only() ? -1 : slot});
    }
    const Tensor loss = model_.loss(model_.forward(rows, memory, session_), labels, {}, session_);
    Step result{0.0, tape.backward(loss)};
    result.loss = static_cast<double>(loss.data()[0]);
    seconds_ += time.seconds();
    return result;
  }
  // Forgets what the steps so far cost, but not their memory, which the next ones will use again.
  void warm() {
    counter_.clear();
    seconds_ = 0.0;
  }
  SequentialComparison::Cost cost() const {
    return {.calls = counter_.calls(),
            .rows = counter_.rows(),
            .seconds = seconds_,
            .peak_bytes = session_.arena.peak_bytes() + session_.host.peak_bytes()};
  }
  const Parallel& parallel() const { return session_.parallel; }

 private:
  const Transformer& model_;
  ForwardCounter counter_;
  Session session_;
  double seconds_ = 0.0;
};

// A parameter's gradient, summed over the prefixes.
struct Sum {
  std::string name;
  Tensor parameter;
  std::vector<float> values;
  double last = 0.0;  // the largest element of the last prefix's own gradient
};

// NaN counts as larger than anything.
double larger(double a, double b) { return b <= a || std::isnan(a) ? a : b; }
double larger(double a, float b) { return larger(a, std::abs(static_cast<double>(b))); }

// Adds a prefix's gradients; returns their largest element.
double add(const Parallel& parallel, const Gradients& gradients, std::vector<Sum>& sums) {
  parallel(static_cast<int64_t>(sums.size()), [&](int64_t task) {
    Sum& sum = sums[static_cast<size_t>(task)];
    const Tensor gradient = gradients.of(sum.parameter);
    sum.last = 0.0;
    if (!gradient.defined()) return;
    const float* from = gradient.data();
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += from[i];
      sum.last = larger(sum.last, from[i]);
    }
  });
  double largest = 0.0;
  for (const Sum& sum : sums) largest = larger(largest, sum.last);
  return largest;
}

// Fills in what the gradients say. `largest` are the largest elements of the prefixes' gradients.
void compare(const Gradients& parallel, const std::vector<Sum>& sums,
             const std::vector<double>& largest, SequentialComparison& result) {
  const auto prefixes = static_cast<int64_t>(largest.size());
  double total = 0.0;
  for (const double one : largest) total += one;
  result.gradient_bound = (gamma(result.path_terms) + gamma(result.path_terms + prefixes)) * total;
  result.weakest_position =
      *std::min_element(largest.begin(), largest.end()) / result.gradient_bound;
  for (const Sum& sum : sums) {
    const Tensor gradient = parallel.of(sum.parameter);
    double difference = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < sum.values.size(); ++i) {
      const float expected = gradient.defined() ? gradient.data()[i] : 0.0f;
      difference = larger(difference, expected - sum.values[i]);
      size = larger(size, expected);
    }
    result.gradients += static_cast<int64_t>(sum.values.size());
    ++result.parameters;
    if (size > result.gradient_bound) ++result.parameters_noticed;
    if (result.worst_parameter.empty() || !(difference <= result.gradient_difference)) {
      result.gradient_difference = difference;
      result.worst_parameter = sum.name;
    }
    if (std::isnan(difference)) break;
  }
}

}  // namespace

double SequentialComparison::loss_difference() const {
  return std::abs(parallel_loss - sequential_loss);
}

int64_t path_terms(const TransformerConfig& config, const StepLengths& lengths) {
  const TransformerConfig c = config.completed();
  const int64_t group = c.heads / c.kv_heads;
  const int64_t norm = c.model + 8;  // two means over the features, and some products
  const int64_t feed_forward = c.model + 4 + c.feed_forward + norm + 1;
  // From the heads' keys or queries on: projection, rotary turn, three inputs added, norm,
  // residual.
  const int64_t projection = c.heads * c.head_dim + 2 + 3 + norm + 1;
  // Output projection; dout · v and dout · out; the sum over keys (for the query) or over rows and
  // heads of the group (for the key).
  const auto attention = [&](int64_t keys, int64_t rows) {
    return c.model + 2 * c.head_dim + 4 + std::max(keys, rows * group) + projection;
  };
  int64_t decoder = feed_forward + attention(lengths.target, lengths.target);
  if (!c.decoder_only()) decoder += attention(lengths.source, lengths.target);
  // In the last layer rows first meet in the sum over rows of a key's gradient.
  int64_t terms = lengths.target * group + projection + (c.decoder_layers - 1) * decoder;
  if (!c.decoder_only()) {
    terms += decoder + c.decoder_layers + norm;  // memory is read by each layer
    terms += c.encoder_layers * (feed_forward + attention(lengths.source, lengths.source));
  }
  terms += norm + 1;                  // embedding, its norm and scale
  return terms + lengths.tokens + 3;  // the sum over tokens; a weight used three times
}

TransformerConfig tiny_config_like(const TransformerConfig& config) {
  TransformerConfig c = config.completed();
  c.target_vocab = 64;
  c.source_vocab = c.decoder_only() ? 0 : 64;
  c.kv_heads = c.kv_heads < c.heads ? 1 : 2;
  c.heads = 2;
  c.model = 32;
  c.head_dim = 16;
  c.feed_forward = 64;
  c.encoder_layers = std::min<int64_t>(c.encoder_layers, 2);
  c.decoder_layers = std::min<int64_t>(c.decoder_layers, 2);
  c.max_length = 1024;
  return c;
}

SequentialComparison compare_sequential_with_parallel(const Transformer& model,
                                                      std::span<const TokenPair> pairs,
                                                      const SequentialOptions& options) {
  require(!pairs.empty(), ErrorCode::invalid_argument, "sequential: there are no targets");
  const TransformerConfig& c = model.config();
  SequentialComparison result;
  result.sequences = static_cast<int64_t>(pairs.size());
  std::vector<int32_t> labels;
  int64_t source_tokens = 0;
  int64_t longest_source = 0;
  for (const TokenPair& pair : pairs) {
    require(!pair.target.empty(), ErrorCode::invalid_argument, "sequential: a target is empty");
    const auto length = static_cast<int64_t>(pair.target.size());
    const auto own = labels_of(pair);
    labels.insert(labels.end(), own.begin(), own.end());
    result.longest = std::max(result.longest, length);
    result.positions += length;
    source_tokens += static_cast<int64_t>(pair.source.size());
    longest_source = std::max(longest_source, static_cast<int64_t>(pair.source.size()));
    result.score_matrix_bytes +=
        c.heads * c.decoder_layers * length * length * int64_t{sizeof(float)};
  }
  result.path_terms = path_terms(c, {.target = result.longest,
                                     .source = longest_source,
                                     .tokens = std::max(result.positions, source_tokens)});

  Learner parallel(model, options);
  {
    Transformer prepared = model;
    Context packing(options.threads);
    prepared.prepare_training(packing);
  }
  parallel.step(pairs, labels);  // once without counting: the second time all memory is there
  parallel.warm();
  const Learner::Step all = parallel.step(pairs, labels);
  result.parallel = parallel.cost();
  result.parallel_loss = all.loss;

  Learner sequential(model, options);
  const auto full = std::max_element(
      pairs.begin(), pairs.end(),
      [](const TokenPair& a, const TokenPair& b) { return a.target.size() < b.target.size(); });
  sequential.step({full, full + 1}, labels_of(*full));
  sequential.warm();
  std::vector<Sum> sums;
  for (const auto& parameter : model.parameters()) {
    sums.push_back({.name = parameter.name,
                    .parameter = parameter.tensor,
                    .values = std::vector<float>(static_cast<size_t>(parameter.tensor.size()))});
  }
  std::vector<double> largest;  // of each prefix's gradient
  for (const TokenPair& pair : pairs) {
    const std::vector<int32_t> next = labels_of(pair);
    for (size_t length = 1; length <= pair.target.size(); ++length) {
      if (options.progress)
        options.progress(static_cast<int64_t>(largest.size()), result.positions);
      TokenPair prefix = pair;
      prefix.target.resize(length);
      std::vector<int32_t> last(length, -1);
      last.back() = next[length - 1];
      const Learner::Step step = sequential.step({&prefix, 1}, last);
      result.sequential_loss += step.loss;
      largest.push_back(add(sequential.parallel(), step.gradients, sums));
    }
  }
  result.sequential = sequential.cost();
  result.loss_bound = (kFp32Unit + static_cast<double>(largest.size()) * 0x1p-53) *
                      std::max(std::abs(result.parallel_loss), std::abs(result.sequential_loss));
  compare(all.gradients, sums, largest, result);
  return result;
}

}  // namespace tril
