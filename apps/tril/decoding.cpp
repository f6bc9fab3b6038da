#include "decoding.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "commands.h"
#include "flags.h"
#include "output.h"
#include "tril/text/display.h"
#include "tril/text/token_ids.h"

namespace tril::app {
namespace {

constexpr const char* kSearch = "Search";

// A flag whose value is one of an enum's words.
template <class Enum>
CLI::Option* add_choice(CLI::App& command, const char* name, std::optional<Enum>& value,
                        const std::string& help) {
  const std::vector<std::string> words(std::begin(Words<Enum>::kList),
                                       std::end(Words<Enum>::kList));
  std::string type;
  for (const std::string& word : words) type += (type.empty() ? "" : "|") + word;
  return command
      .add_option_function<std::string>(
          name,
          [&value](const std::string& number) { value = static_cast<Enum>(std::stoi(number)); },
          help)
      ->transform(one_of(words))
      ->type_name(type);
}

}  // namespace

CLI::Option* add_search_flags(CLI::App& command, SearchSettings& search,
                              const SearchDefaults& defaults) {
  CLI::Option* beam =
      command.add_option("--beam", search.beam, "Hypotheses kept at each step; 1 is greedy")
          ->transform(whole_number(1, defaults.most_beam))
          ->default_str(concat(defaults.beam))
          ->group(kSearch);
  command
      .add_option("--length-penalty", search.length_penalty,
                  "Rank hypotheses by score ÷ length^this")
      ->default_str("0.6")
      ->group(kSearch);
  add_choice(command, "--early-stopping", search.early_stopping,
             "When a beam is done: yes, as soon as it has as many finished hypotheses as it is "
             "wide; no, when none that goes on is likely to rank higher; never, when none could")
      ->default_str("yes")
      ->group(kSearch);
  command
      .add_option("--max-tokens", search.max_tokens,
                  "At most this many new tokens; 0: as many as the model can write. A "
                  "small number cuts sentences short, and what is left may mean something else; a "
                  "beam then also prefers other, shorter sentences")
      ->transform(whole_number(0, 1 << 30))
      ->default_str("0")
      ->group(kSearch);
  command
      .add_option("--min-tokens", search.min_tokens, "Minimum length: a result does not end before")
      ->transform(whole_number(0, 1 << 20))
      ->default_str("0")
      ->group(kSearch);
  add_choice(command, "--cut", search.cut,
             "Where results that were cut at the maximum length come: last, after all that ended; "
             "or ranked among them")
      ->default_str("last")
      ->group(kSearch);
  command
      .add_option("--no-repeat-ngram", search.no_repeat_ngram,
                  "No sequence of this many tokens occurs twice in a result; 0: any may")
      ->transform(whole_number(0, 1 << 20))
      ->default_str("0")
      ->group(kSearch);
  command
      .add_option("--repetition-penalty", search.repetition_penalty,
                  "Above 1: tokens that occurred before are less likely to come again, e.g. 1.2")
      ->check(CLI::Range(1e-9, 1e9))
      ->type_name("FLOAT")
      ->default_str("1")
      ->group(kSearch);
  command
      .add_option_function<std::string>(
          "--renormalize",
          [&search](const std::string& word) { search.renormalize = word == "yes"; },
          "Whether the probabilities of the tokens that a beam may choose from are scaled to add "
          "up to 1 again")
      ->check(among({"yes", "no"}))
      ->type_name("yes|no")
      ->default_str("no")
      ->group(kSearch);
  return beam;
}

void add_token_flags(CLI::App& command, TranslateOptions& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "--forbid",
          [&options](const std::vector<std::string>& lists) {
            for (const std::string& list : lists) {
              const auto ids = parse_token_ids(list);
              require(ids && !ids->empty(), ErrorCode::invalid_argument, "--forbid '", list,
                      "' is not a list of token ids with blanks between");
              options.forbidden.push_back(*ids);
            }
          },
          "Results never hold these token ids (as --ids prints them) in this order: '17 4' forbids "
          "4 right after 17, '17' alone forbids 17; may be repeated")
      ->allow_extra_args(false)
      ->type_name("IDS")
      ->group(kSearch);
  command
      .add_option_function<std::string>(
          "--force-end", [&options](const std::string& word) { options.force_end = word == "yes"; },
          "Whether to end a result that reaches the maximum length with the token END, instead of "
          "cutting it")
      ->check(among({"yes", "no"}))
      ->type_name("yes|no")
      ->default_str("no")
      ->group(kSearch);
}

void add_ratio_flag(CLI::App& command, SearchSettings& search) {
  command
      .add_option("--max-ratio", search.max_ratio,
                  "Maximum length: ratio × source tokens + 10; 0: no limit")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("FLOAT")
      ->default_str("4")
      ->group(kSearch);
}

void add_language_flags(CLI::App& command, LanguagePair& languages) {
  constexpr const char* kLanguages = "Languages ('tril info MODEL' lists those of a model)";
  command
      .add_option("--from-language", languages.from,
                  "For models of several languages: the code of the language of the input")
      ->type_name("CODE")
      ->group(kLanguages);
  command
      .add_option("--to-language", languages.to,
                  "For models of several languages: the code of the language to write")
      ->type_name("CODE")
      ->group(kLanguages);
}

void add_strict_flag(CLI::App& command, bool& strict) {
  command.add_flag(
      "--strict", strict,
      "Stop with an error at a line that is too long or not UTF-8. Without this, such a "
      "line gives an empty line, stderr names it, and the exit code is 1");
}

void BadLineCount::tell(int64_t line, const std::string& why) {
  ++lines_;
  message(fmt::format("tril: line {} skipped: {}\n", line, escaped(why)));
}

void BadLineCount::raise() const {
  if (lines_ > 0) throw Failed{};
}

void add_decoding_flags(CLI::App& command, DecodingFlags& flags, int64_t beam) {
  SearchSettings& search = flags.options.search;
  flags.beam = beam;
  command.add_option("model", flags.model, "A model folder")->type_name(kFolder)->required();
  command.add_option("--input", flags.input, "A file of lines, plain or gzip, or - for stdin")
      ->type_name(kFile)
      ->capture_default_str();
  command
      .add_option("--output,-o", flags.output,
                  "Write to this file instead of stdout: whole, or not at all")
      ->type_name(kFile);
  command
      .add_option_function<std::string>(
          "--shard",
          [&flags](const std::string& word) {
            std::string problem;
            flags.shard = parse_shard(word, problem);
            require(flags.shard.has_value(), ErrorCode::invalid_argument, "--shard: ", problem);
          },
          "Only part I of N of the lines of the --input, from 1/N to N/N; needs --output. Numbers "
          "of lines are those of the whole file. A shard that is finished is not translated again")
      ->type_name("I/N");
  command.add_flag("--overwrite", flags.overwrite,
                   "With --shard: replace what is there, finished or not");
  command
      .add_option("--first-line", flags.first_line,
                  "The number of the first line, where the input is a part of a text: by these "
                  "numbers samples are drawn and lines are named")
      ->transform(whole_number(1, int64_t{1} << 60));
  CLI::Option* beam_flag = add_search_flags(command, search, {.beam = beam});
  command.add_option("--n-best", search.n_best, "Results per input line, one per output line")
      ->transform(whole_number(1, 1024))
      ->default_str("1")
      ->group(kSearch);
  add_token_flags(command, flags.options);
  constexpr const char* kSampling = "Sampling";
  CLI::Option* sample = command.add_flag_callback(
      "--sample", [&search] { search.sample = true; },
      "Sample tokens instead of searching for the best; --beam turns off sampling that a model's "
      "own settings ask for");
  sample->excludes(beam_flag)->group(kSampling);
  command.add_option("--top-k", search.top_k, "Sample among the k likeliest tokens; 0: all")
      ->transform(whole_number(0, 1 << 30))
      ->default_str("0")
      ->group(kSampling);
  command
      .add_option("--top-p", search.top_p,
                  "Sample among the likeliest tokens whose probabilities add up to this")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("FLOAT")
      ->default_str("1")
      ->group(kSampling);
  command
      .add_option("--temperature", search.temperature,
                  "Sampling temperature: below 1 sharper, above 1 flatter")
      ->default_str("1")
      ->group(kSampling);
  command
      .add_option("--seed", search.seed, "Seed for sampling: the same seed gives the same output")
      ->transform(any_seed())
      ->default_str("1")
      ->group(kSampling);
  command.add_flag("--scores", flags.scores, "Print the log-probability before each result");
  command.add_flag("--ids", flags.ids, "Print token ids instead of text");
  command.add_flag("--json", flags.json,
                   "Print one JSON object per line: text, ids, pieces, score, log_probs, ...");
  add_strict_flag(command, flags.strict);
  add_compute_flag(command, flags.compute);
  add_trust_flag(command, flags.trust);
  add_device_flag(command, flags.device);
  command.add_option("--threads", flags.threads, "Threads to use (default: every core)")
      ->transform(whole_number(0, 1024));
  command
      .add_option("--batch", flags.batch,
                  "Hypotheses decoded at a time; a GPU is fastest with several hundred")
      ->transform(whole_number(1, 65536))
      ->capture_default_str();
}

std::string options_given(const CLI::App& command) {
  // --device is part of the model's fingerprint.
  constexpr std::string_view kElsewhere[] = {"--input",     "--prefix",    "--output", "--shard",
                                             "--overwrite", "--threads",   "--batch",  "--trust",
                                             "--device",    "--first-line"};
  std::string given;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool elsewhere =
        option->get_positional() ||
        std::find(std::begin(kElsewhere), std::end(kElsewhere), name) != std::end(kElsewhere);
    if (option->count() == 0 || elsewhere) continue;
    given += concat(given.empty() ? "" : " ", name);
    for (const std::string& value : option->results()) given += concat("=", value);
  }
  return given;
}

}  // namespace tril::app
