#include "decoding.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "lines.h"

namespace tril::app {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += fmt::format("{}{}", text.empty() ? "" : " ", id);
  return text;
}

Json json_of(const TextHypothesis& h, const DecodingFlags& flags) {
  Json object = {{"text", h.text},          {"ids", h.tokens}, {"pieces", h.pieces},
                 {"score", h.score},        {"rank", h.rank},  {"ended", h.ended},
                 {"log_probs", h.log_probs}};
  if (flags.options.alignments) object["alignment"] = to_pharaoh(h.links);
  return object;
}

std::string json_line(const Translation& translation, const DecodingFlags& flags) {
  Json object = {{"line", translation.number + 1}};
  object.update(json_of(translation.hypotheses.front(), flags));
  if (!translation.skipped.empty()) object["skipped"] = translation.skipped;
  if (flags.options.search.n_best > 1) {
    for (const TextHypothesis& h : translation.hypotheses) {
      object["n_best"].push_back(json_of(h, flags));
    }
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Columns with tabs between them: the line's number where it has several, score, text, alignment.
std::string text_lines(const Translation& translation, const DecodingFlags& flags) {
  std::string lines;
  for (const TextHypothesis& h : translation.hypotheses) {
    if (flags.options.search.n_best > 1) lines += fmt::format("{}\t", translation.number + 1);
    if (flags.scores) lines += fmt::format("{}\t", h.score);
    lines += flags.ids ? joined(h.tokens) : h.text;
    if (flags.options.alignments) lines += "\t" + to_pharaoh(h.links);
    lines += "\n";
  }
  return lines;
}

// Lines, each with its prefix where there is a file of them.
class Input {
 public:
  explicit Input(const DecodingFlags& flags) : lines_(flags.input) {
    require(flags.input != "-" || flags.prefix != "-", ErrorCode::invalid_argument,
            "--input and --prefix cannot both be stdin");
    if (!flags.prefix.empty()) prefixes_ = std::make_unique<LineReader>(flags.prefix);
    if (lines_.is_terminal()) {
      fmt::print(stderr, "type a line and press Enter; Ctrl-D ends\n");
    }
  }

  std::optional<TextRequest> next(Wait wait) {
    std::optional<std::string> line = lines_.next(wait);
    if (!line) return std::nullopt;
    TextRequest request{std::move(*line)};
    if (prefixes_ != nullptr) {
      std::optional<std::string> prefix = prefixes_->next();
      require(prefix.has_value(), ErrorCode::invalid_argument, prefixes_->name(), " ends after ",
              prefixes_->lines(), " lines, ", lines_.name(), " has more");
      request.prefix = std::move(*prefix);
    }
    return request;
  }

  // Once all lines were read.
  void check_end() {
    require(prefixes_ == nullptr || !prefixes_->next(), ErrorCode::invalid_argument, lines_.name(),
            " ends after ", lines_.lines(), " lines, the prefixes have more");
  }

 private:
  LineReader lines_;
  std::unique_ptr<LineReader> prefixes_;
};

}  // namespace

void add_decoding_flags(CLI::App& command, DecodingFlags& flags, int64_t beam) {
  SearchRule& search = flags.options.search;
  search.beam = beam;
  command.add_option("model", flags.model, "A model folder")->required();
  command.add_option("--input", flags.input, "A file of lines, or - for stdin")
      ->capture_default_str();
  CLI::Option* beam_flag =
      command.add_option("--beam", search.beam, "Hypotheses kept at each step; 1 is greedy")
          ->check(CLI::Range(1, 1024))
          ->capture_default_str();
  command.add_option("--length-penalty", search.length_penalty, "Rank by score / length^this")
      ->capture_default_str();
  command.add_option("--n-best", search.n_best, "Results a line, each on a line of its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--max-tokens", search.max_tokens, "Tokens of a result at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  CLI::Option* sample = command.add_flag("--sample", search.sample, "Draw tokens at random");
  sample->excludes(beam_flag);
  command.add_option("--top-k", search.top_k, "Draw among the k likeliest tokens; 0: all")
      ->needs(sample)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  command.add_option("--top-p", search.top_p, "Draw among the likeliest that add up to this")
      ->needs(sample)
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--temperature", search.temperature, "Below 1 sharper, above 1 flatter")
      ->needs(sample);
  command.add_option("--seed", search.seed, "Of the draws: the same seed, the same output")
      ->needs(sample);
  command.add_flag("--scores", flags.scores, "Print the log-probability before each result");
  command.add_flag("--ids", flags.ids, "Print token ids instead of text");
  command.add_flag("--json", flags.json,
                   "Print a JSON object a line: text, ids, pieces, score, log_probs, ...");
  command.add_flag("--skip-bad-lines", flags.skip,
                   "Answer a line that is too long or not UTF-8 with an empty one, and say so, "
                   "instead of ending there");
  command.add_option("--threads", flags.threads, "Threads to use; 0 takes every core")
      ->check(CLI::Range(0, 1024));
  command.add_option("--batch", flags.batch, "Hypotheses decoded at a time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
}

void decode_lines(const Translator& translator, const DecodingFlags& flags) {
  TranslateOptions options = flags.options;
  if (options.search.sample) options.search.beam = 1;
  options.slots =
      std::max(flags.batch, options.search.sample ? options.search.n_best : options.search.beam);
  options.bad_lines = flags.skip ? BadLine::skip : BadLine::error;
  Input input(flags);
  LineWriter output;
  int64_t under_way = 0;
  bool closed = false;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        // Only when there is nothing else to do: what was typed is translated at once.
        std::optional<TextRequest> request = input.next(under_way == 0 ? Wait::yes : Wait::no);
        under_way += request ? 1 : 0;
        return request;
      },
      [&](Translation&& translation) {
        --under_way;
        if (!translation.skipped.empty()) {
          fmt::print(stderr, "tril: line {} skipped: {}\n", translation.number + 1,
                     translation.skipped);
        }
        closed = !output.write(flags.json ? json_line(translation, flags)
                                          : text_lines(translation, flags));
        return !closed;
      },
      options);
  if (!closed) input.check_end();
}

}  // namespace tril::app
