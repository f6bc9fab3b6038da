#include "tril/c/result.h"

#include "tril/c/calls.h"

namespace tril::c {
namespace {

const ResultLine& line_of(const Results& results, int64_t line) {
  require_use(line >= 0 && line < std::ssize(results.lines), "there is no line ", line, " among ",
              results.lines.size());
  return results.lines[static_cast<size_t>(line)];
}

const TextHypothesis& hypothesis_of(const Results& results, int64_t line, int64_t index) {
  const ResultLine& found = line_of(results, line);
  require_use(index >= 0 && index < std::ssize(found.hypotheses), "line ", line, " has no result ",
              index, " among ", found.hypotheses.size());
  return found.hypotheses[static_cast<size_t>(index)];
}

void put_text(const std::string& from, const char** text, int64_t* length) {
  put(text, from.c_str());
  put(length, from.size());
}

}  // namespace

void Results::add(Translation&& translation) {
  ResultLine& line = lines.emplace_back();
  line.skipped = std::move(translation.skipped);
  line.hypotheses = std::move(translation.hypotheses);
  for (const TextHypothesis& hypothesis : line.hypotheses) {
    std::vector<int32_t>& pairs = line.links.emplace_back();
    for (const WordLink& link : hypothesis.links) {
      pairs.push_back(link.source);
      pairs.push_back(link.target);
    }
  }
}

void Results::add(TextScore&& score, std::string_view target) {
  Translation line;
  TextHypothesis& hypothesis = line.hypotheses.emplace_back();
  hypothesis.text = target;
  hypothesis.tokens = std::move(score.tokens);
  hypothesis.pieces = std::move(score.pieces);
  hypothesis.log_probs = std::move(score.log_probs);
  hypothesis.score = score.score;
  hypothesis.ended = score.skipped.empty();
  line.skipped = std::move(score.skipped);
  add(std::move(line));
}

}  // namespace tril::c

using namespace tril;     // NOLINT: the functions of tril/c.h stand outside
using namespace tril::c;  // NOLINT

int tril_result_free(tril_result* result) {
  return call("tril_result_free", result, [&] { take(result); });
}

int tril_result_lines(const tril_result* result, int64_t* lines) {
  put(lines, 0);
  return call("tril_result_lines", result, [&] { put(lines, get(result)->lines.size()); });
}

int tril_result_count(const tril_result* result, int64_t line, int64_t* count) {
  put(count, 0);
  return call("tril_result_count", result,
              [&] { put(count, line_of(*get(result), line).hypotheses.size()); });
}

int tril_result_skipped(const tril_result* result, int64_t line, const char** reason,
                        int64_t* length) {
  put(reason, nullptr);
  put(length, 0);
  return call("tril_result_skipped", result,
              [&] { put_text(line_of(*get(result), line).skipped, reason, length); });
}

int tril_result_text(const tril_result* result, int64_t line, int64_t index, const char** text,
                     int64_t* length) {
  put(text, nullptr);
  put(length, 0);
  return call("tril_result_text", result,
              [&] { put_text(hypothesis_of(*get(result), line, index).text, text, length); });
}

int tril_result_score(const tril_result* result, int64_t line, int64_t index, double* score) {
  put(score, 0);
  return call("tril_result_score", result,
              [&] { put(score, hypothesis_of(*get(result), line, index).score); });
}

int tril_result_ended(const tril_result* result, int64_t line, int64_t index, int* ended) {
  put(ended, 0);
  return call("tril_result_ended", result, [&] {
    const auto results = get(result);
    const TextHypothesis& hypothesis = hypothesis_of(*results, line, index);
    put(ended, hypothesis.ended && !hypothesis.end_forced ? 1 : 0);
  });
}

int tril_result_tokens(const tril_result* result, int64_t line, int64_t index, const int32_t** ids,
                       const float** log_probs, int64_t* count) {
  put(ids, nullptr);
  put(log_probs, nullptr);
  put(count, 0);
  return call("tril_result_tokens", result, [&] {
    const auto results = get(result);
    const TextHypothesis& hypothesis = hypothesis_of(*results, line, index);
    put(ids, hypothesis.tokens.data());
    put(log_probs, hypothesis.log_probs.empty() ? nullptr : hypothesis.log_probs.data());
    put(count, hypothesis.tokens.size());
  });
}

int tril_result_piece(const tril_result* result, int64_t line, int64_t index, int64_t token,
                      const char** piece, int64_t* length) {
  put(piece, nullptr);
  put(length, 0);
  return call("tril_result_piece", result, [&] {
    const auto results = get(result);
    const std::vector<std::string>& pieces = hypothesis_of(*results, line, index).pieces;
    require_use(token >= 0 && token < std::ssize(pieces), "there is no token ", token, " among ",
                pieces.size());
    put_text(pieces[static_cast<size_t>(token)], piece, length);
  });
}

int tril_result_alignment(const tril_result* result, int64_t line, int64_t index,
                          const double** weights, int64_t* target_tokens, int64_t* source_tokens) {
  put(weights, nullptr);
  put(target_tokens, 0);
  put(source_tokens, 0);
  return call("tril_result_alignment", result, [&] {
    const auto results = get(result);
    const Alignment& alignment = hypothesis_of(*results, line, index).alignment;
    put(weights, alignment.weights.empty() ? nullptr : alignment.weights.data());
    put(target_tokens, alignment.target);
    put(source_tokens, alignment.source);
  });
}

int tril_result_links(const tril_result* result, int64_t line, int64_t index, const int32_t** pairs,
                      int64_t* count) {
  put(pairs, nullptr);
  put(count, 0);
  return call("tril_result_links", result, [&] {
    const auto results = get(result);
    hypothesis_of(*results, line, index);  // raises where there is none
    const std::vector<std::vector<int32_t>>& links = line_of(*results, line).links;
    const std::vector<int32_t>& found = links[static_cast<size_t>(index)];
    put(pairs, found.empty() ? nullptr : found.data());
    put(count, found.size() / 2);
  });
}
