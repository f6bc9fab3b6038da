#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tril/base/error.h"
#include "tril/base/rounding.h"
#include "tril/explain/architecture.h"
#include "tril/explain/encode.h"
#include "tril/explain/explain.h"
#include "tril/explain/page_parts.h"
#include "tril/explain/passes.h"

namespace tril {
namespace {

using Json = nlohmann::ordered_json;

// Numbers are stored with all their bits while that takes less than this; beyond it, in sixteen
// bits.
constexpr int64_t kMaxExactBytes = 2'000'000;
constexpr int64_t kMaxPageBytes = 40'000'000;

// Calls `visit(name, training's records, decoding's)` for each kind of attention.
template <class Visit>
void for_each_kind(const Explanation& e, const Visit& visit) {
  visit("encoder", e.training.encoder, e.stepwise.encoder);
  visit("masked", e.training.masked, e.stepwise.masked);
  visit("cross", e.training.cross, e.stepwise.cross);
}

int64_t numbers_of(const AttentionRecord& r) {
  return static_cast<int64_t>(r.queries.size() + r.keys.size() + r.values.size());
}

// What has the same bits in both passes is stored once.
int64_t numbers_of(const Explanation& e) {
  int64_t count = 0;
  for_each_kind(e, [&](const char*, const auto& training, const auto& stepwise) {
    for (size_t layer = 0; layer < training.size(); ++layer) {
      count += numbers_of(training[layer]);
      if (!same_bits(training[layer], stepwise[layer])) count += numbers_of(stepwise[layer]);
    }
  });
  for (const auto& scores : e.leaked_scores) count += static_cast<int64_t>(scores.size());
  return count;
}

enum class Precision { exact, rounded };

// The error of drawing weights from numbers stored in sixteen bits: the largest difference over all
// cells.
double rounding_loss(const Explanation& e) {
  const int64_t width = e.config.head_dim;
  double largest = 0.0;
  for_each_kind(e, [&](std::string_view name, const auto& training, const auto&) {
    const DistanceBias bias = name == "cross"     ? DistanceBias()
                              : name == "encoder" ? e.encoder_bias
                                                  : e.masked_bias;
    for (const AttentionRecord& record : training) {
      AttentionRecord drawn = record;
      drawn.queries = unrounded(round_rows(record.queries, width), width);
      drawn.keys = unrounded(round_rows(record.keys, width), width);
      for (int64_t head = 0; head < e.config.heads; ++head) {
        const auto a = weights_of(record, e.config, e.scale, bias, head);
        const auto b = weights_of(drawn, e.config, e.scale, bias, head);
        for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
      }
    }
  });
  return largest;
}

class PageWriter {
 public:
  explicit PageWriter(const Explanation& e)
      : e_(e),
        precision_(numbers_of(e) * 5 <= kMaxExactBytes ? Precision::exact : Precision::rounded) {}

  Json page() const {
    return {{"format", 1},
            {"model", model()},
            {"sentence", e_.sentence},
            {"target", e_.target_text},
            {"written", e_.written_text},
            {"targetGiven", e_.target_given},
            {"tokens", tokens()},
            {"steps", steps()},
            {"bits", bits()},
            {"beam", beam()},
            {"precision", precision_ == Precision::exact ? "exact" : "rounded"},
            {"attention", training()},
            {"stepwise", stepwise()},
            {"leakedScores", leaked_scores()},
            {"stages", stages()}};
  }

 private:
  Json model() const {
    const TransformerConfig& c = e_.config;
    return {{"encoderLayers", c.encoder_layers},
            {"decoderLayers", c.decoder_layers},
            {"heads", c.heads},
            {"kvHeads", c.kv_heads},
            {"headDim", c.head_dim},
            {"width", c.model},
            {"vocab", c.target_vocab},
            {"parameters", e_.parameters},
            {"position", word_for(c.position)},
            {"feedForward", c.feed_forward},
            {"activation", word_for(c.activation)},
            {"gated", c.gated},
            {"norm", word_for(c.norm)},
            {"normFirst", c.norm_position == NormPosition::pre},
            {"normEpsilon", c.norm_epsilon},
            {"embeddingNorm", c.embedding_norm},
            {"embeddingScale", c.embedding_scale},
            {"window", c.window},
            {"scale", e_.scale},
            {"bias", {{"encoder", bias(e_.encoder_bias)}, {"masked", bias(e_.masked_bias)}}}};
  }

  // By head; the middle entry is that of distance 0.
  static Json bias(const DistanceBias& from) {
    Json heads = Json::array();
    const auto width = static_cast<size_t>(2 * from.reach - 1);
    for (size_t at = 0; at < from.table.size(); at += width) {
      heads.push_back(std::vector<float>(from.table.begin() + static_cast<ptrdiff_t>(at),
                                         from.table.begin() + static_cast<ptrdiff_t>(at + width)));
    }
    return heads;
  }

  Json tokens() const {
    Json pieces = Json::object();
    for (size_t i = 0; i < e_.tokens.size(); ++i) {
      pieces[concat(e_.tokens[i])] = e_.vocabulary[i];
    }
    std::vector<int32_t> fed, right;
    for (const ExplainedStep& step : e_.steps) {
      fed.push_back(step.fed);
      right.push_back(step.right);
    }
    return {{"start", e_.start},   {"end", e_.end}, {"prompt", e_.prompt}, {"pieces", pieces},
            {"source", e_.source}, {"fed", fed},    {"right", right},      {"written", e_.written}};
  }

  // Five decimals: more than the page shows, in a third of the bytes.
  static double short_number(double value) { return std::round(value * 1e5) / 1e5; }

  static Json short_numbers(const std::vector<double>& values) {
    Json result = Json::array();
    for (const double value : values) result.push_back(short_number(value));
    return result;
  }

  static Json chances(const std::vector<TokenChance>& list) {
    Json result = Json::array();
    for (const TokenChance& chance : list) {
      result.push_back({chance.token, short_number(double{chance.log_prob}),
                        short_number(double{chance.logit})});
    }
    return result;
  }

  Json steps() const {
    Json result = Json::array();
    for (const ExplainedStep& s : e_.steps) {
      result.push_back({{"candidates", chances(s.candidates)},
                        {"right", short_number(double{s.right_log_prob})},
                        {"rightLogit", short_number(double{s.right_logit})},
                        {"logSums", short_numbers(s.log_sums)},
                        {"leaked", chances(s.leaked_candidates)},
                        {"leakedRight", short_number(double{s.leaked_right_log_prob})},
                        {"leakedDiffering", s.leaked_differing_logits},
                        {"leakedBits", hex(s.leaked_fingerprint)},
                        {"layersDiffering", s.differing_in_layer},
                        {"hiddenDiffering", s.differing_hidden},
                        {"logitsDiffering", s.differing_logits},
                        {"parallelBits", hex(s.parallel_fingerprint)},
                        {"stepwiseBits", hex(s.stepwise_fingerprint)}});
    }
    return result;
  }

  static std::string hex(uint64_t value) {
    std::string text(16, '0');
    for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    return text;
  }

  Json bits() const {
    return {{"parallelCalls", e_.parallel_calls},
            {"stepwiseCalls", e_.stepwise_calls},
            {"parallelEncoderCalls", e_.parallel_encoder_calls},
            {"stepwiseEncoderCalls", e_.stepwise_encoder_calls},
            {"compared", e_.numbers_compared},
            {"differing", e_.numbers_differing},
            {"contexts", e_.context_check.compared},
            {"contextDifference", e_.context_check.largest_difference},
            {"contextShare", e_.context_check.largest_share},
            {"roundingLoss", precision_ == Precision::rounded ? rounding_loss(e_) : 0.0}};
  }

  Json beam() const {
    Json steps = Json::array();
    for (const SearchStep& step : e_.search_steps) {
      Json candidates = Json::array();
      for (const SearchStep::Candidate& c : step.candidates) {
        candidates.push_back({c.parent, c.token, short_number(double{c.log_prob}),
                              short_number(c.score), static_cast<int>(c.fate)});
      }
      steps.push_back(std::move(candidates));
    }
    Json results = Json::array();
    for (size_t i = 0; i < e_.hypotheses.size(); ++i) {
      results.push_back(result(e_.hypotheses[i]));
      results.back()["text"] = e_.hypothesis_texts[i];
    }
    return {{"width", e_.beam},
            {"lengthPenalty", e_.length_penalty},
            {"steps", steps},
            {"results", results},
            {"greedy", e_.greedy ? result(*e_.greedy) : Json(nullptr)},
            {"greedyText", e_.greedy_text}};
  }

  static Json result(const Hypothesis& h) {
    return {{"tokens", h.tokens},
            {"score", short_number(h.score)},
            {"rank", short_number(h.rank)},
            {"ended", h.ended}};
  }

  Json numbers(const std::vector<float>& values, int64_t width) const {
    if (precision_ == Precision::exact) return {{"floats", base85(values)}};
    const Rounded rounded = round_rows(values, width);
    return {{"scales", base85(rounded.scales)},
            {"count", values.size()},
            {"whole", base85(rounded.values)}};
  }

  Json attention(const AttentionRecord& r) const {
    const int64_t width = e_.config.head_dim;
    Json lo = Json::array();
    Json hi = Json::array();
    for (const Interval& sees : r.sees) {
      lo.push_back(sees.lo);
      hi.push_back(sees.hi);
    }
    Json result = {{"query", r.query},
                   {"key", r.key},
                   {"lo", lo},
                   {"hi", hi},
                   {"q", numbers(r.queries, width)},
                   {"k", numbers(r.keys, width)},
                   {"v", numbers(r.values, width)}};
    if (precision_ == Precision::exact) result["context"] = numbers(r.context, width);
    return result;
  }

  Json training() const {
    Json result = Json::object();
    for_each_kind(e_, [&](const char* name, const auto& training, const auto&) {
      result[name] = Json::array();
      for (const AttentionRecord& record : training) result[name].push_back(attention(record));
    });
    return result;
  }

  // null for a layer whose bits are those of training.
  Json stepwise() const {
    Json result = Json::object();
    for_each_kind(e_, [&](const char* name, const auto& training, const auto& stepwise) {
      result[name] = Json::array();
      for (size_t layer = 0; layer < training.size(); ++layer) {
        const bool same = same_bits(training[layer], stepwise[layer]);
        result[name].push_back(same ? Json(nullptr) : attention(stepwise[layer]));
      }
    });
    return result;
  }

  Json leaked_scores() const {
    Json result = Json::array();
    for (const auto& scores : e_.leaked_scores) {
      result.push_back(numbers(scores, static_cast<int64_t>(e_.steps.size())));
    }
    return result;
  }

  // The stages around attention: few numbers compared with those of attention itself.
  Json stages() const {
    const StageRecord& s = e_.stages;
    const auto vectors = [&](const std::vector<float>& values) {
      return values.empty() ? Json(nullptr) : numbers(values, s.kept);
    };
    Json sub_layers = Json::array();
    for (const SubLayerRecord& r : s.sub_layers) {
      sub_layers.push_back({{"layer", r.layer},
                            {"kind", kSubLayers[static_cast<size_t>(r.kind)]},
                            {"normed", vectors(r.normed)},
                            {"added", vectors(r.added)},
                            {"left", vectors(r.left)},
                            {"mean", short_numbers(r.mean)},
                            {"rms", short_numbers(r.rms)},
                            {"addedLength", short_numbers(r.added_length)},
                            {"leftLength", short_numbers(r.left_length)},
                            {"gain", r.gain},
                            {"shift", r.shift},
                            {"hidden", vectors(r.hidden)},
                            {"active", r.active}});
    }
    return {{"kept", s.kept},
            {"token", vectors(s.token)},
            {"position", vectors(s.position)},
            {"embedded", vectors(s.embedded)},
            {"subLayers", sub_layers},
            {"last", vectors(s.last)}};
  }
  static constexpr const char* kSubLayers[] = {"masked", "cross", "feedForward"};

  const Explanation& e_;
  Precision precision_;
};

// Replaces the single `{{name}}` by `part`.
void fill(std::string& page, std::string_view name, std::string_view part) {
  const std::string place = concat("{{", name, "}}");
  const size_t at = page.find(place);
  require(at != std::string::npos, ErrorCode::internal, "explain: the page has no place for ",
          name);
  page.replace(at, place.size(), part);
}

}  // namespace

std::string explain_page(const Explanation& explanation) {
  const StandardRounding rounding;
  const int64_t bytes = numbers_of(explanation) * 5 / 2;
  require(bytes <= kMaxPageBytes, ErrorCode::invalid_argument,
          "explain: the numbers of this sentence and model take ", bytes,
          " bytes, a page may hold ", kMaxPageBytes, ": a shorter sentence is needed");
  Json data = PageWriter(explanation).page();
  // Both texts, while there is room for every bit of them.
  const Explanation* own = explanation.own.get();
  if (own != nullptr && (numbers_of(explanation) + numbers_of(*own)) * 5 <= kMaxExactBytes) {
    data["own"] = PageWriter(*own).page();
  }
  std::string page(page_template());
  fill(page, "architecture", architecture_for_page(explanation.config));
  // The data come last, so that nothing in them is taken for a placeholder.
  fill(page, "style", page_style());
  fill(page, "script", page_script());
  fill(page, "data", script_safe(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return page;
}

}  // namespace tril
