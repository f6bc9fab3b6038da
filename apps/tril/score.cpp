#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "decoding.h"
#include "flags.h"
#include "lines.h"
#include "loading.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

struct ScoreFlags {
  std::string model, source, target, prefix;
  LanguagePair languages;
  int threads = 0;
  std::optional<Device> device;
  std::optional<Compute> compute;
  bool ids = false, json = false, strict = false, trust = false, shortlist = false;
};

std::string line_of(const TextScore& score, const ScoreFlags& flags) {
  if (!flags.json) return score.skipped.empty() ? fmt::format("{}\n", score.score) : "\n";
  nlohmann::ordered_json object = {{"line", score.number + 1},
                                   {"score", score.score},
                                   {"ids", score.tokens},
                                   {"pieces", score.pieces},
                                   {"log_probs", score.log_probs}};
  if (!score.skipped.empty()) {
    object["score"] = nullptr;  // 0 would mean certainty
    object["skipped"] = score.skipped;
  }
  return object.dump() + "\n";
}

// Pairs of lines.
class Pairs {
 public:
  explicit Pairs(const ScoreFlags& flags) : flags_(flags), target_(open_lines(flags.target)) {
    if (!flags.source.empty()) source_.emplace(open_lines(flags.source));
    if (!flags.prefix.empty()) prefix_.emplace(open_lines(flags.prefix));
  }

  std::optional<ScoreTextRequest> next() {
    return error_.hold([&] { return read(); });
  }
  // Called when the lines before are scored: raises what is wrong with a file.
  void raise() const { error_.raise(); }

 private:
  std::optional<ScoreTextRequest> read() {
    ScoreTextRequest request;
    std::string target;
    const bool has_target = target_.next(target);
    if (source_) {
      const bool has_source = source_->next(request.source);
      const LineReader& shorter = has_source ? target_ : *source_;
      const LineReader& longer = has_source ? *source_ : target_;
      require(has_source == has_target, ErrorCode::invalid_argument, shorter.path(), " ends after ",
              shorter.number(), " lines, ", longer.path(), " has more");
      request.fault = fault_of(*source_, "the source");
    }
    if (!has_target) return std::nullopt;
    if (prefix_) {
      require(prefix_->next(request.prefix), ErrorCode::invalid_argument, prefix_->path(),
              " ends after ", prefix_->number(), " lines, ", target_.path(), " has more");
      if (request.fault.empty()) request.fault = fault_of(*prefix_, "the prefix");
    }
    if (request.fault.empty()) request.fault = fault_of(target_, "the target");
    if (!flags_.ids) {
      request.target = std::move(target);
    } else if (request.fault.empty()) {
      request.target_tokens = parse_token_ids(target);
      if (!request.target_tokens) {
        request.fault = "the target is not a list of token ids with blanks between";
      }
    }
    return request;
  }

  const ScoreFlags& flags_;
  std::optional<LineReader> source_, prefix_;
  LineReader target_;
  LateError error_;
};

void run(const ScoreFlags& flags) {
  const Translator translator =
      load_translator(flags.model, flags.threads, device_with(flags.shortlist, flags.device),
                      flags.compute, flags.trust);
  const bool decoder_only = translator.model().config().decoder_only();
  require(decoder_only || !flags.source.empty(), ErrorCode::invalid_argument, flags.model,
          " has an encoder: --source is needed");
  require(!decoder_only || flags.source.empty(), ErrorCode::invalid_argument, flags.model,
          " is a decoder-only model: it has no --source");
  const int stdins =
      (flags.source == "-" ? 1 : 0) + (flags.target == "-" ? 1 : 0) + (flags.prefix == "-" ? 1 : 0);
  require(stdins <= 1, ErrorCode::invalid_argument,
          "only one of --source, --target and --prefix can be stdin");
  ScoreTextOptions options{.bad_lines = flags.strict ? BadLine::error : BadLine::skip,
                           .languages = flags.languages};
  if (flags.shortlist) options.shortlist = Shortlist::load(flags.model);
  Pairs pairs(flags);
  LineWriter output;
  BadLineCount bad;
  bool closed = false;
  translator.score([&] { return pairs.next(); },
                   [&](TextScore&& score) {
                     if (!score.skipped.empty()) bad.tell(score.number + 1, score.skipped);
                     closed = !output.write(line_of(score, flags));
                     return !closed;
                   },
                   options);
  if (closed) return;
  pairs.raise();
  bad.raise();
}

}  // namespace

void add_score(CLI::App& app) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App* score = app.add_subcommand("score", "Print the log-probability of given translations");
  score->add_option("model", flags->model, "A model folder")->type_name(kFolder)->required();
  score
      ->add_option("--source", flags->source,
                   "A file of lines, or - for stdin; none for a decoder-only model")
      ->type_name(kFile);
  score->add_option("--target", flags->target, "Their translations, or - for stdin")
      ->type_name(kFile)
      ->required();
  score->add_flag(
      "--ids", flags->ids,
      "Targets are token ids as 'tril translate --ids' prints them, scored as they are");
  score->add_flag("--json", flags->json,
                  "Print one JSON object per line: score, ids, pieces, log_probs");
  add_strict_flag(*score, flags->strict);
  score->add_flag("--shortlist", flags->shortlist,
                  "Score with the pieces that 'tril shortlist' listed for each line");
  score
      ->add_option("--prefix", flags->prefix,
                   "What 'tril translate --shortlist' had each translation begin with")
      ->type_name(kFile)
      ->needs("--shortlist");
  add_language_flags(*score, flags->languages);
  add_compute_flag(*score, flags->compute);
  add_trust_flag(*score, flags->trust);
  add_device_flag(*score, flags->device);
  score->add_option("--threads", flags->threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  score->footer(
      "Example:\n"
      "  tril score my-model --source text.en --target text.hi\n\n"
      "A score is the sum of the tokens' natural log-probabilities, END included. Token ids "
      "printed "
      "by 'tril translate --ids' get exactly the score that was printed with them, also when both "
      "use "
      "--shortlist. A piece outside its line's shortlist has probability 0: the score is -inf "
      "(null "
      "in JSON).");
  score->callback([flags] { run(*flags); });
}

}  // namespace tril::app
