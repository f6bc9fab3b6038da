#include "tril/text/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/text/ngrams.h"
#include "tril/text/unicode.h"

namespace tril {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  size_t at = text.find(what);
  if (at == std::string::npos) return;
  std::string result;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(what, done)) {
    result.append(text, done, at - done);
    result += by;
    done = at + what.size();
  }
  result.append(text, done);
  text = std::move(result);
}

// Puts a blank on both sides of each unit (byte or character) for which `is_separate` holds.
template <class Text, class Separate>
Text separate(const Text& text, const Separate& is_separate) {
  Text result;
  result.reserve(text.size() * 2);
  for (const auto unit : text) {
    const bool apart = is_separate(unit);
    if (apart) result.push_back(' ');
    result.push_back(unit);
    if (apart) result.push_back(' ');
  }
  return result;
}

// Which of two neighbours gets blanks on both sides.
enum class Apart { left, right };

// Goes through the text from the left, over pairs of neighbours that do not overlap an earlier
// pair.
template <class Text, class Left, class Right>
Text separate_in_pairs(const Text& text, const Left& is_left, const Right& is_right, Apart apart) {
  Text result;
  result.reserve(text.size() * 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !is_left(text[i]) || !is_right(text[i + 1])) {
      result.push_back(text[i]);
      continue;
    }
    if (apart == Apart::left) result.push_back(' ');
    result.push_back(text[i]);
    result.push_back(' ');
    result.push_back(text[++i]);
    if (apart == Apart::right) result.push_back(' ');
  }
  return result;
}

// Works on bytes: all marks are ASCII, and at most one byte of any other neighbour matters.
std::string separate_13a(std::string_view segment) {
  std::string text(segment);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");  // in this order: "&amp;lt;" ends as "<"
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = concat(' ', text, ' ');

  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_no_digit = [&](char c) { return !is_digit(c); };
  const auto is_point = [](char c) { return c == '.' || c == ','; };
  const auto is_dash = [](char c) { return c == '-'; };
  // All ASCII except letters, digits, control characters and ' , - .
  const auto is_mark = [](char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
           (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
  };
  text = separate(text, is_mark);
  text = separate_in_pairs(text, is_no_digit, is_point, Apart::right);
  text = separate_in_pairs(text, is_point, is_no_digit, Apart::left);
  return separate_in_pairs(text, is_digit, is_dash, Apart::right);
}

std::string separate_intl(std::string_view segment) {
  std::u32string text = decode_utf8(segment);
  const auto is = [](CharacterClass kind) {
    return [kind](char32_t c) { return character_class(c) == kind; };
  };
  const auto is_punctuation = is(CharacterClass::punctuation);
  const auto is_no_number = [](char32_t c) { return character_class(c) != CharacterClass::number; };
  text = separate_in_pairs(text, is_no_number, is_punctuation, Apart::right);
  text = separate_in_pairs(text, is_punctuation, is_no_number, Apart::left);
  return encode_utf8(separate(text, is(CharacterClass::symbol)));
}

// For valid UTF-8. The words of the result are the tokens.
std::string separate_tokens(std::string_view segment, BleuTokenizer tokenizer) {
  // This matters: "5." and "5. " differ for intl, "-" and "-\n" for 13a.
  segment = strip_end(segment);
  switch (tokenizer) {
    case BleuTokenizer::v13a: return separate_13a(segment);
    case BleuTokenizer::intl: return separate_intl(segment);
    case BleuTokenizer::character:
      return encode_utf8(separate(decode_utf8(segment), [](char32_t) { return true; }));
    case BleuTokenizer::none: return std::string(segment);
  }
  fail(ErrorCode::invalid_argument, "bleu: unknown tokenizer ", static_cast<int>(tokenizer));
}

int64_t nearest_length(int64_t length, std::span<const Symbols> references) {
  int64_t nearest = static_cast<int64_t>(references[0].size());
  for (const Symbols& reference : references.subspan(1)) {
    const auto other = static_cast<int64_t>(reference.size());
    const int64_t distance = std::abs(other - length);
    const int64_t shortest = std::abs(nearest - length);
    if (distance < shortest || (distance == shortest && other < nearest)) nearest = other;
  }
  return nearest;
}

std::string_view name(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::v13a: return "13a";
    case BleuTokenizer::intl: return "intl";
    case BleuTokenizer::character: return "char";
    case BleuTokenizer::none: return "none";
  }
  return "unknown";
}

std::string_view name(BleuSmoothing smoothing) {
  switch (smoothing) {
    case BleuSmoothing::exponential: return "exp";
    case BleuSmoothing::floor: return "floor";
    case BleuSmoothing::add_k: return "add-k";
    case BleuSmoothing::none: return "none";
  }
  return "unknown";
}

bool takes_value(BleuSmoothing smoothing) {
  return smoothing == BleuSmoothing::floor || smoothing == BleuSmoothing::add_k;
}

double checked_value(BleuSmoothing smoothing, std::optional<double> value) {
  if (!value.has_value()) {
    return smoothing == BleuSmoothing::floor ? 0.1 : smoothing == BleuSmoothing::add_k ? 1.0 : 0.0;
  }
  require(takes_value(smoothing), ErrorCode::invalid_argument,
          "bleu: expected no value, as smoothing ", name(smoothing), " has none, got ", *value);
  require(std::isfinite(*value) && *value >= 0.0, ErrorCode::invalid_argument,
          "bleu: expected a finite value of smoothing, at least 0, got ", *value);
  return *value;
}

double brevity_penalty(const BleuStatistics& statistics) {
  const auto hypothesis = static_cast<double>(statistics.hypothesis_length);
  const auto reference = static_cast<double>(statistics.reference_length);
  if (hypothesis >= reference) return 1.0;
  return hypothesis > 0.0 ? math::exp(1.0 - reference / hypothesis) : 0.0;
}

// The same operations as in sacreBLEU, so that the precisions have the same bits.
std::array<double, kBleuOrders> smoothed_precisions(const BleuStatistics& statistics,
                                                    BleuSmoothing smoothing, double value) {
  std::array<double, kBleuOrders> precisions{};
  double halvings = 1.0;
  for (size_t i = 0; i < precisions.size(); ++i) {
    const double added = smoothing == BleuSmoothing::add_k && i > 0 ? value : 0.0;
    const double matches = static_cast<double>(statistics.matches[i]) + added;
    const double total = static_cast<double>(statistics.totals[i]) + added;
    if (total == 0.0) break;
    if (matches != 0.0) {
      precisions[i] = 100.0 * matches / total;
    } else if (smoothing == BleuSmoothing::exponential) {
      halvings *= 2.0;
      precisions[i] = 100.0 / (halvings * total);
    } else if (smoothing == BleuSmoothing::floor) {
      precisions[i] = 100.0 * value / total;
    }
  }
  return precisions;
}

double geometric_mean(const std::array<double, kBleuOrders>& precisions) {
  double sum = 0.0;
  for (const double precision : precisions) {
    if (precision == 0.0) return 0.0;
    sum += math::log(precision);
  }
  return math::exp(sum / kBleuOrders);
}

}  // namespace

void BleuStatistics::add(std::string_view hypothesis,
                         std::span<const std::string_view> reference_texts) {
  check_segment("bleu", hypothesis, reference_texts);
  std::vector<std::string> texts{separate_tokens(hypothesis, tokenizer)};
  for (const std::string_view reference : reference_texts) {
    texts.push_back(separate_tokens(reference, tokenizer));
  }
  std::vector<std::vector<std::string_view>> words;
  words.reserve(texts.size());
  for (const std::string& text : texts) words.push_back(split_words(text));
  const std::vector<Symbols> sequences = number_words(words);

  const auto count = static_cast<int64_t>(reference_texts.size());
  BleuStatistics segment{.tokenizer = tokenizer, .segments = 1, .references = {count, count}};
  segment.hypothesis_length = static_cast<int64_t>(sequences[0].size());
  segment.reference_length =
      nearest_length(segment.hypothesis_length, std::span(sequences).subspan(1));
  count_ngrams(sequences, kBleuOrders, [&](int order, std::span<const int64_t> counts) {
    const auto i = static_cast<size_t>(order - 1);
    const int64_t most = *std::max_element(counts.begin() + 1, counts.end());
    segment.totals[i] += counts[0];
    segment.matches[i] += std::min(counts[0], most);
  });
  add(segment);
}

void BleuStatistics::add(std::string_view hypothesis, std::string_view reference) {
  add(hypothesis, std::span(&reference, 1));
}

void BleuStatistics::add(const BleuStatistics& other) {
  require(tokenizer == other.tokenizer, ErrorCode::invalid_argument,
          "bleu: statistics of tokenizer ", name(tokenizer), " cannot take those of ",
          name(other.tokenizer));
  segments += other.segments;
  references.add(other.references);
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  for (size_t i = 0; i < totals.size(); ++i) {
    matches[i] += other.matches[i];
    totals[i] += other.totals[i];
  }
}

BleuScore bleu(const BleuStatistics& statistics, BleuSmoothing smoothing,
               std::optional<double> smoothing_value) {
  require(statistics.segments > 0, ErrorCode::invalid_argument,
          "bleu: expected at least one segment, got none");
  const double value = checked_value(smoothing, smoothing_value);
  BleuScore result{.statistics = statistics, .smoothing = smoothing, .smoothing_value = value};
  result.brevity_penalty = brevity_penalty(statistics);
  const auto& matches = statistics.matches;
  if (std::all_of(matches.begin(), matches.end(), [](int64_t n) { return n == 0; })) return result;
  result.precisions = smoothed_precisions(statistics, smoothing, value);
  result.score = result.brevity_penalty * geometric_mean(result.precisions);
  return result;
}

std::string bleu_tokens(std::string_view segment, BleuTokenizer tokenizer) {
  check_utf8("bleu_tokens", "the segment", segment);
  const std::string text = separate_tokens(segment, tokenizer);
  std::string tokens;
  for (const std::string_view token : split_words(text)) {
    if (!tokens.empty()) tokens += ' ';
    tokens += token;
  }
  return tokens;
}

std::string signature(const BleuScore& score) {
  std::string smoothing(name(score.smoothing));
  if (takes_value(score.smoothing)) smoothing += concat('[', fixed(score.smoothing_value, 2), ']');
  return concat("nrefs:", score.statistics.references,
                "|case:mixed|eff:no|tok:", name(score.statistics.tokenizer), "|smooth:", smoothing,
                "|version:", score_version());
}

std::string to_string(const BleuScore& score) {
  const int64_t length = score.statistics.hypothesis_length;
  const int64_t reference_length = score.statistics.reference_length;
  const double ratio = reference_length == 0
                           ? 0.0
                           : static_cast<double>(length) / static_cast<double>(reference_length);
  std::string precisions;
  for (const double precision : score.precisions) {
    if (!precisions.empty()) precisions += '/';
    precisions += fixed(precision, 1);
  }
  return concat("BLEU|", signature(score), " = ", fixed(score.score, 2), ' ', precisions,
                " (BP = ", fixed(score.brevity_penalty, 3), " ratio = ", fixed(ratio, 3),
                " hyp_len = ", length, " ref_len = ", reference_length, ")");
}

}  // namespace tril
