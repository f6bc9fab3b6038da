// Explain: what a model does with one sentence, in numbers that a page can show.
//
// The sentence goes through the model three times. Once as in training: the whole target in one
// call of forward(), under a tape and the mask. Once as in inference: the same tokens one call at a
// time, with a growing cache. And once more as in training but without the mask, which is the fault
// that the mask prevents. An Observer keeps what each attention read and wrote; the first two
// passes are compared number by number, as bit patterns: queries, keys, values and contexts of
// every attention, the outputs of the decoder's layers, its last states and all logits.
//
// The library never holds a matrix of attention weights (kernels/attention.h). Whoever shows one
// computes it from the queries and keys kept here by the textbook formula; `ContextCheck` says how
// far that formula's contexts are from the library's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/interval.h"
#include "tril/decode/search.h"
#include "tril/explain/page.h"
#include "tril/tensor/context.h"
#include "tril/translate/translator.h"

namespace tril {

// One attention of one layer, as the library computed it. Rows and keys count from 0.
struct AttentionRecord {
  int64_t query = 0;
  int64_t key = 0;
  std::vector<float> queries;       // [query, heads, head_dim], rotated where positions are rotary
  std::vector<float> keys, values;  // [key, kv_heads, head_dim]
  std::vector<float> context;       // [query, heads, head_dim]
  std::vector<Interval> sees;       // [query]
};

// All attentions of one pass, by layer. Decoder-only models have no encoder and no cross-attention.
struct PassAttention {
  std::vector<AttentionRecord> encoder, masked, cross;
};

// What else happens to the decoder's rows in training, one vector per row. Only the first `kept`
// numbers of each vector are stored; statements about a whole vector were computed from all of it.
struct SubLayerRecord {
  int64_t layer = 0;
  enum class Kind { masked, cross, feed_forward } kind = Kind::masked;
  std::vector<float> normed, added, left;  // [row, kept]; left: the output of the sub-layer
  // [row]: of the norm's input, in double. `rms` is the root of the mean square; a layer norm's
  // variance is rms² − mean².
  std::vector<double> mean, rms;
  std::vector<double> added_length, left_length;  // [row]: Euclidean
  float gain = 1.0f, shift = 0.0f;                // of the norm, for its first number
  // Feed-forward only.
  std::vector<float> hidden;    // [row, kept], after the activation
  std::vector<int64_t> active;  // [row]: how many of the hidden numbers are above zero
};
struct StageRecord {
  int64_t kept = 0;
  std::vector<float> token, position;  // [row, kept]; empty: none, or not stored separately
  std::vector<float> embedded;         // [row, kept]: input of the first layer
  std::vector<SubLayerRecord> sub_layers;
  std::vector<float> last;  // [row, kept]: input of the output projection
};

// The temperatures for which `ExplainedStep::log_sums` holds the sum over the vocabulary.
constexpr int64_t kTemperatures = 20;
constexpr double temperature_of(int64_t index) { return static_cast<double>(index + 1) / 10.0; }

struct TokenChance {
  int32_t token = 0;
  float log_prob = 0.0f;
  float logit = 0.0f;
};

// One position of the decoder: its input, the right output, the model's prediction.
struct ExplainedStep {
  int32_t fed = 0;
  int32_t right = 0;
  std::vector<TokenChance> candidates;  // likeliest first, the lower token first at equal ones
  float right_log_prob = 0.0f;
  float right_logit = 0.0f;
  // log Σ exp(logit / T) over the whole vocabulary, for each temperature.
  std::vector<double> log_sums;
  // The same with the mask off.
  std::vector<TokenChance> leaked_candidates;
  float leaked_right_log_prob = 0.0f;
  int64_t leaked_differing_logits = 0;  // against decoding, in bits
  uint64_t leaked_fingerprint = 0;
  // Training pass against decoding: the number of values of this row whose bits differ. For a
  // layer: queries, keys, values, contexts and the layer's output.
  std::vector<int64_t> differing_in_layer;
  int64_t differing_hidden = 0;
  int64_t differing_logits = 0;
  // Fingerprints of the logits' bits in each pass (base/fingerprint.h).
  uint64_t parallel_fingerprint = 0;
  uint64_t stepwise_fingerprint = 0;
};

// The textbook's contexts, from the same queries, keys and values in double, against the library's.
struct ContextCheck {
  int64_t compared = 0;
  double largest_difference = 0.0;
  // Relative to the bound that fp32 rounding allows (see explain.cpp): at most 1 if all is well.
  double largest_share = 0.0;
};

// What positions add to the scores of a stack by distance (ALiBi, or learnt): [heads, 2 reach - 1],
// entry reach - 1 + key - query. Empty in other models.
struct DistanceBias {
  int64_t reach = 0;
  std::vector<float> table{};

  double at(int64_t head, int64_t query, int64_t key) const {
    if (table.empty()) return 0.0;
    return double{table[static_cast<size_t>(head * (2 * reach - 1) + reach - 1 + key - query)]};
  }
};

struct Explanation {
  TransformerConfig config;
  int64_t parameters = 0;
  std::string sentence;
  std::string target_text;   // what `steps` read and should predict
  std::string written_text;  // what the model wrote by itself
  bool target_given = false;
  int32_t start = 0, end = 0;  // the special tokens
  int64_t prompt = 0;  // number of first tokens that were given: a text to continue, or a language
  std::vector<int32_t> source;          // END included; empty for decoder-only models
  std::vector<int32_t> written;         // END included if it ended
  std::vector<ExplainedStep> steps;     // fed: START and what follows; right: the next token
  std::vector<std::string> vocabulary;  // pieces of all tokens mentioned, indexed like `tokens`
  std::vector<int32_t> tokens;          // ascending

  PassAttention training;
  PassAttention stepwise;
  StageRecord stages;
  // By layer, [heads, query, key]: scaled scores of the decoder's self-attention, mask off.
  std::vector<std::vector<float>> leaked_scores;
  DistanceBias encoder_bias, masked_bias;  // of self-attention
  float scale = 1.0f;  // of scores: 1 / √head_dim as the library rounds it, or the model's own

  // Counted as they were observed: calls of the decoder, and of the encoder.
  int64_t parallel_calls = 0, stepwise_calls = 0;
  int64_t parallel_encoder_calls = 0, stepwise_encoder_calls = 0;
  int64_t numbers_compared = 0;
  int64_t numbers_differing = 0;
  ContextCheck context_check;

  std::vector<SearchStep> search_steps;
  std::vector<Hypothesis> hypotheses;
  std::vector<std::string> hypothesis_texts;
  int64_t beam = 1;
  double length_penalty = 0.0;
  // What greedy search would have written, if the beam's result is not the likeliest token at every
  // step.
  std::optional<Hypothesis> greedy{};
  std::string greedy_text;
  // With a given target: the same sentence with what the model wrote by itself.
  std::shared_ptr<const Explanation> own{};
};

// Raises `invalid_argument` for a sentence or a target without a word, of several lines, that is
// not UTF-8 or has more tokens than the model takes or a page can show (a word of 300 letters is
// fine while its tokens are few enough), and for a target without an encoder; `bad_format` when the
// model computes numbers that are not finite.
// `hooks`: deliberate faults of the training pass, for tests.
Explanation explain(const Translator& translator, std::string_view sentence,
                    const ExplainOptions& options = {}, const TestHooks& hooks = {});

// One self-contained HTML page: script, style and numbers inside, no requests. The same explanation
// gives the same bytes. Raises `invalid_argument` when it would be too large.
std::string explain_page(const Explanation& explanation);

}  // namespace tril
