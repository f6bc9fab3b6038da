#include "tril/prove/every_gradient.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tril/autograd/tape.h"
#include "tril/base/clock.h"
#include "tril/kernels/model/gradient.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/prove/expression_batch.h"

namespace tril {
namespace {

using kernels::model::GradientExpression;
using Sentence = TokenVariables::Sentence;

bool is_nothing(const ExpressionHash& hash) { return hash == GradientExpression::kNothing; }

// Keeps the activations of a pass, to ask for their gradients afterwards.
class Activations : public Observer {
 public:
  struct Seen {
    Stack stack = Stack::decoder;
    int64_t layer = -1;
    Site site = Site::embedded;
    int time = 0;  // how often the site came in this layer before
    Tensor tensor{};
    std::vector<int32_t> tokens{};  // one per row
  };

  void see(const Observation& o) override {
    if (o.site == Site::embedding_table || o.site == Site::position_table) return;
    if (o.site == Site::embedded) times_.clear();
    const int time = times_[{o.stack == Stack::encoder, o.layer, o.site}]++;
    seen_.push_back({o.stack, o.layer, o.site, time, o.tensor, {o.tokens.begin(), o.tokens.end()}});
  }
  void clear() { seen_.clear(); }
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  std::vector<Seen> seen_;
  std::map<std::tuple<bool, int64_t, Site>, int> times_;
};

// Which rows of the checked sentence have a label.
struct Loss {
  int64_t position = 0;
  bool up_to = false;  // all up to this one

  bool counts(int64_t other) const { return up_to ? other <= position : other == position; }
};

// The gradients of one pass, recorded or compared with those that were.
class EveryGradient {
 public:
  EveryGradient(const TransformerConfig& config, const EveryInputOptions& options)
      : options_(options),
        variables_(options, !config.decoder_only()),
        config_(config_with_room(config, options, variables_.count())),
        rule_(config_, options_, variables_),
        model_(Transformer::of_expressions(config_, options.compute, Purpose::study)),
        parameters_(model_.parameters()),
        session_(model_, options.threads) {
    session_->expressions->tokens = variables_.reaches();
    session_->hooks = options.hooks;
  }

  EveryGradientResult run() {
    const Stopwatch time;
    const MaskingScope masks(session_, options_.masking);
    const ObserverScope observes(session_, &activations_);
    result_.parameters = model_.parameter_count();
    const int64_t only = std::max<int64_t>(0, options_.length - 2);
    const int64_t first = options_.every_length ? 0 : only;
    const int64_t last = options_.every_length ? options_.length - 1 : only;
    for (int64_t position = first; position <= last; ++position) {
      for (const bool up_to : {false, true}) {
        loss_ = {position, up_to};
        compare_passes();
      }
      if (options_.progress) {
        options_.progress(static_cast<double>(position + 1) / static_cast<double>(options_.length));
      }
    }
    for (const auto& [site, has_gradient] : sites_) {
      if (!has_gradient) count_silent(name_of_site(site));
    }
    result_.operations = session_->expressions->operations;
    result_.seconds = time.seconds();
    return result_;
  }

 private:
  // In the encoder?, layer, site, which time in the layer.
  using SiteKey = std::tuple<bool, int64_t, Site, int>;
  enum class Pass { alone, in_batch };
  // Of the source?, layer, site (and which time in the layer), position.
  using RowKey = std::tuple<bool, int64_t, int, int32_t>;
  using Hashes = std::vector<ExpressionHash>;

  // Positions that the rows of the loss may be made from.
  int64_t end_of_prefix() const { return std::max(loss_.position + 1, options_.prefix); }

  void compare_passes() {
    ++result_.losses;
    permitted_ = permitted();
    rows_.clear();
    recorded_.clear();
    compared_rows_ = 0;
    learn(batch_alone(variables_, options_, end_of_prefix()), Pass::alone);
    learn(packed_batch(variables_, options_, options_.length), Pass::in_batch);
    if (compared_rows_ != std::ssize(rows_)) ++result_.missing;
  }

  Reach permitted() const {
    Reach all;
    for (int64_t i = loss_.up_to ? 0 : loss_.position; i <= loss_.position; ++i) {
      all = joined(all, rule_.after(config_.decoder_layers,
                                    {Sentence::checked, false, static_cast<int32_t>(i)}));
    }
    return all;
  }

  void learn(const ExpressionBatch& batch, Pass pass) {
    session_.reset();
    activations_.clear();
    Tape tape(session_);
    Memory memory;
    if (!config_.decoder_only()) memory = model_.encode(batch.source, session_);
    std::vector<int32_t> labels(batch.target.tokens.size(), -1);
    for (int64_t i = 0; i <= loss_.position; ++i) {
      if (loss_.counts(i)) {
        labels[static_cast<size_t>(batch.first + i)] = static_cast<int32_t>(i);
      }
    }
    // Both formulas of the loss are met: with label smoothing and without.
    const LossOptions how{.smoothing = loss_.up_to ? 0.0f : 0.1f, .factor = 0.25f};
    const Tensor loss =
        model_.loss(model_.forward(batch.target, memory, session_), labels, how, session_);
    const Gradients gradients = tape.backward(loss);
    see_loss(*loss.data<Expression>(), pass);
    // From the loss back, so that the first difference is the nearest to it.
    const auto& seen = activations_.seen();
    for (size_t i = seen.size(); i-- > 0;) see_activation(seen[i], gradients, pass);
    for (size_t i = 0; i < parameters_.size(); ++i) see_parameter(i, gradients, pass);
  }

  static std::vector<Expression> gradient_of(const ConstTensor& tensor,
                                             const Gradients& gradients) {
    const Tensor gradient = gradients.of(tensor);
    const auto size = static_cast<size_t>(tensor.size());
    // Undefined: the loss does not depend on it.
    if (!gradient.defined()) return {size, GradientExpression::nothing().number};
    const auto* values = gradient.data<Expression>();
    return {values, values + size};
  }

  void see_loss(const Expression& loss, Pass pass) {
    if (pass == Pass::alone) {
      recorded_loss_ = loss.hash;
      return;
    }
    const auto place = [&] { return at_parameter(std::string(EveryGradientPlace::kLoss), 0); };
    check_reach(loss, place);
    compare(loss, recorded_loss_, place);
  }

  EveryGradientPlace at_parameter(const std::string& name, int64_t element) const {
    return {.parameter = name, .element = element, .loss = loss_.position, .up_to = loss_.up_to};
  }

  void count_silent(const std::string& name) {
    ++result_.silent;
    if (result_.first_silent.empty()) result_.first_silent = name;
  }
  static std::string name_of_site(const SiteKey& site) {
    const auto& [in_encoder, layer, what, time] = site;
    return concat(in_encoder ? "encoder" : "decoder", layer >= 0 ? concat(" layer ", layer) : "",
                  ", ", name_of(what), time > 0 ? concat(" ", time + 1) : "");
  }

  void see_parameter(size_t index, const Gradients& gradients, Pass pass) {
    const NamedConstTensor& parameter = parameters_[index];
    const std::vector<Expression> values = gradient_of(parameter.tensor, gradients);
    bool silent = true;
    for (const Expression& value : values) silent = silent && is_nothing(value.hash);
    if (silent) count_silent(parameter.name);
    if (pass == Pass::alone) {
      Hashes& hashes = recorded_.emplace_back();
      for (const Expression& value : values) hashes.push_back(value.hash);
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const auto place = [&] { return at_parameter(parameter.name, static_cast<int64_t>(i)); };
      check_reach(values[i], place);
      compare(values[i], recorded_[index][i], place);
    }
  }

  void see_activation(const Activations::Seen& seen, const Gradients& gradients, Pass pass) {
    const std::vector<Expression> values = gradient_of(seen.tensor, gradients);
    const size_t columns = values.size() / seen.tokens.size();
    bool& has_gradient = sites_[{seen.stack == Stack::encoder, seen.layer, seen.site, seen.time}];
    for (const Expression& value : values) has_gradient |= !is_nothing(value.hash);
    for (size_t row = 0; row < seen.tokens.size(); ++row) {
      const TokenVariables::Place at = variables_.place_of(seen.tokens[row]);
      const std::span<const Expression> numbers(values.data() + row * columns, columns);
      const bool takes_part =
          at.sentence == Sentence::checked && (at.in_source || at.position < end_of_prefix());
      const auto place = [&](size_t column) {
        return EveryGradientPlace{
            .at = {.stack = seen.stack,
                   .layer = seen.layer,
                   .site = std::string(name_of(seen.site)),
                   .head =
                       is_by_head(seen.site) ? static_cast<int64_t>(column) / config_.head_dim : -1,
                   .position = at.position,
                   .of_neighbour = at.sentence != Sentence::checked},
            .loss = loss_.position,
            .up_to = loss_.up_to};
      };
      if (!takes_part) {
        must_be_nothing(numbers, place);
        continue;
      }
      const RowKey key{at.in_source, seen.layer, static_cast<int>(seen.site) + kTimes * seen.time,
                       at.position};
      if (pass == Pass::alone) {
        Hashes& hashes = rows_[key];
        if (!hashes.empty()) ++result_.missing;  // a row that came twice hides another
        for (const Expression& number : numbers) hashes.push_back(number.hash);
        continue;
      }
      ++compared_rows_;
      const auto found = rows_.find(key);
      if (found == rows_.end() || found->second.size() != columns) {
        ++result_.missing;
        continue;
      }
      for (size_t c = 0; c < columns; ++c) {
        check_reach(numbers[c], [&] { return place(c); });
        compare(numbers[c], found->second[c], [&] { return place(c); });
      }
    }
  }

  template <class PlaceOf>
  void must_be_nothing(std::span<const Expression> numbers, const PlaceOf& place) {
    for (size_t c = 0; c < numbers.size(); ++c) {
      ++result_.numbers;
      if (is_nothing(numbers[c].hash)) continue;
      ++result_.forbidden;
      if (!result_.first_leak) result_.first_leak = place(c);
    }
  }

  template <class PlaceOf>
  void compare(const Expression& value, const ExpressionHash& expected, const PlaceOf& place) {
    ++result_.numbers;
    if (!is_nothing(value.hash)) ++result_.with_gradient;
    // A number that nobody made has no hash: it must not be found equal to another such.
    if (value.hash == expected && !(value.hash == ExpressionHash{})) return;
    ++result_.differing;
    if (!result_.first_difference) result_.first_difference = place();
  }

  template <class PlaceOf>
  void check_reach(const Expression& value, const PlaceOf& place_of) {
    if (is_nothing(value.hash)) return;
    const auto within = [](const Reach::Side& side, const Reach::Side& bounds) {
      return side.empty() || (!bounds.empty() && side.within(bounds.lo, bounds.hi));
    };
    const bool in_target = within(value.reach.target, permitted_.target);
    const bool in_source = within(value.reach.source, permitted_.source);
    if (in_target && in_source) {
      // The gradient of one row's loss goes through its logits, which are made from all of it.
      if (loss_.up_to || value.reach == permitted_) return;
      ++result_.short_reach;
      if (!result_.first_short_reach) result_.first_short_reach = place_of();
      return;
    }
    ++result_.forbidden;
    if (result_.first_leak) return;
    const Reach::Side& side = in_target ? value.reach.source : value.reach.target;
    const Reach::Side& bounds = in_target ? permitted_.source : permitted_.target;
    const int32_t reached = side.hi > bounds.hi ? side.hi - 1 : side.lo;
    result_.first_leak = place_of();
    result_.first_leak->reached = reached % TokenVariables::kNeighbour;
    result_.first_leak->in_source = in_target;
    result_.first_leak->in_other = reached >= TokenVariables::kNeighbour;
  }

  EveryInputOptions options_;
  TokenVariables variables_;
  TransformerConfig config_;
  ReachRule rule_;
  EveryGradientResult result_;
  Transformer model_;
  std::vector<NamedConstTensor> parameters_;
  Activations activations_;
  Session session_;
  Loss loss_{};
  Reach permitted_{};
  // Of the pass alone: the loss, activations by row, and parameters.
  ExpressionHash recorded_loss_{};
  std::map<RowKey, Hashes> rows_;
  std::vector<Hashes> recorded_;
  int64_t compared_rows_ = 0;
  // Whether any activation there had a gradient, of any loss.
  std::map<SiteKey, bool> sites_;
};

}  // namespace

std::string to_string(const EveryGradientPlace& place) {
  std::string text;
  if (place.parameter.empty()) {
    text = concat("gradient of ", place.at.stack == Stack::encoder ? "encoder" : "decoder");
    if (place.at.layer >= 0) text += concat(" layer ", place.at.layer);
    text += concat(", ", place.at.site);
    if (place.at.head >= 0) text += concat(", head ", place.at.head);
    text +=
        concat(", position ", place.at.position, place.at.of_neighbour ? " of the neighbour" : "");
  } else if (place.parameter != EveryGradientPlace::kLoss) {
    text = concat("gradient of ", place.parameter, ", element ", place.element);
  }
  text += concat(text.empty() ? "the loss " : ", for the loss ", place.up_to ? "up to" : "of",
                 " position ", place.loss);
  if (place.reached >= 0) {
    text += concat(": reached position ", place.reached, place.in_source ? " of the source" : "",
                   place.in_other ? " of the other sentence" : "");
  }
  return text;
}

EveryGradientResult prove_every_gradient(const TransformerConfig& config,
                                         const EveryInputOptions& options) {
  check_lengths(options);
  require(options.order == OperationOrder::cpu, ErrorCode::unsupported,
          "proof: only the CPU's backward kernels have models");
  require(options.length <= kMostGradientTokens && options.source_length <= kMostGradientTokens,
          ErrorCode::invalid_argument, "proof: gradients of more than ", kMostGradientTokens,
          " tokens are summed in several slices");
  return EveryGradient(config, options).run();
}

double every_gradient_operations(const TransformerConfig& config,
                                 const EveryInputOptions& options) {
  const ExpressionWork row = work_per_row(config);
  const auto length = static_cast<double>(options.length);
  const auto beside = static_cast<double>(2 * options.neighbour + 2);
  const auto sources = static_cast<double>(options.source_length + 7);
  // For each loss: forward on the batch; forward on the prefix, and backward on it in both passes.
  const double losses = 2.0 * (options.every_length ? length : 1.0);
  const double prefix = options.every_length ? (length + 1.0) / 2.0 : length;
  return losses * ((length + beside + 5.0 * prefix) * row.target + 6.0 * sources * row.source);
}

}  // namespace tril
