// Whole texts: what of a text is translated as one unit, and how the translations become a text
// again.
//
//   const TextPlan plan = plan_text(translator, text, {.from = "en", .to = "hi"}, Split::too_long);
//   for (const TextPart& part : plan.parts) ... translate part.source ...
//   std::string hindi = plan.join(translations);
//
// A text is lines, which end with LF, CR LF or CR; these are copied, so a text keeps its lines
// exactly, whatever is translated in between. (Other separators, such as U+2028, are part of the
// line.) White space at both ends of a line is copied, too, and so is that between the units of a
// line that is cut. Lines without anything else have no unit.
//
// A line that is passed whole has the translation that `tril translate` prints for it without that
// white space. Split::never is for those who want the very same: it hands on the white space, too.
//
// Between two units of a line that was cut, blanks follow the target language: into Chinese and
// Japanese, which have none between sentences, ordinary blanks are left out; into any other
// language a blank is added where the source has none. Where the target language is not known, one
// is added unless the translation before ends in such a script. Nothing is added within a word that
// had to be cut.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function.h"
#include "tril/base/words.h"
#include "tril/translate/translator.h"

namespace tril {

// Which lines are cut into sentences (text/sentences.h).
//   never:    none, and all are given to the model with the white space at their ends.
//   too_long: those with more tokens than the model takes. A sentence that still has too many is
//             cut at its last clause mark that fits, if that is not in the first half of what fits,
//             else at its last blank, else between two characters.
//   always:   all. A line of one sentence is passed whole.
// Every sentence is one unit, also where several would fit.
enum class Split : uint8_t { never, too_long, always };

template <>
struct Words<Split> {
  static constexpr std::string_view kList[] = {"never", "long", "always"};
};

// One unit: what stands before its translation, and what is translated.
struct TextPart {
  std::string gap;
  std::string source;
  int64_t line = 0;  // of the text, from 0
  // Whether join() adds a blank to the gap unless the text before ends in Chinese or Japanese.
  bool maybe_blank = false;
};

struct TextPlan {
  std::vector<TextPart> parts;  // in order: part i is unit number i
  std::string end;              // what stands after the last

  // The translated text. `translations` belong to the first parts; with fewer than there are parts
  // it is the text so far, which ends with the last of them and is the beginning of what more of
  // them give. Line breaks within a translation become blanks, so that the text has exactly the
  // lines of its source. Raises `invalid_argument` for more translations than parts.
  std::string join(std::span<const std::string> translations) const;
  // Adds what join() adds for one part to a text that join() gave for all parts before it.
  void append(std::string& text, size_t part, std::string_view translation) const;
};

// Bounds on the work of plan_text().
struct PlanBounds {
  // It stops at more units than this: the plan then has one more, and is not of the whole text.
  int64_t max_parts = std::numeric_limits<int64_t>::max();
  // Called before each piece of the text is tokenized, a line at most; what it raises is raised.
  Function<void()> check{};
};

// Lengths are counted as the Translator counts them, with the tokens it adds. `languages` as in
// TranslateOptions. A line that is not UTF-8 is passed whole, for the Translator to refuse; so is a
// single character that does not fit. Raises `invalid_argument` for a language that the model does
// not have, and `unsupported` for cutting the text of a decoder-only model, which is to be
// continued.
TextPlan plan_text(const Translator& translator, std::string_view text,
                   const LanguagePair& languages = {}, Split split = Split::too_long,
                   const PlanBounds& bounds = {});

// Whole text in, whole text out: the best translation of each unit. Raises `invalid_argument` for a
// unit that cannot be used, naming the line; with BadLine::skip it is translated into nothing.
std::string translate_text(const Translator& translator, std::string_view text,
                           const TranslateOptions& options = {}, Split split = Split::too_long);

}  // namespace tril
