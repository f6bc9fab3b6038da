#include "tril/prove/sequential.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "tril/autograd/tape.h"
#include "tril/base/clock.h"
#include "tril/models/session_state.h"
#include "tril/prove/bits.h"

namespace tril {
namespace {

// The targets' labels: the token that follows each row.
std::vector<int32_t> labels_of(const TokenPair& pair) {
  std::vector<int32_t> labels(pair.target.begin() + 1, pair.target.end());
  labels.push_back(pair.next);
  return labels;
}

// One way to train, with its own session, so that its memory can be measured.
class Learner {
 public:
  Learner(const Transformer& model, const SequentialOptions& options)
      : model_(model), session_(model, options.threads) {
    session_->masking = options.masking;
    session_->hooks = options.hooks;
    session_->observer = &counter_;
  }

  // One step on these targets, with one label per row. The gradients are valid until the next step.
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
    result.loss = static_cast<double>(to_floats(loss)[0]);
    seconds_ += time.seconds();
    return result;
  }
  // Forgets the cost of the steps so far, but not their memory, which the next ones reuse.
  void warm() {
    counter_.clear();
    seconds_ = 0.0;
  }
  SequentialComparison::Cost cost() const {
    return {.calls = counter_.calls(),
            .rows = counter_.rows(),
            .seconds = seconds_,
            .peak_bytes = session_->arena.peak_bytes() + session_->host.peak_bytes()};
  }
  const Parallel& parallel() const { return session_->parallel; }

 private:
  const Transformer& model_;
  ForwardCounter counter_;
  Session session_;
  double seconds_ = 0.0;
};

// NaN counts as larger than anything.
double larger(double a, double b) { return b <= a || std::isnan(a) ? a : b; }
double larger(double a, float b) { return larger(a, std::abs(static_cast<double>(b))); }

// A gradient is undefined, which means zero, if the loss does not depend on the parameter.
int64_t differing_gradients(const Tensor& a, const Tensor& b, int64_t size) {
  require(size == (a.defined() ? a : b).size() || (!a.defined() && !b.defined()),
          ErrorCode::internal, "prove: a gradient of another size");
  if (a.defined() && b.defined()) return differing_bits(OnHost(a).values(), OnHost(b).values());
  if (!a.defined() && !b.defined()) return 0;
  const OnHost one(a.defined() ? a : b);
  const auto only = one.values();
  return std::count_if(only.begin(), only.end(), [](float x) { return !(x == 0.0f); });
}

// Whether rows do not interact between the loss and a parameter: true for those of the decoder's
// last layer from the outputs and queries of its masked attention up.
bool rows_stay_apart(std::string_view parameter, const TransformerConfig& config) {
  const std::string layer = concat("decoder.", config.decoder_layers - 1, ".");
  if (!parameter.starts_with(layer)) return false;
  parameter.remove_prefix(layer.size());
  for (const std::string_view part :
       {"attention.query.", "attention.output.", "cross_attention.query.",
        "cross_attention.output.", "cross_attention_norm.", "feed_forward.",
        "feed_forward_norm."}) {
    if (parameter.starts_with(part)) return true;
  }
  return false;
}

// A parameter's gradient on the host; zero if the loss does not depend on it.
class Gradient {
 public:
  Gradient(const Gradients& gradients, const ConstTensor& parameter) {
    const Tensor gradient = gradients.of(parameter);
    if (gradient.defined()) values_.emplace(gradient);
  }
  float operator[](size_t i) const { return values_ ? values_->data()[i] : 0.0f; }

 private:
  std::optional<OnHost> values_;
};

// A parameter's gradient, summed over the prefixes.
struct Sum {
  std::string name;
  ConstTensor parameter;
  std::vector<float> values;
  double last = 0.0;  // the largest element of the last prefix's own gradient
};

// What comparison 2 needs per element.
struct StrictSum {
  double sum = 0.0, absolute = 0.0;
  int32_t terms = 0;

  double bound() const {
    return gamma(terms + 1) * absolute + static_cast<double>(terms) * 0x1p-149;
  }
};

// The gradients of all prefixes, added as they come.
class PrefixSums {
 public:
  PrefixSums(const Transformer& model, int64_t positions) {
    constexpr int64_t kKept = int64_t{1} << 24;
    for (const auto& parameter : model.parameters()) {
      const auto size = static_cast<size_t>(parameter.tensor.size());
      sums_.push_back({.name = parameter.name,
                       .parameter = parameter.tensor,
                       .values = std::vector<float>(size)});
      if (!rows_stay_apart(parameter.name, model.config())) continue;
      strict_.push_back({.place = sums_.size() - 1, .sums = std::vector<StrictSum>(size)});
      strict_elements_ += parameter.tensor.size();
    }
    stride_ = static_cast<size_t>((strict_elements_ * positions + kKept - 1) / kKept);
    stride_ = std::max<size_t>(stride_, 1);
  }

  void add(const Parallel& parallel, const Gradients& gradients) {
    parallel(static_cast<int64_t>(sums_.size()),
             [&](int64_t task) { add_one(gradients, sums_[static_cast<size_t>(task)]); });
    double largest = 0.0;
    for (const Sum& sum : sums_) largest = larger(largest, sum.last);
    largest_.push_back(largest);
    parallel(static_cast<int64_t>(strict_.size()), [&](int64_t task) {
      Strict& strict = strict_[static_cast<size_t>(task)];
      const Gradient gradient(gradients, sums_[strict.place].parameter);
      for (size_t i = 0; i < strict.sums.size(); ++i) {
        const float g = gradient[i];
        strict.sums[i].sum += static_cast<double>(g);
        strict.sums[i].absolute += std::abs(static_cast<double>(g));
        strict.sums[i].terms += g != 0.0f ? 1 : 0;  // NaN too
      }
    });
    std::vector<float>& kept = kept_.emplace_back();
    for (const Strict& strict : strict_) {
      const Gradient gradient(gradients, sums_[strict.place].parameter);
      for (size_t i = 0; i < strict.sums.size(); i += stride_) kept.push_back(gradient[i]);
    }
  }

  // Fills in comparisons 2 and 3.
  void compare(const Gradients& parallel, SequentialComparison& result) const {
    compare_all(parallel, result);
    compare_strictly(parallel, result);
    find_weakest(result);
  }

 private:
  struct Strict {
    size_t place = 0;  // among the sums
    std::vector<StrictSum> sums;
  };

  static void add_one(const Gradients& gradients, Sum& sum) {
    const Tensor gradient = gradients.of(sum.parameter);
    sum.last = 0.0;
    if (!gradient.defined()) return;
    const OnHost values(gradient);
    const float* from = values.data();
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += from[i];
      sum.last = larger(sum.last, from[i]);
    }
  }

  template <class F>
  void each_kept(const F& f) const {
    for (const Strict& strict : strict_) {
      for (size_t i = 0; i < strict.sums.size(); i += stride_) f(strict, i);
    }
  }

  void compare_all(const Gradients& parallel, SequentialComparison& result) const {
    const auto prefixes = static_cast<int64_t>(largest_.size());
    double total = 0.0;
    for (const double one : largest_) total += one;
    result.gradient_bound =
        (gamma(result.path_terms) + gamma(result.path_terms + prefixes)) * total;
    for (const Sum& sum : sums_) {
      const Gradient gradient(parallel, sum.parameter);
      double difference = 0.0;
      for (size_t i = 0; i < sum.values.size(); ++i) {
        difference = larger(difference, gradient[i] - sum.values[i]);
      }
      result.gradients += static_cast<int64_t>(sum.values.size());
      if (result.worst_parameter.empty() || !(difference <= result.gradient_difference)) {
        result.gradient_difference = difference;
        result.worst_parameter = sum.name;
      }
      if (std::isnan(difference)) break;
    }
  }

  void compare_strictly(const Gradients& parallel, SequentialComparison& result) const {
    result.summed = strict_elements_;
    for (const Strict& strict : strict_) {
      const Gradient gradient(parallel, sums_[strict.place].parameter);
      for (size_t i = 0; i < strict.sums.size(); ++i) {
        const StrictSum& sum = strict.sums[i];
        const float got = gradient[i];
        const double difference = std::abs(static_cast<double>(got) - sum.sum);
        if (difference == 0.0) continue;
        const double share = difference / sum.bound();
        if (share <= result.sum_share || std::isnan(result.sum_share)) continue;
        result.sum_share = share;
        result.sum_parameter = sums_[strict.place].name;
      }
    }
  }

  void find_weakest(SequentialComparison& result) const {
    std::vector<double> bounds;
    each_kept([&](const Strict& strict, size_t i) { bounds.push_back(strict.sums[i].bound()); });
    double weakest = std::numeric_limits<double>::infinity();
    for (const std::vector<float>& position : kept_) {
      double strongest = 0.0;
      for (size_t i = 0; i < bounds.size(); ++i) {
        if (position[i] == 0.0f) continue;
        strongest = larger(strongest, std::abs(static_cast<double>(position[i])) / bounds[i]);
      }
      if (strongest == 0.0) {
        ++result.silent_positions;
      } else {
        weakest = std::min(weakest, strongest);
      }
    }
    if (weakest < std::numeric_limits<double>::infinity()) result.weakest_position = weakest;
  }

  std::vector<Sum> sums_;
  std::vector<double> largest_;  // of each prefix's gradient
  std::vector<Strict> strict_;
  int64_t strict_elements_ = 0;
  size_t stride_ = 1;                     // between the elements kept of each position
  std::vector<std::vector<float>> kept_;  // by position
};

// The positions of all targets, one target after another.
struct Positions {
  explicit Positions(std::span<const TokenPair> given) : pairs(given) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      const auto own = labels_of(pairs[i]);
      labels.insert(labels.end(), own.begin(), own.end());
      for (size_t length = 1; length <= own.size(); ++length) places.push_back({i, length});
    }
  }
  int64_t count() const { return static_cast<int64_t>(labels.size()); }

  // A position's prefix, and labels of which only its own counts: for the prefix, and for the
  // parallel pass over all targets, with its own target before the others. (Sums over rows are made
  // in slices of kTokenSlice rows; this way both have the same slices.)
  TokenPair prefix(int64_t position) const {
    const Place& place = places[static_cast<size_t>(position)];
    TokenPair result = pairs[place.pair];
    result.target.resize(place.length);
    return result;
  }
  std::vector<int32_t> last_label(int64_t position) const {
    std::vector<int32_t> result(places[static_cast<size_t>(position)].length, -1);
    result.back() = labels[static_cast<size_t>(position)];
    return result;
  }
  std::vector<TokenPair> own_first(int64_t position) const {
    const size_t own = places[static_cast<size_t>(position)].pair;
    std::vector<TokenPair> result = {pairs[own]};
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i != own) result.push_back(pairs[i]);
    }
    return result;
  }
  std::vector<int32_t> only_label(int64_t position) const {
    std::vector<int32_t> result(labels.size(), -1);
    result[places[static_cast<size_t>(position)].length - 1] =
        labels[static_cast<size_t>(position)];
    return result;
  }
  int64_t longest() const {  // the longest prefix
    const auto at =
        std::max_element(places.begin(), places.end(),
                         [](const Place& a, const Place& b) { return a.length < b.length; });
    return at - places.begin();
  }

  struct Place {
    size_t pair = 0;
    size_t length = 0;  // of the prefix
  };
  std::span<const TokenPair> pairs;
  std::vector<int32_t> labels;
  std::vector<Place> places;
};

Learner::Step learn_prefix(Learner& learner, const Positions& positions, int64_t position) {
  const TokenPair prefix = positions.prefix(position);
  return learner.step({&prefix, 1}, positions.last_label(position));
}

double median_of_three(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
// The cost of work that was just done; its time is the median of three runs if that is cheap. The
// gradients of the last step are those of `work`.
template <class F>
SequentialComparison::Cost cost_of(Learner& learner, const F& work) {
  constexpr double kCheap = 1.0;  // seconds
  SequentialComparison::Cost cost = learner.cost();
  if (cost.seconds >= kCheap) return cost;
  double seconds[2];
  for (double& again : seconds) {
    learner.warm();
    work();
    again = learner.cost().seconds;
  }
  cost.seconds = median_of_three(cost.seconds, seconds[0], seconds[1]);
  return cost;
}

// Comparison 1.
void compare_positions(const Transformer& model, const Positions& positions,
                       const SequentialOptions& options, Learner& sequential,
                       SequentialComparison& result) {
  Learner single(model, options);
  const int64_t wanted = std::min(options.compared_positions, positions.count());
  const auto parameters = model.parameters();
  std::vector<int64_t> differing(parameters.size());
  for (int64_t i = 1; i <= wanted; ++i) {
    const int64_t position = i * positions.count() / wanted - 1;
    std::vector<int32_t> labels = positions.only_label(position);
    if (position == options.lose_position) std::fill(labels.begin(), labels.end(), -1);
    const Learner::Step prefix = learn_prefix(sequential, positions, position);
    const Learner::Step alone = single.step(positions.own_first(position), labels);
    sequential.parallel()(static_cast<int64_t>(parameters.size()), [&](int64_t task) {
      const ConstTensor& parameter = parameters[static_cast<size_t>(task)].tensor;
      differing[static_cast<size_t>(task)] = differing_gradients(
          prefix.gradients.of(parameter), alone.gradients.of(parameter), parameter.size());
    });
    ++result.positions_compared;
    result.gradients_compared += model.parameter_count();
    if (std::all_of(differing.begin(), differing.end(), [](int64_t n) { return n == 0; })) continue;
    ++result.positions_differing;
    if (!result.first_differing) result.first_differing = position;
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
  // From the heads' keys or queries on: projection, rotary rotation, three inputs added, norm,
  // residual.
  const int64_t projection = c.heads * c.head_dim + 2 + 3 + norm + 1;
  // Output projection; dout · v and dout · out; the sum over keys (for the query) or over rows and
  // heads of the group (for the key).
  const auto attention = [&](int64_t keys, int64_t rows) {
    return c.model + 2 * c.head_dim + 4 + std::max(keys, rows * group) + projection;
  };
  int64_t decoder = feed_forward + attention(lengths.target, lengths.target);
  if (!c.decoder_only()) decoder += attention(lengths.source, lengths.target);
  // In the last layer rows first interact in the sum over rows of a key's gradient.
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
  c.frozen_token = -1;  // it may be beyond the vocabulary
  return c;
}

namespace {

// Figures that are known before any training.
SequentialComparison measures_of(const TransformerConfig& c, std::span<const TokenPair> pairs) {
  SequentialComparison result;
  result.sequences = static_cast<int64_t>(pairs.size());
  int64_t source_tokens = 0;
  int64_t longest_source = 0;
  for (const TokenPair& pair : pairs) {
    require(!pair.target.empty(), ErrorCode::invalid_argument, "sequential: a target is empty");
    const auto length = static_cast<int64_t>(pair.target.size());
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
  return result;
}

}  // namespace

SequentialComparison compare_sequential_with_parallel(const Transformer& given,
                                                      std::span<const TokenPair> pairs,
                                                      const SequentialOptions& options) {
  require(!pairs.empty(), ErrorCode::invalid_argument, "sequential: there are no targets");
  require(options.compared_positions >= 1, ErrorCode::invalid_argument,
          "sequential: compared_positions must be at least 1, got ", options.compared_positions);
  SequentialComparison result = measures_of(given.config(), pairs);
  const Positions positions(pairs);
  // A copy of its own, to keep weights packed for gradients: the model itself belongs to others.
  Transformer model = given.on(given.placement());
  {
    Context packing(options.threads, model.placement());
    model.prepare_training(packing);
    packing.queue.wait();  // the learners read the weights in queues of their own
  }

  Learner parallel(model, options);
  std::vector<int32_t> labels = positions.labels;
  if (options.lose_position >= 0) labels.at(static_cast<size_t>(options.lose_position)) = -1;
  parallel.step(pairs, labels);  // first without measuring: the second time all memory is there
  parallel.warm();
  Learner::Step all = parallel.step(pairs, labels);
  result.parallel = cost_of(parallel, [&] { all = parallel.step(pairs, labels); });
  result.parallel_loss = all.loss;

  Learner sequential(model, options);
  learn_prefix(sequential, positions, positions.longest());
  sequential.warm();
  PrefixSums sums(model, positions.count());
  for (int64_t position = 0; position < positions.count(); ++position) {
    if (options.progress) options.progress(position, positions.count());
    const Learner::Step step = learn_prefix(sequential, positions, position);
    result.sequential_loss += step.loss;
    sums.add(sequential.parallel(), step.gradients);
  }
  result.sequential = cost_of(sequential, [&] {
    for (int64_t position = 0; position < positions.count(); ++position) {
      learn_prefix(sequential, positions, position);
    }
  });
  result.loss_bound = (kFp32Unit + static_cast<double>(positions.count()) * 0x1p-53) *
                      std::max(std::abs(result.parallel_loss), std::abs(result.sequential_loss));
  sums.compare(all.gradients, result);
  compare_positions(model, positions, options, sequential, result);
  return result;
}

}  // namespace tril
