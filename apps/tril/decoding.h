// Shared by `tril translate` and `tril generate`: their flags, and decoding from lines to lines.
#pragma once

#include <optional>
#include <string>

#include "shard.h"
#include "tril/tril.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tril::app {

struct DecodingFlags {
  std::string model;
  std::string input = "-";
  std::string prefix;  // a file; empty: none
  std::string output;  // a file; empty: stdout
  std::optional<Shard> shard;
  bool overwrite = false;             // what is there instead of a shard's output
  std::optional<int64_t> first_line;  // the number of the first line read, from 1
  std::string given;                  // the options that were given and decide on the output
  int threads = 0;
  std::optional<Compute> compute;
  std::optional<Device> device;
  int64_t batch = 64;
  int64_t beam = 5;            // where neither the user nor the model names one
  std::string split_word;      // as it was given; empty: it was not
  std::optional<Split> split;  // lines into sentences
  TranslateOptions options;
  bool scores = false, json = false, ids = false, strict = false, trust = false, shortlist = false;
};

// What the program searches with where neither the user nor the model says so.
struct SearchDefaults {
  int64_t beam = 5;
  int64_t most_beam = 1024;
};
// The search flags, for every command that searches; returns --beam.
CLI::Option* add_search_flags(CLI::App& command, SearchSettings& search,
                              const SearchDefaults& defaults = {});
// --forbid and --force-end, which need TranslateOptions.
void add_token_flags(CLI::App& command, TranslateOptions& options);
// The flag that limits a translation's length relative to its source.
void add_ratio_flag(CLI::App& command, SearchSettings& search);
// --from-language and --to-language, for every command that reads text for a model.
void add_language_flags(CLI::App& command, LanguagePair& languages);
// What the help of these commands says about where defaults come from.
inline constexpr const char* kDefaultsNote =
    "Search options that are not given are as the model's own settings say ('tril info' shows "
    "them), else as shown here.";
// The flags both commands have. `beam` is the default beam.
void add_decoding_flags(CLI::App& command, DecodingFlags& flags, int64_t beam);
// For DecodingFlags::given: the options that were given to the command, without those that change
// nothing in its output (--threads) and those that name files.
std::string options_given(const CLI::App& command);

// --strict, for every command that answers lines.
void add_strict_flag(CLI::App& command, bool& strict);

// Reports bad lines as they come. One does not end the run, but makes its exit code 1.
class BadLineCount {
 public:
  // Line number `line`, from 1, gets an empty answer.
  void tell(int64_t line, const std::string& why);
  // Raises Failed where there was one.
  void raise() const;
  int64_t lines() const { return lines_; }

 private:
  int64_t lines_ = 0;
};

// Translates every line of the input, or of a shard of it; results go to stdout or to a file, in
// the order of the lines.
void decode_lines(const Translator& translator, const DecodingFlags& flags);

}  // namespace tril::app
