// Options by name and text, for interfaces that are not C++: one table of what each name means,
// which values it takes, and which calls it concerns. The names are those of the program's flags
// and of the server's fields, with underscores: "length_penalty".
//
//   NamedOptions options;
//   set_option(options, "beam", "4");
//   translator.translate(lines, options.translate);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tril/translate/text_plan.h"

namespace tril {

struct NamedOptions {
  // Of loading; absent: the best device, and the form of the weights that suits it.
  std::optional<Device> device{};
  std::optional<Compute> compute{};
  int threads = 0;
  bool trust = false;
  // Of translating and continuing.
  TranslateOptions translate{};
  bool shortlist = false;  // the folder's is to be used
  std::string prefix{};
  Split split = Split::too_long;
  // Of one submitted line.
  int64_t number = 0;
  uint64_t client = 0;
  std::optional<double> timeout{};  // seconds
  // Of tokenizing.
  TextSide side = TextSide::source;
};

// The calls that options concern.
enum class OptionUse : uint8_t {
  load = 1,
  translate = 2,  // lines
  whole_text = 4,
  generate = 8,
  submit = 16,
  score = 32,
  tokenize = 64,
};

// The text that an option is set to; it raises `invalid_argument` where the text is no such value.
class OptionValue {
 public:
  OptionValue(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  int64_t whole(int64_t min, int64_t max) const;
  uint64_t seed() const;
  // Ends included, unless `above`: then only above `min`.
  double number(double min, double max, bool above = false) const;
  bool truth() const;
  template <class Enum>
  Enum word() const {
    return static_cast<Enum>(
        word_index({std::begin(Words<Enum>::kList), std::end(Words<Enum>::kList)}));
  }
  size_t word_index(std::span<const std::string_view> words) const;
  Device device() const;
  // "17; 4 5": lists of token ids.
  std::vector<std::vector<int32_t>> token_lists() const;
  std::string text() const { return std::string(text_); }

 private:
  template <class Number>
  std::optional<Number> read() const;
  [[noreturn]] void fail_expected(std::string_view expected) const;

  std::string_view name_;
  std::string_view text_;
};

struct NamedOption {
  std::string_view name;
  std::string_view help;  // one line: what it does, and its values
  uint8_t uses = 0;       // bits of OptionUse
  void (*set)(NamedOptions& options, const OptionValue& value) = nullptr;

  bool concerns(OptionUse use) const { return (uses & static_cast<uint8_t>(use)) != 0; }
};

// All options, in the order in which people should read about them.
std::span<const NamedOption> named_options();
// Null where there is none of that name.
const NamedOption* find_option(std::string_view name);
// Raises `invalid_argument` for a name that is not known, and for a value that the option does not
// take.
void set_option(NamedOptions& options, std::string_view name, std::string_view value);

// For a translator that is called with options that somebody named: text is continued greedily
// unless they or the model say otherwise, and there are slots for every hypothesis. Raises
// `invalid_argument` for settings of sampling where none is done.
void complete_options(const Translator& translator, TranslateOptions& options);

}  // namespace tril
