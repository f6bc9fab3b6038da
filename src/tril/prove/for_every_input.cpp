#include "tril/prove/for_every_input.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <unordered_set>

#include "tril/autograd/tape.h"
#include "tril/base/interval.h"
#include "tril/models/transformer.h"

namespace tril {
namespace {

constexpr int32_t kNeighbour = 1 << 20;  // its positions are numbered from here on

std::string_view name_of(Site site) {
  switch (site) {
    case Site::embedded: return "embedding";
    case Site::query: return "query";
    case Site::key: return "key";
    case Site::value: return "value";
    case Site::context: return "attention";
    case Site::cross_query: return "cross query";
    case Site::cross_key: return "cross key";
    case Site::cross_value: return "cross value";
    case Site::cross_context: return "cross-attention";
    case Site::block_output: return "layer output";
    case Site::final_output: return "output";
    case Site::normed: return "norm";
    case Site::added: return "sub-layer output";
    case Site::sum: return "residual sum";
    case Site::feed_forward_hidden: return "feed-forward";
    case Site::embedding_table:
    case Site::position_table: break;
  }
  return "table";
}

// The tokens of the proof: one variable per position of both sentences, source and target.
class Variables {
 public:
  Variables(const EveryInputOptions& options, bool has_source)
      : target_(options.length),
        neighbour_(options.neighbour),
        source_(has_source ? options.source_length : 0),
        neighbour_source_(has_source ? 2 : 0) {}

  struct Where {
    bool is_main = false;
    bool is_source = false;
    int32_t position = 0;
  };
  Where where(int32_t token) const {
    if (token < target_) return {true, false, token};
    token -= static_cast<int32_t>(target_);
    if (token < neighbour_) return {false, false, token};
    token -= static_cast<int32_t>(neighbour_);
    if (token < source_) return {true, true, token};
    return {false, true, token - static_cast<int32_t>(source_)};
  }
  int64_t count() const { return target_ + neighbour_ + source_ + neighbour_source_; }
  std::vector<int32_t> main(int64_t length) const { return tokens(0, length); }
  std::vector<int32_t> neighbour() const { return tokens(target_, neighbour_); }
  std::vector<int32_t> main_source() const { return tokens(target_ + neighbour_, source_); }
  std::vector<int32_t> neighbour_source() const {
    return tokens(target_ + neighbour_ + source_, neighbour_source_);
  }
  std::vector<Reach> reaches() const {
    std::vector<Reach> result;
    for (int32_t token = 0; token < count(); ++token) {
      const Where at = where(token);
      const int32_t position = at.position + (at.is_main ? 0 : kNeighbour);
      result.push_back(at.is_source ? Reach::source_at(position) : Reach::target_at(position));
    }
    return result;
  }

 private:
  static std::vector<int32_t> tokens(int64_t first, int64_t count) {
    std::vector<int32_t> result;
    for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<int32_t>(first + i));
    return result;
  }
  int64_t target_, neighbour_, source_, neighbour_source_;
};

// Which row of which tensor the recorded hashes belong to.
using RowKey = std::tuple<bool, int64_t, int, int32_t>;  // encoder?, layer, site, position
constexpr int kLogits = 1000;                            // in place of a site
// A sub-layer's sites come several times per layer: they are counted.
constexpr int kTimes = 10000;

// Records one pass, and compares later ones with it.
class Comparer : public Observer {
 public:
  Comparer(const TransformerConfig& config, const EveryInputOptions& options,
           const Variables& variables, EveryInputResult& result)
      : config_(config), options_(options), variables_(variables), result_(result) {}

  // The length of the parallel pass that begins now; 0: step by step, which is recorded.
  void begin(int64_t length) { length_ = length; }

  void see(const Observation& o) override {
    if (o.site == Site::embedding_table || o.site == Site::position_table) return;
    if (o.site == Site::embedded) {
      tokens_.assign(o.tokens.begin(), o.tokens.end());
      times_.clear();
    }
    const int time = times_[{o.stack == Stack::encoder, o.layer, static_cast<int>(o.site)}]++;
    if (o.site == Site::query && o.stack == Stack::decoder) check_masks(o);
    const EveryInputPlace place{.stack = o.stack,
                                .layer = o.layer,
                                .site = std::string(name_of(o.site)),
                                .length = length_};
    see_rows(o.tokens, static_cast<const Expression*>(o.tensor.raw()),
             o.tensor.size() / std::max<int64_t>(1, rows_of(o)), head_width(o.site), place,
             static_cast<int>(o.site) + kTimes * time);
  }

  void see_logits(const Tensor& logits) override {
    const EveryInputPlace place{.site = "logit", .length = length_};
    const int64_t before = result_.numbers;
    see_rows(tokens_, logits.data<Expression>(), logits.columns(), 0, place, kLogits);
    result_.logits += result_.numbers - before;
  }

  // Different expressions among the logits of the recorded pass.
  void count_distinct() {
    std::unordered_set<uint64_t> seen;
    for (const auto& [key, row] : recorded_) {
      if (std::get<2>(key) != kLogits) continue;
      for (const ExpressionHash& hash : row) seen.insert(hash.low ^ (hash.high << 1));
      result_.expected_distinct += static_cast<int64_t>(row.size());
    }
    result_.distinct = static_cast<int64_t>(seen.size());
  }
  const std::vector<ExpressionHash>& recorded_logits(int32_t position) const {
    return recorded_.at({false, -1, kLogits, position});
  }

 private:
  static int64_t rows_of(const Observation& o) { return o.tensor.shape()[0]; }
  int64_t head_width(Site site) const {
    switch (site) {
      case Site::query:
      case Site::key:
      case Site::value:
      case Site::context:
      case Site::cross_query:
      case Site::cross_key:
      case Site::cross_value:
      case Site::cross_context: return config_.head_dim;
      default: return 0;
    }
  }

  void see_rows(std::span<const int32_t> tokens, const Expression* values, int64_t columns,
                int64_t head_width, const EveryInputPlace& place, int site) {
    for (size_t row = 0; row < tokens.size(); ++row) {
      if (static_cast<int64_t>(tokens[row]) >= variables_.count()) continue;  // padding
      const Variables::Where at = variables_.where(tokens[row]);
      if (!at.is_main) continue;
      EveryInputPlace here = place;
      here.position = at.position;
      const Expression* numbers = values + static_cast<int64_t>(row) * columns;
      check_reach(numbers, columns, head_width, at, here);
      const RowKey key{place.stack == Stack::encoder || at.is_source, place.layer, site,
                       at.position};
      if (length_ == 0) {
        std::vector<ExpressionHash>& kept = recorded_[key];
        kept.clear();
        for (int64_t c = 0; c < columns; ++c) kept.push_back(numbers[c].hash);
      } else {
        compare(numbers, columns, head_width, recorded_.at(key), here);
      }
    }
  }

  void compare(const Expression* numbers, int64_t columns, int64_t head_width,
               const std::vector<ExpressionHash>& expected, const EveryInputPlace& place) {
    for (int64_t c = 0; c < columns; ++c) {
      ++result_.numbers;
      if (numbers[c].hash == expected[static_cast<size_t>(c)]) continue;
      ++result_.differing;
      if (result_.first_difference) continue;
      result_.first_difference = place;
      if (head_width > 0) result_.first_difference->head = c / head_width;
    }
  }

  // A source row may see its own sentence; a target row that, and its own past.
  void check_reach(const Expression* numbers, int64_t columns, int64_t head_width,
                   const Variables::Where& at, const EveryInputPlace& place) {
    const auto last = static_cast<int32_t>(std::max<int64_t>(at.position + 1, options_.prefix));
    const int32_t end = at.is_source ? 0 : last;
    for (int64_t c = 0; c < columns; ++c) {
      const Reach& reach = numbers[c].reach;
      if (reach.target.within(0, end) && reach.source.within(0, kNeighbour)) continue;
      ++result_.forbidden;
      if (result_.first_leak) continue;
      result_.first_leak = place;
      if (head_width > 0) result_.first_leak->head = c / head_width;
      const int32_t furthest = reach.target.within(0, end) ? reach.source.hi : reach.target.hi;
      result_.first_leak->in_other = furthest > kNeighbour;
      result_.first_leak->reached = (furthest - 1) % kNeighbour;
    }
  }

  // What a row may see is derived from its position; a mask that is too narrow leaks nothing.
  void check_masks(const Observation& o) {
    if (options_.masking != Masking::causal) return;
    for (size_t row = 0; row < o.tokens.size(); ++row) {
      if (o.slots[row] < 0) continue;
      const Variables::Where at = variables_.where(o.tokens[row]);
      if (!at.is_main) continue;
      const Interval& interval = o.intervals[row];
      const auto window = static_cast<int32_t>(config_.window);
      const int32_t lo = window > 0 ? std::max(0, at.position + 1 - window) : 0;
      const auto hi = std::max<int32_t>(at.position + 1, static_cast<int32_t>(options_.prefix));
      if (interval.lo - interval.origin == lo && interval.hi - interval.origin == hi) continue;
      ++result_.wrong_masks;
      if (result_.first_wrong_mask) continue;
      result_.first_wrong_mask = EveryInputPlace{.stack = o.stack,
                                                 .layer = o.layer,
                                                 .site = "mask",
                                                 .position = at.position,
                                                 .length = length_};
    }
  }

  const TransformerConfig& config_;
  const EveryInputOptions& options_;
  const Variables& variables_;
  EveryInputResult& result_;
  int64_t length_ = 0;
  std::vector<int32_t> tokens_;                             // of the current call
  std::map<std::tuple<bool, int64_t, int>, int> times_;     // a site was seen in this call
  std::map<RowKey, std::vector<ExpressionHash>> recorded_;  // of the stepwise pass
};

// The configuration with room for the proof's tokens and positions, without dropout.
TransformerConfig widened(TransformerConfig config, const EveryInputOptions& options,
                          int64_t tokens) {
  config = config.completed();
  if (!config.decoder_only()) config.source_vocab = std::max(config.source_vocab, tokens + 1);
  config.target_vocab = std::max(config.target_vocab, tokens + 1);
  config.max_length =
      std::max({config.max_length, options.length, options.source_length, options.neighbour});
  config.dropout = 0.0;
  return config;
}

class EveryInput {
 public:
  EveryInput(const TransformerConfig& config, const EveryInputOptions& options)
      : options_(options),
        variables_(options, !config.decoder_only()),
        config_(widened(config, options, variables_.count())),
        model_(Transformer::of_expressions(config_, options.compute)),
        session_(model_, options.threads),
        comparer_(config_, options_, variables_, result_) {
    session_.expressions->tokens = variables_.reaches();
    session_.hooks = options.hooks;
  }

  EveryInputResult run() {
    const auto start = std::chrono::steady_clock::now();
    const ObserverScope observes(session_, &comparer_);
    const MaskingScope masks(session_, options_.masking);
    step_by_step();
    comparer_.count_distinct();
    const int64_t least = std::max<int64_t>(1, options_.prefix);
    for (int64_t length = options_.every_length ? least : options_.length;
         length <= options_.length; ++length) {
      in_parallel(length);
      report(length);
    }
    result_.operations = session_.expressions->operations;
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result_;
  }

 private:
  void report(int64_t length) const {
    if (!options_.progress) return;
    const auto squared = [](int64_t n) { return static_cast<double>(n * n); };
    options_.progress(options_.every_length ? squared(length) / squared(options_.length) : 1.0);
  }
  int32_t segment(int32_t number) const { return config_.decoder_only() ? -1 : number; }

  // As decoding does it, beside the neighbour.
  void step_by_step() {
    comparer_.begin(0);
    session_.reset();
    Memory memory;
    if (!config_.decoder_only()) {
      Rows source;
      source.add_sequence(variables_.main_source(), {.slot = 0});
      memory = model_.encode(source, session_);
      Rows other;
      other.add_sequence(variables_.neighbour_source(), {.slot = 0});
      session_.reset();
      model_.encode_into(memory, other, session_);
    }
    const std::vector<int32_t> target = variables_.main(options_.length);
    const std::vector<int32_t> neighbour = variables_.neighbour();
    int32_t slot = session_.cache.open();
    const int32_t other = session_.cache.open();
    // The first tokens come in one call, as a prompt does.
    int64_t first = 0;
    int64_t count = options_.prefix > 0 ? options_.prefix : std::min<int64_t>(2, options_.length);
    for (int64_t call = 0; first < options_.length; ++call) {
      if (first >= options_.length / 2 && call > 0) slot = moved_to_fork(slot);
      Rows rows;
      if (call > 0 && call <= options_.neighbour) {
        rows.add(neighbour[static_cast<size_t>(call - 1)],
                 {.slot = other, .segment = segment(1), .first = static_cast<int32_t>(call - 1)});
      }
      rows.add_sequence(
          std::span(target).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
          {.slot = slot,
           .segment = segment(0),
           .first = static_cast<int32_t>(first),
           .prefix = static_cast<int32_t>(options_.prefix)});
      session_.reset();
      const Tensor hidden = model_.forward(rows, memory, session_);
      model_.logits(hidden, session_);
      first += count;
      count = 1;
      if (first == options_.length) compare_shortlist(hidden);
    }
    session_.cache.release(slot);
    session_.cache.release(other);
  }

  // Once, in the middle: what follows is written into copies of shared blocks.
  int32_t moved_to_fork(int32_t slot) {
    if (forked_) return slot;
    forked_ = true;
    const int32_t fork = session_.cache.fork(slot);
    session_.cache.release(slot);
    return fork;
  }

  // Chosen outputs are the same expressions as among all.
  void compare_shortlist(const Tensor& hidden) {
    const auto last = static_cast<int32_t>(config_.target_vocab - 1);
    const std::vector<int32_t> chosen{last, 0, last / 2};
    OutputPart part;
    model_.choose_output(chosen, part, session_);
    const int64_t row = hidden.rows() - 1;
    const PartRows rows{row, row + 1, &part};
    const std::vector<Tensor> logits = model_.logits(hidden, {&rows, 1}, session_);
    const auto position = static_cast<int32_t>(options_.length - 1);
    const std::vector<ExpressionHash>& all = comparer_.recorded_logits(position);
    for (size_t i = 0; i < chosen.size(); ++i) {
      ++result_.numbers;
      if (logits[0].data<Expression>()[i].hash == all[static_cast<size_t>(chosen[i])]) continue;
      ++result_.differing;
      if (!result_.first_difference) {
        result_.first_difference = EveryInputPlace{.site = "shortlist", .position = position};
      }
    }
  }

  // As training does it: packed behind the neighbour and padding.
  void in_parallel(int64_t length) {
    comparer_.begin(length);
    session_.reset();
    ++result_.passes;
    const Tape tape(session_);
    Memory memory;
    if (!config_.decoder_only()) {
      Rows source;
      source.add_sequence(variables_.neighbour_source(), {.slot = 0});
      source.add_filler(3);
      source.add_sequence(variables_.main_source(), {.slot = 1});
      mark_filler(source);
      memory = model_.encode(source, session_);
    }
    Rows rows;
    rows.add_sequence(variables_.neighbour(), {.slot = 0, .segment = segment(0)});
    rows.add_filler(2);
    rows.add_sequence(
        variables_.main(length),
        {.slot = 1, .segment = segment(1), .prefix = static_cast<int32_t>(options_.prefix)});
    mark_filler(rows);
    model_.logits(model_.forward(rows, memory, session_), session_);
  }
  // Padding rows get a token that is no variable.
  void mark_filler(Rows& rows) const {
    for (size_t row = 0; row < rows.slots.size(); ++row) {
      if (rows.slots[row] < 0) rows.tokens[row] = static_cast<int32_t>(variables_.count());
    }
  }

  EveryInputOptions options_;
  Variables variables_;
  TransformerConfig config_;
  EveryInputResult result_;
  Transformer model_;
  Session session_;
  Comparer comparer_;
  bool forked_ = false;
};

}  // namespace

std::string to_string(const EveryInputPlace& place) {
  std::string text = concat(place.stack == Stack::encoder ? "encoder" : "decoder");
  if (place.layer >= 0) text += concat(" layer ", place.layer);
  text += concat(", ", place.site);
  if (place.head >= 0) text += concat(", head ", place.head);
  text += concat(", position ", place.position);
  text += place.length > 0 ? concat(", parallel pass of ", place.length) : ", step by step";
  if (place.reached >= 0) {
    text += concat(": reached position ", place.reached,
                   place.in_other ? " of the other sentence" : "");
  }
  return text;
}

EveryInputResult prove_for_every_input(const TransformerConfig& config,
                                       const EveryInputOptions& options) {
  require(options.length >= 1 && options.source_length >= 1 && options.neighbour >= 1,
          ErrorCode::invalid_argument, "proof: lengths must be at least 1");
  require(options.prefix >= 0 && options.prefix <= options.length, ErrorCode::invalid_argument,
          "proof: a prefix of ", options.prefix, " in ", options.length, " tokens");
  return EveryInput(config, options).run();
}

double every_input_operations(const TransformerConfig& given, const EveryInputOptions& options) {
  const TransformerConfig config = given.completed();
  const auto model = static_cast<double>(config.model);
  const auto attention =
      static_cast<double>((2 * config.heads + 2 * config.kv_heads) * config.head_dim) * model;
  const double feed_forward =
      model * static_cast<double>(config.feed_forward) * (config.gated ? 3.0 : 2.0);
  const bool encodes = !config.decoder_only();
  const double target = static_cast<double>(config.decoder_layers) *
                            (attention * (encodes ? 1.5 : 1.0) + feed_forward) +
                        model * static_cast<double>(config.target_vocab);
  const double source =
      encodes ? static_cast<double>(config.encoder_layers) * (attention + feed_forward) +
                    static_cast<double>(config.decoder_layers) * attention * 0.5
              : 0.0;
  const auto length = static_cast<double>(options.length);
  const auto neighbour = static_cast<double>(options.neighbour + 2);
  const double passes = options.every_length ? length : 1.0;
  const double rows = options.every_length ? length * (length + 1) / 2 : length;
  const auto sources = static_cast<double>(options.source_length + 5);
  return (rows + passes * neighbour + length + neighbour) * target +
         (passes + 1) * sources * source;
}

}  // namespace tril
