#include "tril/prove/for_every_input.h"

#include <algorithm>
#include <chrono>

#include "tril/autograd/tape.h"
#include "tril/models/output_part.h"
#include "tril/models/session_state.h"
#include "tril/models/transformer.h"
#include "tril/prove/expression_batch.h"

namespace tril {
namespace {

class EveryInput {
 public:
  EveryInput(const TransformerConfig& config, const EveryInputOptions& options)
      : options_(options),
        variables_(options, !config.decoder_only()),
        config_(config_with_room(config, options, variables_.count())),
        model_(Transformer::of_expressions(config_, options.compute)),
        session_(model_, options.threads),
        rows_(config_, options_, variables_, result_) {
    session_->expressions->tokens = variables_.reaches();
    session_->expressions->order = options.order;
    session_->hooks = options.hooks;
  }

  EveryInputResult run() {
    const auto start = std::chrono::steady_clock::now();
    const MaskingScope masks(session_, options_.masking);
    {
      const ObserverScope observes(session_, &rows_);
      rows_.begin_recording();
      step_by_step(Observed::yes);
      rows_.count_distinct();
      const int64_t least = std::max<int64_t>(1, options_.prefix);
      for (int64_t length = options_.every_length ? least : options_.length;
           length <= options_.length; ++length) {
        rows_.begin_comparing(length);
        in_parallel(length);
        rows_.end_comparing();
        report(length);
      }
    }
    step_by_step(Observed::no);
    result_.operations = session_->expressions->operations;
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result_;
  }

 private:
  enum class Observed { no, yes };

  void report(int64_t length) const {
    if (!options_.progress) return;
    const auto squared = [](int64_t n) { return static_cast<double>(n * n); };
    options_.progress(options_.every_length ? squared(length) / squared(options_.length) : 1.0);
  }
  int32_t segment(int32_t number) const { return config_.decoder_only() ? -1 : number; }

  Memory encoded_one_by_one() {
    Memory memory;
    if (config_.decoder_only()) return memory;
    Rows source;
    source.add_sequence(variables_.source(), {.slot = 0});
    memory = model_.encode(source, session_);
    Rows other;
    other.add_sequence(variables_.neighbour_source(), {.slot = 0});
    session_.reset();
    model_.encode_into(memory, other, session_);
    return memory;
  }

  // As decoding does it.
  void step_by_step(Observed observed) {
    session_.reset();
    const Memory memory = encoded_one_by_one();
    const std::vector<int32_t> target = variables_.target(options_.length);
    const std::vector<int32_t> neighbour = variables_.neighbour();
    int32_t slot = session_->cache.open();
    const int32_t other = session_->cache.open();
    bool copied = false;  // a block of the cache, after a fork
    int64_t neighbours = 0;
    int64_t first = 0;
    int64_t count = options_.length >= 4 ? 2 : 1;
    if (options_.prefix > 0) count = options_.prefix;
    for (int64_t call = 0; first < options_.length; ++call) {
      Rows rows;
      if (call % 2 == 1 && neighbours < options_.neighbour) {
        rows.add(neighbour[static_cast<size_t>(neighbours)],
                 {.slot = other, .segment = segment(1), .first = static_cast<int32_t>(neighbours)});
        ++neighbours;
      }
      // A fork that continues at the beginning of a block has none to copy; then another is made.
      const bool forks = !copied && call % 2 == 1 && first >= options_.length / 2;
      const int32_t original = slot;
      if (forks) slot = session_->cache.fork(original);
      const int64_t begin = rows.size();
      rows.add_sequence(
          std::span(target).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
          {.slot = slot,
           .segment = segment(0),
           .first = static_cast<int32_t>(first),
           .prefix = static_cast<int32_t>(options_.prefix)});
      // After the sentence's row, so that it is the sentence that goes on in the copied block.
      if (forks) {
        rows.add(variables_.written_beside(),
                 {.slot = original, .segment = segment(0), .first = static_cast<int32_t>(first)});
      }
      const size_t blocks = session_->cache.entries(slot).size();
      session_.reset();
      const Tensor hidden = model_.forward(rows, memory, session_);
      const Tensor logits = model_.logits(hidden, session_);
      if (forks) {
        const auto mine = session_->cache.entries(slot), shared = session_->cache.entries(original);
        copied = mine.size() == blocks && mine.back() != shared.back();
      }
      if (observed == Observed::yes) {
        result_.cached_rows += first > 0 ? count : 0;
        result_.calls_alone += rows.size() == 1 ? 1 : 0;
        result_.copied_blocks += forks && copied ? 1 : 0;
      } else {
        compare_rows(logits, begin, first, count);
      }
      if (first + count == options_.length && observed == Observed::no) {
        compare_shortlist(hidden, begin + count - 1);
      }
      first += count;
      count = 1;
    }
    session_->cache.release_all();
  }

  // The sentence's positions from `first` on are the call's rows from `begin` on.
  void compare_rows(const Tensor& logits, int64_t begin, int64_t first, int64_t count) {
    const std::span<const Expression> all(logits.data<Expression>(),
                                          static_cast<size_t>(logits.size()));
    const auto columns = static_cast<size_t>(logits.columns());
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<size_t>(begin + i);
      rows_.compare_logits(all.subspan(row * columns, columns), static_cast<int32_t>(first + i));
    }
  }

  // Chosen outputs are the same expressions as among all.
  void compare_shortlist(const Tensor& hidden, int64_t row) {
    const auto last = static_cast<int32_t>(config_.target_vocab - 1);
    const std::vector<int32_t> chosen{last, 0, last / 2};
    OutputPart part;
    model_.choose_output(chosen, part, session_);
    const PartRows rows{row, row + 1, &part};
    const std::vector<Tensor> logits = model_.logits(hidden, {&rows, 1}, session_);
    rows_.compare_chosen({logits[0].data<Expression>(), chosen.size()}, chosen,
                         static_cast<int32_t>(options_.length - 1));
  }

  // As training does it.
  void in_parallel(int64_t length) {
    session_.reset();
    ++result_.passes;
    const Tape tape(session_);
    const ExpressionBatch batch = packed_batch(variables_, options_, length);
    Memory memory;
    if (!config_.decoder_only()) memory = model_.encode(batch.source, session_);
    model_.logits(model_.forward(batch.target, memory, session_), session_);
  }

  EveryInputOptions options_;
  TokenVariables variables_;
  TransformerConfig config_;
  EveryInputResult result_;
  Transformer model_;
  Session session_;
  ExpressionRows rows_;
};

}  // namespace

std::string to_string(const EveryInputPlace& place) {
  std::string text = concat(place.stack == Stack::encoder ? "encoder" : "decoder");
  if (place.layer >= 0) text += concat(" layer ", place.layer);
  text += concat(", ", place.site);
  if (place.head >= 0) text += concat(", head ", place.head);
  text += concat(", position ", place.position, place.of_neighbour ? " of the neighbour" : "");
  text += place.length > 0 ? concat(", parallel pass of ", place.length) : ", step by step";
  if (place.reached >= 0) {
    text += concat(": reached position ", place.reached, place.in_source ? " of the source" : "",
                   place.in_other ? " of the other sentence" : "");
  }
  return text;
}

void check_lengths(const EveryInputOptions& options) {
  require(options.length >= 1 && options.source_length >= 1 && options.neighbour >= 1,
          ErrorCode::invalid_argument, "proof: lengths must be at least 1");
  require(options.prefix >= 0 && options.prefix <= options.length, ErrorCode::invalid_argument,
          "proof: a prefix of ", options.prefix, " in ", options.length, " tokens");
}

EveryInputResult prove_for_every_input(const TransformerConfig& config,
                                       const EveryInputOptions& options) {
  check_lengths(options);
  require(options.order == OperationOrder::cpu || options.compute == Compute::fp32,
          ErrorCode::unsupported, "proof: CUDA has no products in ", word_for(options.compute));
  return EveryInput(config, options).run();
}

ExpressionWork work_per_row(const TransformerConfig& given) {
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
  return {target, source};
}

double every_input_operations(const TransformerConfig& config, const EveryInputOptions& options) {
  const ExpressionWork row = work_per_row(config);
  const auto length = static_cast<double>(options.length);
  const auto neighbour = static_cast<double>(2 * options.neighbour + 2);
  const double passes = options.every_length ? length : 1.0;
  const double rows = options.every_length ? length * (length + 1) / 2 : length;
  const auto sources = static_cast<double>(options.source_length + 7);
  return (rows + passes * neighbour + 2 * (length + neighbour / 2)) * row.target +
         (passes + 2) * sources * row.source;
}

}  // namespace tril
