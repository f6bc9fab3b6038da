#include "tril/lesson/lesson_masks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/autograd/tape.h"
#include "tril/base/math.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/ops/attention.h"

namespace tril {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Mask causal(int32_t rows) {
  const Segment words{0, rows};
  return Mask::causal(std::span(&words, 1));
}

// Every one of `rows` rows sees the first `keys` keys: the padding after them is hidden.
Mask padding(int32_t rows, int32_t keys) { return Mask::cross(rows, {0, keys}); }

std::vector<NamedMask> kinds() {
  const Segment words{0, 4};
  const std::span<const Segment> four(&words, 1);
  const auto causal_mask = [](int64_t row, int64_t key) { return key <= row; };
  const auto filler = [](int64_t, int64_t key) { return key < 3; };
  const auto both = [](int64_t row, int64_t key) { return key <= row && key < 3; };
  const auto last_two = [](int64_t row, int64_t key) { return key == row || key + 1 == row; };
  const auto first_two = [](int64_t row, int64_t key) { return key <= row || key < 2; };
  return {
      {"causal", "no row sees the future", Mask::causal(four), 4, causal_mask},
      {"padding", "key 4 is padding: no row sees it", padding(4, 3), 4, filler},
      {"both", "causal and padding, combined", Mask::causal(four) & padding(4, 3), 4, both},
      {"window of 2", "the last two keys of causal", Mask::window(four, 2), 4, last_two},
      {"prefix of 2", "the first two see each other", Mask::prefix(four, 2), 4, first_two},
  };
}

Broadcast broadcast() {
  Broadcast result{.batch = 2, .heads = 2, .length = 3, .lengths = {3, 1}};
  const auto entry = [](bool sees) { return sees ? 0.0f : -static_cast<float>(kInfinity); };
  const int64_t n = result.length;
  for (int64_t q = 0; q < n; ++q) {
    for (int64_t k = 0; k < n; ++k) result.causal.push_back(entry(k <= q));
  }
  for (int64_t b = 0; b < result.batch; ++b) {
    const int32_t length = result.lengths[static_cast<size_t>(b)];
    for (int64_t k = 0; k < n; ++k) result.padding.push_back(entry(k < length));
    result.intervals.push_back(causal(static_cast<int32_t>(n)) &
                               padding(static_cast<int32_t>(n), length));
  }
  result.equal = true;
  for (int64_t b = 0; b < result.batch; ++b) {
    for (int64_t h = 0; h < result.heads; ++h) {
      for (int64_t q = 0; q < n; ++q) {
        for (int64_t k = 0; k < n; ++k) {
          const float sum = result.causal[static_cast<size_t>(q * n + k)] +
                            result.padding[static_cast<size_t>(b * n + k)];
          result.combined.push_back(sum);
          const bool sees = result.intervals[static_cast<size_t>(b)].sees(q, k);
          result.equal = result.equal && sum == entry(sees);
        }
      }
    }
  }
  constexpr int64_t kBatch = 16, kHeads = 8, kLength = 300;
  result.matrix_bytes = kBatch * kHeads * kLength * kLength * static_cast<int64_t>(sizeof(float));
  result.interval_bytes = kBatch * kLength * static_cast<int64_t>(sizeof(Interval));
  return result;
}

// softmax as the textbook writes it, every number rounded to the given precision.
template <class Round>
std::vector<double> textbook_softmax(const std::vector<double>& scores, const Round& round) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> weights;
  double sum = 0.0;
  for (const double score : scores) {
    weights.push_back(round(math::exp(round(score - largest))));
    sum = round(sum + weights.back());
  }
  for (double& weight : weights) weight = round(weight / sum);
  return weights;
}

double rounded_to_single(double x) { return static_cast<double>(static_cast<float>(x)); }

struct Row {
  std::vector<double> scores;
  int32_t keys = 0;  // it may see the first `keys` of them
  std::vector<double> values = {1.0, 2.0, 3.0};
};

Forbidding summed(std::string way, std::vector<double> weights, const Row& row) {
  Forbidding result{std::move(way), std::move(weights)};
  for (size_t key = 0; key < result.weights.size(); ++key) {
    result.sum += result.weights[key];
    if (key >= static_cast<size_t>(row.keys)) result.forbidden += result.weights[key];
    result.output += result.weights[key] * row.values[key];
  }
  return result;
}

// Adds `mask` to the scores of forbidden keys, then softmax, all in the precision of `round`.
template <class Round>
Forbidding added(const std::string& way, const Row& row, double mask, const Round& round) {
  std::vector<double> scores;
  for (size_t key = 0; key < row.scores.size(); ++key) {
    const bool sees = key < static_cast<size_t>(row.keys);
    scores.push_back(round(round(row.scores[key]) + (sees ? 0.0 : round(mask))));
  }
  return summed(way, textbook_softmax(scores, round), row);
}

Forbidding score_set_to_zero(const Row& row) {
  std::vector<double> scores = row.scores;
  std::fill(scores.begin() + row.keys, scores.end(), 0.0);
  return summed("score set to 0", textbook_softmax(scores, rounded_to_single), row);
}

Forbidding weight_set_to_zero(const Row& row) {
  std::vector<double> weights = textbook_softmax(row.scores, rounded_to_single);
  std::fill(weights.begin() + row.keys, weights.end(), 0.0);
  return summed("weight set to 0 after", std::move(weights), row);
}

// With the library: the mask is an interval, and values that are unit vectors show the weights. A
// second row, whose output is not used, sees every key: the forbidden ones are really there.
Forbidding by_tril(const Row& row, const TestHooks& hooks) {
  Context context(1);
  const auto n = static_cast<int64_t>(row.scores.size());
  const Tensor q(context.arena, {2, 1, n});
  const Tensor k(context.arena, {n, 1, n});
  const Tensor units(context.arena, {n, 1, n});
  const Tensor v(context.arena, {n, 1, n});
  for (int64_t i = 0; i < n; ++i) {
    q.data()[i] = q.data()[n + i] = static_cast<float>(row.scores[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < n; ++j) {
      k.data()[i * n + j] = units.data()[i * n + j] = i == j ? 1.0f : 0.0f;
      v.data()[i * n + j] = static_cast<float>(row.values[static_cast<size_t>(i)]);
    }
  }
  ops::AttentionOptions options;
  options.scale = 1.0f;
  options.widen_head = hooks.widen_head;
  options.widen_row = hooks.widen_row;
  const Interval sees[2] = {{0, 0, row.keys}, {0, 0, static_cast<int32_t>(n)}};
  const auto run = [&](const Tensor& values) {
    return ops::attention(context, q, k, values, sees, options).out;
  };
  const Tensor weights = run(units);
  Forbidding result = summed("tril", {weights.data(), weights.data() + n}, row);
  result.output = static_cast<double>(run(v).data()[0]);
  return result;
}

bool is_zero(const Forbidding& row) {
  return row.output == 0.0 && std::all_of(row.weights.begin(), row.weights.end(),
                                          [](double weight) { return weight == 0.0; });
}

bool is_nan(const Forbidding& row) {
  return std::all_of(row.weights.begin(), row.weights.end(),
                     [](double weight) { return std::isnan(weight); });
}

// All weight on the first key, to the last bit.
bool is_first_alone(const Forbidding& row) {
  return row.weights == std::vector<double>{1.0, 0.0, 0.0} && row.output == 1.0;
}

// The mean of the values 1, 2, 3 with three weights rounded to `unit`.
bool is_average(const Forbidding& row, double unit) {
  return std::fabs(row.output - 2.0) <= 6.0 * unit && row.weights[0] == row.weights[2];
}

// Records what the queries of a model may see.
class MaskObserver : public Observer {
 public:
  void see(const Observation& seen) override {
    if (seen.layer != 0) return;
    const auto add = [&](const char* where, int64_t keys) {
      masks.push_back({where, Mask({seen.intervals.begin(), seen.intervals.end()}), keys});
    };
    if (seen.site == Site::query && seen.stack == Stack::encoder) {
      add("encoder self-attention", source_words);
    } else if (seen.site == Site::query) {
      add("decoder self-attention", target_words);
    } else if (seen.site == Site::cross_query) {
      add("cross-attention", source_words);
    }
  }
  int64_t source_words = 0, target_words = 0;
  std::vector<MaskInUse> masks;
};

std::vector<MaskInUse> masks_in_use() {
  TransformerConfig config;
  config.source_vocab = config.target_vocab = 8;
  config.model = 8;
  config.heads = 1;
  config.feed_forward = 8;
  config.encoder_layers = config.decoder_layers = 1;
  const Transformer model(config.completed(), 1);
  Session session(model, 1);
  MaskObserver observer;
  observer.source_words = 3;
  observer.target_words = 4;
  session->observer = &observer;
  Rows source, target;
  source.add_sequence(std::vector<int32_t>{1, 2, 3}, {.slot = 0});
  target.add_sequence(std::vector<int32_t>{4, 5, 6, 7}, {.slot = 0, .segment = 0});
  Tape tape(session);
  model.forward(target, model.encode(source, session), session);
  return observer.masks;
}

bool masks_in_use_are_as_told(const std::vector<MaskInUse>& in_use) {
  const auto is = [&](size_t i, const std::string& where, const Mask& mask) {
    return in_use[i].where == where && std::ranges::equal(in_use[i].mask.rows(), mask.rows());
  };
  return in_use.size() == 3 && is(0, "encoder self-attention", padding(3, 3)) &&
         is(1, "decoder self-attention", causal(4)) && is(2, "cross-attention", padding(4, 3));
}

bool lesson_holds(const MaskLesson& l) {
  constexpr double kSingle = 0x1p-23, kHalf = 0x1p-10;  // spacing of the two precisions at 1
  return masks_are_as_defined(l.kinds) && l.broadcast.equal &&
         // -inf, -1e9, tril; then the two wrong ways.
         is_first_alone(l.one_key[0]) && is_first_alone(l.one_key[1]) &&
         is_first_alone(l.one_key[2]) && l.one_key[3].forbidden > 0.0 && l.one_key[4].sum < 0.5 &&
         // The fully masked row.
         is_nan(l.no_key[0]) && is_average(l.no_key[1], kSingle) && is_zero(l.no_key[2]) &&
         // Half precision.
         l.half_of_minus_1e9 == -kInfinity && l.largest_half == 65504.0 &&
         is_first_alone(l.one_key_in_half[0]) && is_first_alone(l.one_key_in_half[1]) &&
         is_nan(l.no_key_in_half[0]) && is_average(l.no_key_in_half[1], kHalf) &&
         // A large score, and NaN.
         is_first_alone(l.large_forbidden[0]) && l.large_forbidden[1].forbidden == 1.0 &&
         is_first_alone(l.large_forbidden[2]) && std::isnan(l.nan_forbidden[0].output) &&
         is_first_alone(l.nan_forbidden[1]) && masks_in_use_are_as_told(l.in_use);
}

}  // namespace

bool masks_are_as_defined(const std::vector<NamedMask>& masks) {
  for (const NamedMask& named : masks) {
    const auto rows = static_cast<int64_t>(named.mask.rows().size());
    if (rows != named.keys) return false;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t key = 0; key < named.keys; ++key) {
        if (named.mask.sees(row, key) != named.allows(row, key)) return false;
      }
    }
  }
  return !masks.empty();
}

double rounded_to_half(double x) {
  if (std::isnan(x) || std::isinf(x) || x == 0.0) return x;
  // The spacing is 2^-10 of the power of two below |x|, and never less than 2^-24.
  const int exponent = std::max(std::ilogb(x), -14);
  const double step = std::ldexp(1.0, exponent - 10);
  const double rounded = std::nearbyint(x / step) * step;
  return std::fabs(rounded) > 65504.0 ? std::copysign(kInfinity, x) : rounded;
}

MaskLesson teach_masks(const TestHooks& hooks) {
  MaskLesson lesson;
  lesson.kinds = kinds();
  lesson.broadcast = broadcast();
  lesson.scores = {0.8, 0.6, 0.4};
  const Row one{.scores = lesson.scores, .keys = 1};
  lesson.one_key = {added("add -∞", one, -kInfinity, rounded_to_single),
                    added("add -1e9", one, -1e9, rounded_to_single), by_tril(one, hooks),
                    score_set_to_zero(one), weight_set_to_zero(one)};
  const Row none{.scores = lesson.scores, .keys = 0};
  lesson.no_key = {added("add -∞", none, -kInfinity, rounded_to_single),
                   added("add -1e9", none, -1e9, rounded_to_single), by_tril(none, hooks)};
  lesson.half_of_minus_1e9 = rounded_to_half(-1e9);
  lesson.largest_half = rounded_to_half(65504.0);
  lesson.one_key_in_half = {added("add -1e9", one, -1e9, rounded_to_half),
                            added("add -65504", one, -65504.0, rounded_to_half)};
  lesson.no_key_in_half = {added("add -1e9", none, -1e9, rounded_to_half),
                           added("add -65504", none, -65504.0, rounded_to_half)};
  lesson.large_scores = {0.8, 0.6, 2e9};
  const Row large{.scores = lesson.large_scores, .keys = 1};
  lesson.large_forbidden = {added("add -∞", large, -kInfinity, rounded_to_single),
                            added("add -1e9", large, -1e9, rounded_to_single),
                            by_tril(large, hooks)};
  const Row poisoned{.scores = lesson.scores, .keys = 1, .values = {1.0, 2.0, kNan}};
  lesson.nan_forbidden = {added("add -∞", poisoned, -kInfinity, rounded_to_single),
                          by_tril(poisoned, hooks)};
  lesson.in_use = masks_in_use();
  lesson.holds = lesson_holds(lesson);
  return lesson;
}

}  // namespace tril
