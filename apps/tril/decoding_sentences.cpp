// `tril translate --split`: a line may become several units, which the engine decodes like lines;
// the output stays one line for each line.
#include <fmt/core.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "decoding_lines.h"
#include "decoding_output.h"
#include "output.h"
#include "tril/data/lines.h"

namespace tril::app {
namespace {

using Json = nlohmann::ordered_json;

// Lines held at a time: those being translated, and empty ones that wait behind them. With the
// Translator's window, and a reader that limits lines, memory is bounded.
constexpr size_t kMostLines = 1024;

struct LineInParts {
  int64_t number = 0;  // from 1
  TextPlan plan;
  std::string fault;  // of the reader
  std::vector<std::string> translations;
  std::string sentences;  // as JSON
  std::string skipped;    // why; empty: it was not
  bool ended = true;

  bool is_done() const { return translations.size() == plan.parts.size(); }
};

class SentenceDecoding {
 public:
  SentenceDecoding(const Translator& translator, const DecodingFlags& flags,
                   const TranslateOptions& options)
      : translator_(translator),
        flags_(flags),
        options_(options),
        output_(flags),
        input_(flags),
        doubts_(translator, options.languages) {
    // A unit's number is not its line's: bad lines are named here.
    options_.bad_lines = BadLine::skip;
    // A unit's samples are drawn by its number.
    const bool samples = translator.search_options(options).sample;
    if (samples && input_.first_number() > 0) options_.first_number = units_before();
  }

  void run() {
    translator_.translate([&] { return next(); },
                          [&](Translation&& translation) { return take(std::move(translation)); },
                          options_);
    if (closed_) return output_.raise_stopped();
    require(error_.empty(), ErrorCode::invalid_argument, error_);
    doubts_.tell_rest();
    input_.check_end();
    output_.commit(translator_, input_, bad_);
    bad_.raise();
  }

 private:
  TextPlan plan_of(const TextRequest& request) const {
    if (request.fault.empty()) {
      return plan_text(translator_, request.line, options_.languages, *flags_.split);
    }
    TextPlan plan;
    plan.parts.push_back({});  // to be refused in its turn
    return plan;
  }

  // How many units the lines before a shard have.
  int64_t units_before() const {
    require(flags_.shard.has_value(), ErrorCode::invalid_argument,
            "--first-line does not go with --split where samples are drawn, because these depend "
            "on the number of sentences before: use --shard");
    LineReader lines = open_lines(flags_.input);
    TextRequest request;
    int64_t units = 0;
    while (lines.number() < input_.first_number() && lines.next(request.line)) {
      request.fault = fault_of(lines, "the line");
      units += std::ssize(plan_of(request).parts);
    }
    return units;
  }

  std::optional<TextRequest> next() {
    while (submitted_ == (lines_.empty() ? 0 : lines_.back().plan.parts.size())) {
      if (closed_ || lines_.size() >= kMostLines || !read_line()) return std::nullopt;
    }
    LineInParts& line = lines_.back();
    std::string& source = line.plan.parts[submitted_++].source;
    // Only JSON needs it again.
    return TextRequest{flags_.json ? source : std::move(source), {}, line.fault};
  }

  // Waits for input only when nothing else is to be done.
  bool read_line() {
    using Wait = LineReader::Wait;
    const auto request = input_.next(lines_.empty() ? Wait::yes : Wait::no);
    if (!request) return false;
    LineInParts line;
    line.number = input_.first_number() + input_.taken();
    line.fault = request->fault;
    line.plan = plan_of(*request);
    if (line.fault.empty()) doubts_.look_at(line.number, request->line);
    lines_.push_back(std::move(line));
    submitted_ = 0;
    write_done();
    return true;
  }

  // Units are answered in order, so this one is of the first line.
  bool take(Translation&& translation) {
    LineInParts& line = lines_.front();
    const size_t unit = line.translations.size();
    const TextHypothesis& best = translation.hypotheses.front();
    if (line.skipped.empty()) line.skipped = translation.skipped;
    if (is_cut(best)) tell_cut(line, unit, best.tokens.size());
    line.ended = line.ended && !is_cut(best);
    if (flags_.json) {
      line.sentences += line.sentences.empty() ? "" : ",";
      line.sentences += json_text(best, flags_, &line.plan.parts[unit].source);
    }
    line.translations.push_back(best.text);
    return write_done();
  }

  static void tell_cut(const LineInParts& line, size_t unit, size_t tokens) {
    const std::string which =
        line.plan.parts.size() == 1 ? "" : fmt::format(", sentence {}", unit + 1);
    message(fmt::format("tril: line {}{} cut after {} tokens\n", line.number, which, tokens));
  }

  // False if nothing more is to be written.
  bool write_done() {
    for (; !lines_.empty() && lines_.front().is_done() && !closed_; lines_.pop_front()) {
      const LineInParts& line = lines_.front();
      if (!line.skipped.empty()) {
        if (flags_.strict) {
          error_ = concat("translate: line ", line.number, ": ", line.skipped);
          closed_ = false;
          return false;
        }
        bad_.tell(line.number, line.skipped);
      }
      closed_ = !output_.write(flags_.json ? json_line(line) : text_line(line));
      if (lines_.size() == 1) submitted_ = 0;
    }
    return !closed_;
  }

  static std::string text_line(const LineInParts& line) {
    return (line.skipped.empty() ? line.plan.join(line.translations) : "") + "\n";
  }

  static std::string json_line(const LineInParts& line) {
    const std::string text = line.skipped.empty() ? line.plan.join(line.translations) : "";
    const Json first = {{"line", line.number}, {"text", text}, {"ended", line.ended}};
    std::string object = first.dump(-1, ' ', false, Json::error_handler_t::replace);
    object.pop_back();
    object += ",\"sentences\":[" + (line.skipped.empty() ? line.sentences : "") + "]";
    if (!line.skipped.empty()) {
      object +=
          ",\"skipped\":" + Json(line.skipped).dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return object + "}\n";
  }

  const Translator& translator_;
  const DecodingFlags& flags_;
  TranslateOptions options_;
  DecodingOutput output_;
  DecodingInput input_;
  DoubtNotice doubts_;
  BadLineCount bad_;
  std::deque<LineInParts> lines_;  // in order; only of the last may units be left to submit
  size_t submitted_ = 0;           // units of the last line
  bool closed_ = false;
  std::string error_;  // of a bad line that is to end the run
};

// What makes no sense for a line of several sentences.
void check_flags(const DecodingFlags& flags) {
  const char* flag = flags.options.search.n_best.value_or(1) > 1 ? "--n-best"
                     : flags.scores                              ? "--scores"
                     : flags.ids                                 ? "--ids"
                     : flags.options.alignments                  ? "--alignments"
                     : !flags.prefix.empty()                     ? "--prefix"
                                                                 : nullptr;
  require(flag == nullptr, ErrorCode::invalid_argument, flag == nullptr ? "" : flag,
          " is about whole lines, --split cuts them into sentences: use one of the two");
}

}  // namespace

void decode_sentences(const Translator& translator, const DecodingFlags& flags,
                      const TranslateOptions& options) {
  check_flags(flags);
  SentenceDecoding(translator, flags, options).run();
}

}  // namespace tril::app
