#include "tril/translate/doubt.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/language_scripts.h"
#include "tril/text/languages.h"
#include "tril/text/unicode.h"
#include "tril/text/utf8.h"
#include "tril/translate/state.h"

namespace tril {
namespace {

// A line with less than this is never doubted: names and single words are at home everywhere.
constexpr int64_t kFewestWords = 2;
constexpr int64_t kFewestLetters = 6;
// Every language borrows names and terms in Latin letters: a line is doubted for those only if it
// has so many words in small ones, and none of its own.
constexpr int64_t kFewestLatinWords = 4;
// Where words are not told apart by blanks, so many letters count as one.
constexpr int64_t kLettersOfWord = 4;

// Words, and their letters.
struct WordCount {
  int64_t words = 0, letters = 0;
  bool is_enough() const { return words >= kFewestWords && letters >= kFewestLetters; }
};

struct LineCounts {
  std::array<WordCount, static_cast<size_t>(Script::count)> of;  // by script
  WordCount all, unlearnt;
  int64_t small_latin = 0;  // words of small Latin letters alone
};

// A run of characters between white space. Not counted where it is no word of one script: with
// digits, or marks before further letters (tril.h, f(x), a/b), it is code, a file or an address.
struct WordSoFar {
  int64_t letters = 0, unlearnt = 0, small_latin = 0;
  int64_t signs = 0;  // vowel signs and the like
  Script script = Script::none;
  bool marked = false;  // a mark has come after the letters
  bool is_no_word = false;
};

class LineCounter {
 public:
  explicit LineCounter(const PieceLetters& letters) : letters_(letters) {}

  LineCounts count(std::string_view line) {
    for (size_t at = 0; at < line.size();) {
      const size_t bytes = utf8_bytes(line[at]);
      take(character(line.data() + at, bytes));
      at += bytes;
    }
    finish();
    return counts_;
  }

 private:
  static char32_t character(const char* bytes, size_t count) {
    const auto first = static_cast<unsigned char>(*bytes);
    if (count == 1) return first;
    char32_t c = first & (0xFF >> (count + 1));
    for (size_t i = 1; i < count; ++i) c = c << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3F);
    return c;
  }

  void take(char32_t c) {
    const auto [script, learnt, blank] = letters_[c];
    if (script != Script::none) return take_letter(c, script, learnt);
    if (blank) return finish();
    if (c >= 0x80) {
      ++word_.signs;
      return;
    }
    if ('0' <= c && c <= '9') word_.is_no_word = true;
    if (c == '_' || c == '@' || c == '\\' || c == '{') word_.is_no_word = true;
    if (c != '\'' && c != '-' && word_.letters > 0) word_.marked = true;
  }

  void take_letter(char32_t c, Script script, bool learnt) {
    if (word_.letters == 0) word_.script = script;
    const bool together =
        is_written_without_blanks(script) && is_written_without_blanks(word_.script);
    if ((script != word_.script && !together) || word_.marked) word_.is_no_word = true;
    ++word_.letters;
    if (!learnt) ++word_.unlearnt;
    if (script == Script::latin && !is_capital_letter(c)) ++word_.small_latin;
  }

  void finish() {
    const WordSoFar word = std::exchange(word_, {});
    if (word.letters == 0 || word.letters + word.signs < 2 || word.is_no_word) return;
    const int64_t words = is_written_without_blanks(word.script)
                              ? (word.letters + kLettersOfWord - 1) / kLettersOfWord
                              : 1;
    const auto add = [&](WordCount& to) {
      to.words += words;
      to.letters += word.letters;
    };
    add(counts_.all);
    add(counts_.of[static_cast<size_t>(word.script)]);
    if (2 * word.unlearnt > word.letters) add(counts_.unlearnt);
    if (word.small_latin == word.letters) ++counts_.small_latin;
  }

  const PieceLetters& letters_;
  LineCounts counts_;
  WordSoFar word_;
};

// More than three quarters of the words are of a script of which the language is not written.
std::string doubt_of_script(const LineCounts& counts, std::string_view language,
                            const std::vector<Script>& scripts) {
  if (scripts.empty()) return "";
  WordCount own;
  for (const Script script : scripts) {
    own.words += counts.of[static_cast<size_t>(script)].words;
    own.letters += counts.of[static_cast<size_t>(script)].letters;
  }
  const WordCount foreign{counts.all.words - own.words, counts.all.letters - own.letters};
  if (!foreign.is_enough() || 4 * foreign.words <= 3 * counts.all.words) return "";
  Script most = Script::none;  // of the foreign ones
  for (size_t i = 0; i < counts.of.size(); ++i) {
    const auto script = static_cast<Script>(i);
    if (std::find(scripts.begin(), scripts.end(), script) != scripts.end()) continue;
    if (counts.of[i].letters > counts.of[static_cast<size_t>(most)].letters) most = script;
  }
  const bool is_borrowed = own.words > 0 || counts.small_latin < kFewestLatinWords;
  if (most == Script::latin && is_borrowed) return "";
  const std::string_view name = most == Script::other ? "other" : script_name(most);
  return concat("most of its letters are ", name, ", the model reads ", language_name(language));
}

// Whether tokenizing agrees that the line falls apart: a tokenizer may rewrite letters first.
bool falls_apart(const Tokenizer& tokenizer, std::string_view line, const LineCounts& counts) {
  const std::vector<int32_t> ids = tokenizer.encode(line);
  const auto unknown = tokenizer.unknown();
  const int64_t unknowns = unknown ? std::count(ids.begin(), ids.end(), *unknown) : 0;
  return 2 * unknowns > counts.all.words ||
         static_cast<int64_t>(ids.size()) * 5 >= counts.unlearnt.letters * 4;
}

std::string doubt_of_pieces(const LineCounts& counts, const Tokenizer& tokenizer,
                            std::string_view line) {
  if (!counts.unlearnt.is_enough() || 2 * counts.unlearnt.words <= counts.all.words) return "";
  if (!falls_apart(tokenizer, line, counts)) return "";
  return "most of its words consist of letters that the model's tokenizer never learnt";
}

// Of the language of this thread's last call, which is nearly always that of the next.
const std::vector<Script>& scripts_of(const std::string& language) {
  thread_local std::string last;
  thread_local std::vector<Script> scripts;
  if (last != language) {
    scripts = scripts_of_language(language);
    last = language;
  }
  return scripts;
}

}  // namespace

std::string doubt_about(const Translator& translator, std::string_view line,
                        const LanguagePair& languages) {
  if (first_invalid_utf8(line)) return "";
  TranslatorState& state = *translator.state_;
  std::call_once(state.letters_made,
                 [&] { state.letters = std::make_unique<const PieceLetters>(state.tokenizer); });
  const std::string& usual = state.generation.from_language.empty()
                                 ? state.tokenizer.default_languages().from
                                 : state.generation.from_language;
  const std::string& language = languages.from.empty() ? usual : languages.from;
  const LineCounts counts = LineCounter(*state.letters).count(line);
  std::string doubt = doubt_of_script(counts, language, scripts_of(language));
  return doubt.empty() ? doubt_of_pieces(counts, state.tokenizer, line) : doubt;
}

}  // namespace tril
