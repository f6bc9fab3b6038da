#include "tril/translate/text_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/languages.h"
#include "tril/text/letters.h"
#include "tril/text/sentences.h"
#include "tril/text/unicode.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// What a cut within a line leaves between two units.
enum class Blanks : uint8_t {
  source,   // the target language is not known
  between,  // it has blanks between sentences
  none,     // it has none
};

Blanks blanks_of(const std::string& target) {
  if (base_language(target).empty()) return Blanks::source;
  return joins_sentences(target) ? Blanks::none : Blanks::between;
}

// Ordinary ones, and that of Chinese and Japanese.
bool are_blanks(std::string_view gap) {
  const std::u32string characters = decode_utf8(gap);
  return std::all_of(characters.begin(), characters.end(),
                     [](char32_t c) { return c == ' ' || c == 0xA0 || c == 0x3000; });
}

bool ends_in_joined_script(std::string_view text) {
  if (text.empty()) return false;
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  const std::string_view last = text.substr(at);
  if (first_invalid_utf8(last)) return false;
  const char32_t c = decode_utf8(last).front();
  const Script script = script_of_letter(c);
  const bool is_mark = (0x3000 <= c && c < 0x3040) || (0xFF00 <= c && c < 0xFFF0);
  return script == Script::han || script == Script::kana || is_mark;
}

class TextPlanner {
 public:
  TextPlanner(const Translator& translator, const LanguagePair& named, Split split,
              const PlanBounds& bounds)
      : tokenizer_(translator.tokenizer()),
        most_(translator.model().config().max_length),
        split_(split),
        bounds_(bounds),
        languages_(translator.languages_for(named)) {
    const LanguagePair& usual = tokenizer_.default_languages();
    const GenerationSettings& settings = translator.generation();
    from_ = first_of(named.from, settings.from_language, usual.from);
    blanks_ = blanks_of(first_of(named.to, settings.to_language, usual.to));
  }

  TextPlan plan(std::string_view text) {
    for (size_t at = 0; at < text.size() && !is_full(); ++line_) {
      const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
      size_t next = std::min(end + 1, text.size());
      if (text.substr(end, 2) == "\r\n") ++next;
      add_line(text.substr(at, end - at));
      gap_ += text.substr(end, next - end);
      at = next;
    }
    plan_.end = std::move(gap_);
    return std::move(plan_);
  }

 private:
  static const std::string& first_of(const std::string& a, const std::string& b,
                                     const std::string& c) {
    return !a.empty() ? a : !b.empty() ? b : c;
  }

  bool is_full() const { return std::ssize(plan_.parts) > bounds_.max_parts; }

  bool fits(std::string_view text) const {
    if (bounds_.check) bounds_.check();
    return static_cast<int64_t>(tokenizer_.encode_source(text, languages_).size()) <= most_;
  }

  void add_line(std::string_view line) {
    if (line.empty()) return;
    if (split_ == Split::never || first_invalid_utf8(line)) return add(line);
    const std::string_view inner = without_outer_blanks(line);
    const auto begin = static_cast<size_t>(inner.data() - line.data());
    gap_ += line.substr(0, begin);
    if (!inner.empty()) add_inner(inner);
    gap_ += line.substr(begin + inner.size());
  }

  // A line without white space at its ends.
  void add_inner(std::string_view line) {
    const bool whole_fits = fits(line);
    if (split_ == Split::too_long && whole_fits) return add(line);
    const CutText cut = cut_sentences(line, from_);
    if (cut.units.size() <= 1 && whole_fits) return add(line);
    // Of more than there may be, each is a unit at least: there is nothing to be counted.
    const bool are_too_many = std::ssize(cut.units) > bounds_.max_parts - std::ssize(plan_.parts);
    bool is_first = true;
    for (const TextUnit& unit : cut.units) {
      if (is_full()) return;
      if (!is_first) cut_here(unit.before, false);
      is_first = false;
      if (are_too_many || (unit.sentence == line ? whole_fits : fits(unit.sentence))) {
        add(unit.sentence);
      } else {
        add_parts_of(unit.sentence);
      }
    }
  }

  void add(std::string_view source) {
    TextPart part{std::exchange(gap_, {}), std::string(source), line_,
                  std::exchange(maybe_, false)};
    plan_.parts.push_back(std::move(part));
  }

  // Between two units of a line.
  void cut_here(std::string_view gap, bool within_word) {
    gap_ += gap;
    if (within_word || blanks_ == Blanks::none) {
      if (blanks_ == Blanks::none && are_blanks(gap)) gap_.clear();
      return;
    }
    const bool replaced = gap.empty() || gap == "\u3000";
    // Not `= " "`: GCC 12 warns of it.
    if (replaced && blanks_ == Blanks::between) gap_.assign(1, ' ');
    if (!gap.empty()) return;
    maybe_ = blanks_ == Blanks::source;
  }

  // A sentence that does not fit.
  void add_parts_of(std::string_view sentence) {
    const std::vector<CutPlace> places = cut_places(sentence);
    size_t begin = 0;
    for (size_t first = 0; first < places.size();) {
      if (is_full()) return;
      const std::optional<size_t> last = last_that_fits(sentence, begin, places, first);
      if (last == places.size()) break;  // all that is left
      const size_t at = last ? best_place(places, first, *last, begin) : first;
      const CutPlace& place = places[at];
      add(sentence.substr(begin, place.end - begin));
      cut_here(sentence.substr(place.end, place.next - place.end),
               place.kind == CutPlaceKind::cluster);
      begin = place.next;
      first = at + 1;
    }
    add(sentence.substr(begin));
  }

  // The last place up to which the text fits, places.size() for all of it; nothing where not even
  // the first character does. Looks at about as much text as fits, not at all that is left.
  std::optional<size_t> last_that_fits(std::string_view sentence, size_t begin,
                                       const std::vector<CutPlace>& places, size_t first) const {
    const auto fits_to = [&](size_t place) {
      const size_t end = place == places.size() ? sentence.size() : places[place].end;
      return fits(sentence.substr(begin, end - begin));
    };
    size_t good = first, bad = places.size() + 1;
    bool any = false;
    for (auto step = static_cast<size_t>(std::max<int64_t>(most_ / 4, 1));; step *= 2) {
      const size_t tried = std::min(first + step, places.size());
      if (!fits_to(tried)) {
        bad = tried;
        break;
      }
      good = tried;
      any = true;
      if (tried == places.size()) return good;
    }
    if (!any && !fits_to(first)) return std::nullopt;
    while (good + 1 < bad) {
      const size_t middle = good + (bad - good) / 2;
      (fits_to(middle) ? good : bad) = middle;
    }
    return good;
  }

  // As Split::too_long says.
  static size_t best_place(const std::vector<CutPlace>& places, size_t first, size_t last,
                           size_t begin) {
    const size_t half = begin + (places[last].end - begin) / 2;
    const auto last_of = [&](CutPlaceKind kind, size_t from) -> std::optional<size_t> {
      for (size_t i = last + 1; i-- > first && places[i].end >= from;) {
        if (places[i].kind >= kind) return i;
      }
      return std::nullopt;
    };
    if (const auto place = last_of(CutPlaceKind::clause, half)) return *place;
    if (const auto place = last_of(CutPlaceKind::blank, half)) return *place;
    if (const auto place = last_of(CutPlaceKind::bare, half)) return *place;
    return last_of(CutPlaceKind::bare, 0).value_or(last);
  }

  const Tokenizer& tokenizer_;
  const int64_t most_;
  const Split split_;
  const PlanBounds& bounds_;
  const LanguagePair languages_;  // for the tokenizer
  std::string from_;
  Blanks blanks_ = Blanks::source;
  TextPlan plan_;
  std::string gap_;  // before the next unit
  bool maybe_ = false;
  int64_t line_ = 0;
};

}  // namespace

void TextPlan::append(std::string& text, size_t part, std::string_view translation) const {
  text += parts[part].gap;
  if (parts[part].maybe_blank && !ends_in_joined_script(text)) text += ' ';
  const size_t begin = text.size();
  text += translation;
  std::replace_if(
      text.begin() + static_cast<ptrdiff_t>(begin), text.end(),
      [](char c) { return c == '\n' || c == '\r'; }, ' ');
}

std::string TextPlan::join(std::span<const std::string> translations) const {
  require(translations.size() <= parts.size(), ErrorCode::invalid_argument,
          "join: ", translations.size(), " translations, the text has ", parts.size(), " units");
  std::string text;
  for (size_t i = 0; i < translations.size(); ++i) append(text, i, translations[i]);
  if (translations.size() == parts.size()) text += end;
  return text;
}

TextPlan plan_text(const Translator& translator, std::string_view text,
                   const LanguagePair& languages, Split split, const PlanBounds& bounds) {
  require(split == Split::never || !translator.model().config().decoder_only(),
          ErrorCode::unsupported,
          "translate: the text of a decoder-only model is to be continued, it cannot be cut");
  return TextPlanner(translator, languages, split, bounds).plan(text);
}

std::string translate_text(const Translator& translator, std::string_view text,
                           const TranslateOptions& options, Split split) {
  const TextPlan plan = plan_text(translator, text, options.languages, split);
  // A unit's number would be no help: its line is named below.
  TranslateOptions skipping = options;
  skipping.bad_lines = BadLine::skip;
  std::vector<std::string> translations;
  std::string error;
  size_t taken = 0;
  translator.translate(
      [&]() -> std::optional<TextRequest> {
        if (taken == plan.parts.size()) return std::nullopt;
        return TextRequest{plan.parts[taken++].source};
      },
      [&](Translation&& translation) {
        if (!translation.skipped.empty() && options.bad_lines == BadLine::error) {
          const int64_t line = plan.parts[translations.size()].line;
          error = concat("translate: line ", line + 1, ": ", translation.skipped);
          return false;
        }
        translations.push_back(translation.text());
        return true;
      },
      skipping);
  require(error.empty(), ErrorCode::invalid_argument, error);
  return plan.join(translations);
}

}  // namespace tril
