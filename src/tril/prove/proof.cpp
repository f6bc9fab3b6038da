#include "tril/prove/proof.h"

#include <algorithm>

#include "tril/models/session_state.h"
#include "tril/prove/agreement.h"
#include "tril/prove/every_gradient.h"
#include "tril/prove/for_every_input.h"
#include "tril/prove/leak.h"
#include "tril/prove/sequential.h"
#include "tril/prove/table.h"
#include "tril/tensor/context.h"

namespace tril {
namespace {

constexpr Section kSections[] = {Section::table, Section::agreement, Section::leaks,
                                 Section::sequential, Section::every_input};

// A target of more than one block of 64 keys, so that the running softmax goes from block to block.
constexpr int64_t kLongTarget = 130;
// The cost of the leak probe grows with the third power of it: just beyond one block.
constexpr int64_t kLongLeak = 70;
constexpr int64_t kBeamSentences = 4;
constexpr int64_t kMaxWritten = 12;
// The most weights times rows of sequential training on the model itself; beyond it, a tiny one is
// used.
constexpr double kSequentialWork = 1.5e11;
// Likewise the most steps of sequential training on a GPU, where each is hundreds of kernels with
// next to no work.
constexpr int64_t kStepsOnGpu = 1000;
// Tokens of the tiny model's sources: it is the decoder that is measured.
constexpr size_t kTinySource = 16;
// The proof for every input takes all lengths up to the first of these that is not too much work,
// or else one of these alone, each long enough to read keys from a cache; and one long one.
constexpr int64_t kEveryLength[] = {16, 12, 8, 6};
constexpr int64_t kLengthAlone[] = {12, 8, 6, 4};
constexpr int64_t kOneLength = 70;  // two blocks of keys
constexpr int64_t kEveryLengthOfOtherForms = 6;
constexpr double kShareOfOtherForms = 0.25;  // of the work allowed, for each
// The same for gradients: every position of a sentence of the first of these lengths that is not
// too much work, and the last but one of a long one; of the work allowed, this share each. Lengths
// that were asked for may take all of it.
constexpr int64_t kGradientLengths[] = {6, 4, 3, 2};
constexpr double kShareOfGradients = 0.2;

void check(const TransformerConfig& c, std::span<const TokenPair> pairs) {
  bool has_future = false;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const TokenPair& pair = pairs[i];
    const auto fits = [&](std::string_view what, const std::vector<int32_t>& tokens,
                          int64_t vocab) {
      require(!tokens.empty() && static_cast<int64_t>(tokens.size()) <= c.max_length,
              ErrorCode::invalid_argument, "prove: the ", what, " of pair ", i, " has ",
              tokens.size(), " tokens, expected 1 to ", c.max_length);
      for (const int32_t token : tokens) {
        require(token >= 0 && token < vocab, ErrorCode::invalid_argument, "prove: token ", token,
                " in the ", what, " of pair ", i, " is not below the vocabulary of ", vocab);
      }
    };
    if (!c.decoder_only()) fits("source", pair.source, c.source_vocab);
    require(!c.decoder_only() || pair.source.empty(), ErrorCode::invalid_argument, "prove: pair ",
            i, " has a source, but the model no encoder");
    fits("target", pair.target, c.target_vocab);
    require(pair.next >= 0 && pair.next < c.target_vocab, ErrorCode::invalid_argument,
            "prove: the token ", pair.next, " that follows pair ", i,
            " is not below the vocabulary of ", c.target_vocab);
    has_future = has_future || pair.target.size() >= 2;
  }
  require(has_future, ErrorCode::invalid_argument,
          "prove: every target is a single token, so there is no future to hide: longer ones are "
          "needed");
}

// A pair of exactly `length` tokens per side, made by repeating the tokens of all pairs.
TokenPair pair_of_length(std::span<const TokenPair> pairs, size_t first, int64_t length) {
  std::vector<int32_t> source, target;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const TokenPair& pair = pairs[(first + i) % pairs.size()];
    source.insert(source.end(), pair.source.begin(), pair.source.end());
    target.insert(target.end(), pair.target.begin() + 1, pair.target.end());
  }
  TokenPair result;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    if (!source.empty()) result.source.push_back(source[i % source.size()]);
    result.target.push_back(i == 0 ? pairs[0].target[0] : target[(i - 1) % target.size()]);
  }
  result.next = target[static_cast<size_t>(length - 1) % target.size()];
  return result;
}

class Proving {
 public:
  Proving(const Transformer& model, std::span<const TokenPair> pairs, const ProofOptions& options,
          const TestHooks& hooks)
      : model_(model),
        pairs_(pairs),
        options_(options),
        hooks_(hooks),
        session_(model, options.threads) {
    session_->masking = options.masking;
    session_->hooks = hooks;
  }

  ProofReport run() {
    report_.sentences = static_cast<int64_t>(pairs_.size());
    for (const TokenPair& pair : pairs_) {
      report_.positions += static_cast<int64_t>(pair.target.size());
    }
    prove_table();
    prove_agreement();
    prove_no_leaks();
    if (model_.config().position == PositionType::relative &&
        !ops::has_bias_gradient(model_.placement())) {
      report_.without_gradients = "on a GPU relative positions (T5) have no gradient yet";
    }
    const bool has_gradients = report_.without_gradients.empty();
    if (has_gradients) prove_sequential();
    prove_every_input();
    if (has_gradients) prove_every_gradients();
    return std::move(report_);
  }

 private:
  void tell(std::string_view what, int64_t done, int64_t all) const {
    if (options_.progress) options_.progress(what, done, all);
  }
  int64_t max_length() const { return model_.config().max_length; }
  Placement in_fp32() const { return {model_.placement().device, DType::f32}; }

  void prove_table() {
    report_.shown = sentence_to_show();
    report_.table = gather_table(model_, pairs_[report_.shown],
                                 {.max_tokens = kMaxWritten,
                                  .forced = options_.forced,
                                  .end = options_.end,
                                  .forbidden = options_.forbidden},
                                 session_);
  }

  // The first sentence with a future; preferably one that does not just repeat a token; best of
  // those, one where the model predicts a wrong token, so that it can be seen what is fed in after
  // it.
  size_t sentence_to_show() {
    std::optional<size_t> first, differing;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      tell("the table", static_cast<int64_t>(i), static_cast<int64_t>(pairs_.size()));
      const std::vector<int32_t>& target = pairs_[i].target;
      if (target.size() < 2) continue;
      if (!first) first = i;
      if (target[0] == target[1]) continue;
      if (!differing) differing = i;
      if (count_mistakes(model_, pairs_[i], options_.forbidden, session_) > 0) return i;
    }
    return differing ? *differing : *first;
  }

  void prove_agreement() {
    std::vector<TokenPair> given(pairs_.begin(), pairs_.end());
    int64_t longest = 0;
    for (const TokenPair& pair : given) {
      longest = std::max(longest, static_cast<int64_t>(pair.target.size()));
    }
    if (longest < kLongTarget) {
      given.push_back(pair_of_length(pairs_, 0, std::min(kLongTarget, max_length())));
      longest = static_cast<int64_t>(given.back().target.size());
    }
    report_.longest = longest;
    const auto writers = pairs_.first(std::min(pairs_.size(), static_cast<size_t>(kBeamSentences)));
    int64_t done = 0;
    for (const Writing writing : {Writing::teacher_forced, Writing::greedy, Writing::beam}) {
      for (const Company company : {Company::alone, Company::in_batches}) {
        tell("parallel against stepwise", done++, 6);
        report_.agreement.push_back(agreement_of(
            writing, company,
            writing == Writing::teacher_forced ? std::span<const TokenPair>(given) : writers));
      }
    }
  }

  AgreementLine agreement_of(Writing writing, Company company, std::span<const TokenPair> pairs) {
    AgreementOptions how{.writing = writing,
                         .company = company,
                         .max_tokens = kMaxWritten,
                         .start = pairs_[0].target[0],
                         .forced = options_.forced,
                         .end = options_.end,
                         .forbidden = options_.forbidden};
    AgreementLine line{.writing = writing, .company = company};
    line.figures = compare_parallel_with_stepwise(model_, pairs, session_, how);
    if (writing == Writing::beam && line.figures.same() && line.figures.moved == 0) {
      how.forbidden.push_back(options_.end);
      line.without_end = true;
      line.figures = compare_parallel_with_stepwise(model_, pairs, session_, how);
    }
    return line;
  }

  void prove_no_leaks() {
    std::vector<TokenPair> given(pairs_.begin(), pairs_.end());
    given.push_back(pair_of_length(pairs_, 0, std::min(kLongLeak, max_length())));
    LeakOptions how;
    if (options_.full) how.max_positions = INT64_MAX;
    how.progress = [&](int64_t done, int64_t all) { tell("the leak probe", done, all); };
    report_.leaks = probe_leaks(model_, given, session_, how);
  }

  void prove_sequential() {
    for (const SequentialCase& c : options_.sequential) {
      SequentialLine line;
      line.rows = c.rows;
      line.length = c.length;
      const int64_t prefix_rows = c.rows * (c.length * (c.length + 1) / 2);
      const double work =
          static_cast<double>(prefix_rows) * static_cast<double>(model_.parameter_count());
      line.in_fp32 = model_.placement().activations != DType::f32;
      const bool slow = work > kSequentialWork || (model_.placement().device != Device::cpu &&
                                                   c.rows * c.length > kStepsOnGpu);
      line.on_tiny_model = c.length > max_length() || (slow && !options_.full);
      const std::string what = concat("sequential against parallel training, ", c.rows, " x ",
                                      c.length, line.on_tiny_model ? " on a tiny model" : "");
      const SequentialOptions how{
          .threads = options_.threads,
          .masking = options_.masking,
          .hooks = hooks_,
          .progress = [&](int64_t done, int64_t all) { tell(what, done, all); }};
      std::vector<TokenPair> pairs;
      if (line.on_tiny_model) {
        const Transformer tiny(tiny_config_like(model_.config()), 1);
        pairs = random_pairs(tiny.config(), c.rows, c.length, 1);
        for (TokenPair& pair : pairs) {
          pair.source.resize(std::min(pair.source.size(), kTinySource));
        }
        line.figures = compare_sequential_with_parallel(tiny, pairs, how);
      } else {
        for (int64_t row = 0; row < c.rows; ++row) {
          pairs.push_back(pair_of_length(pairs_, static_cast<size_t>(row), c.length));
        }
        line.figures = compare_sequential_with_parallel(
            line.in_fp32 ? model_.on(in_fp32()) : model_, pairs, how);
      }
      report_.sequential.push_back(std::move(line));
    }
  }

  void prove_every_input() {
    EveryInputOptions all = every_input_options();
    if (options_.every_length > 0) {
      all.length = options_.every_length;
    } else if (!choose_length(kEveryLength, all)) {
      all.every_length = false;
      if (!choose_length(kLengthAlone, all)) all.every_length = true;  // on a tiny model
    }
    add_every_input(all, options_.every_length > 0);
    EveryInputOptions longest = every_input_options();
    longest.every_length = false;
    longest.length = options_.one_length > 0 ? options_.one_length : kOneLength;
    longest.source_length = longest.length;
    add_every_input(longest, options_.one_length > 0);
    for (const Compute compute : {Compute::int8, Compute::bf16_dot}) {
      EveryInputOptions form = every_input_options();
      form.compute = compute;
      form.order = OperationOrder::cpu;
      form.length = kEveryLengthOfOtherForms;
      add_every_input(form, false, kShareOfOtherForms);
    }
    for (const OperationOrder order :
         {OperationOrder::cpu, OperationOrder::cuda_fp32, OperationOrder::cuda_bf16}) {
      EveryInputOptions other = every_input_options();
      if (order == other.order) continue;
      other.order = order;
      other.length = kEveryLengthOfOtherForms;
      add_every_input(other, false, kShareOfOtherForms);
    }
  }
  void prove_every_gradients() {
    EveryInputOptions all = every_input_options();
    const bool asked = options_.every_length > 0;
    all.length = asked ? options_.every_length : kGradientLengths[0];
    for (const int64_t length : kGradientLengths) {
      EveryInputOptions shorter = all;
      shorter.length = length;
      if (asked || !can_differentiate(shorter, kShareOfGradients)) continue;
      all.length = length;
      break;
    }
    add_every_gradient(all, asked ? 1.0 : kShareOfGradients);
    EveryInputOptions longest = every_input_options();
    longest.every_length = false;
    longest.length = options_.one_length > 0 ? options_.one_length : kOneLength;
    longest.source_length = longest.length;
    add_every_gradient(longest, options_.one_length > 0 ? 1.0 : kShareOfGradients);
  }
  bool can_differentiate(const EveryInputOptions& options, double share) const {
    return model_.parameter_count() <= kMostGradients &&
           (options_.full || every_gradient_operations(model_.config(), options) <=
                                 share * options_.every_input_operations);
  }
  void add_every_gradient(EveryInputOptions options, double share) {
    options.length = std::min(options.length, kMostGradientTokens);
    options.source_length = std::min(options.source_length, kMostGradientTokens);
    const bool tiny = !can_differentiate(options, share);
    const std::string what =
        concat("for every input, gradients, ", options.every_length ? "1 to " : "", options.length);
    tell(what, 0, 100);
    options.progress = [&](double done) { tell(what, static_cast<int64_t>(100.0 * done), 100); };
    options.order = OperationOrder::cpu;  // the only ones whose backward kernels have models
    report_.every_gradient.push_back(
        {options.length, options.every_length, tiny,
         prove_every_gradient(tiny ? tiny_config_like(model_.config()) : model_.config(),
                              options)});
  }
  EveryInputOptions every_input_options() const {
    EveryInputOptions options;
    options.order = model_.placement().order();
    options.threads = options_.threads;
    options.hooks = hooks_;
    options.masking = options_.masking;
    return options;
  }
  bool affordable(const EveryInputOptions& options, double share = 1.0) const {
    return options_.full || every_input_operations(model_.config(), options) <=
                                share * options_.every_input_operations;
  }
  bool choose_length(std::span<const int64_t> lengths, EveryInputOptions& options) const {
    for (const int64_t length : lengths) {
      options.length = length;
      if (affordable(options)) return true;
    }
    options.length = lengths.front();
    return false;
  }
  // On the model's own configuration if that was asked for or is not too much work.
  void add_every_input(EveryInputOptions options, bool asked, double share = 1.0) {
    const bool tiny = !asked && !affordable(options, share);
    const std::string what = concat(
        "for every input, ",
        options.order == OperationOrder::cpu ? word_for(options.compute) : word_for(options.order),
        options.every_length ? ", 1 to " : ", ", options.length);
    tell(what, 0, 100);
    options.progress = [&](double done) { tell(what, static_cast<int64_t>(100.0 * done), 100); };
    report_.every_input.push_back(
        {options.compute, options.order, options.length, options.every_length, tiny,
         prove_for_every_input(tiny ? tiny_config_like(model_.config()) : model_.config(),
                               options)});
  }

  const Transformer& model_;
  std::span<const TokenPair> pairs_;
  const ProofOptions& options_;
  const TestHooks& hooks_;
  Session session_;
  ProofReport report_;
};

}  // namespace

bool ProofReport::holds(Section section) const {
  switch (section) {
    case Section::table: return table.holds();
    case Section::agreement:
      return !agreement.empty() &&
             std::all_of(agreement.begin(), agreement.end(),
                         [](const AgreementLine& line) { return line.holds(); });
    case Section::leaks: return leaks.holds();
    case Section::sequential:
      return !without_gradients.empty() ||
             (!sequential.empty() &&
              std::all_of(sequential.begin(), sequential.end(),
                          [](const SequentialLine& line) { return line.figures.holds(); }));
    case Section::every_input:
      return !every_input.empty() && every_input.front().figures.covers_decoding() &&
             std::all_of(every_input.begin(), every_input.end(),
                         [](const EveryInputLine& line) { return line.figures.holds(); }) &&
             every_gradient.empty() == !without_gradients.empty() &&
             std::all_of(every_gradient.begin(), every_gradient.end(),
                         [](const EveryGradientLine& line) { return line.figures.holds(); });
  }
  return false;
}

std::vector<Section> ProofReport::failed() const {
  std::vector<Section> result;
  for (const Section section : kSections) {
    if (!holds(section)) result.push_back(section);
  }
  return result;
}

ProofReport prove_in_full(const Transformer& model, std::span<const TokenPair> pairs,
                          const ProofOptions& options, const TestHooks& hooks) {
  check(model.config(), pairs);
  require(options.end >= 0 && options.end < model.config().target_vocab,
          ErrorCode::invalid_argument, "prove: END is ", options.end,
          ", not below the vocabulary of ", model.config().target_vocab);
  return Proving(model, pairs, options, hooks).run();
}

Proof prove(const Transformer& model, std::span<const TokenPair> pairs,
            const ProofOptions& options) {
  const ProofReport report = prove_in_full(model, pairs, options);
  Proof proof{.sentences = report.sentences,
              .positions = report.positions,
              .failed = report.failed(),
              .without_gradients = report.without_gradients};
  for (const Section section : kSections) {
    if (report.holds(section)) proof.held.push_back(section);
  }
  return proof;
}

}  // namespace tril
