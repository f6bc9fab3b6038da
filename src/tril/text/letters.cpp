#include "tril/text/letters.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "tril/text/pipeline/characters.h"

namespace tril {
namespace {

struct Block {
  char32_t first = 0, last = 0;
  Script script = Script::none;
};

// Ascending. Blocks of Unicode, whose characters that are no letters do not count.
constexpr Block kBlocks[] = {
    {0x0041, 0x024F, Script::latin},      {0x0250, 0x02B8, Script::latin},
    {0x0370, 0x03FF, Script::greek},      {0x0400, 0x052F, Script::cyrillic},
    {0x0531, 0x058F, Script::armenian},   {0x0590, 0x05FF, Script::hebrew},
    {0x0600, 0x06FF, Script::arabic},     {0x0750, 0x077F, Script::arabic},
    {0x0780, 0x07BF, Script::thaana},     {0x0870, 0x08FF, Script::arabic},
    {0x0900, 0x097F, Script::devanagari}, {0x0980, 0x09FF, Script::bengali},
    {0x0A00, 0x0A7F, Script::gurmukhi},   {0x0A80, 0x0AFF, Script::gujarati},
    {0x0B00, 0x0B7F, Script::oriya},      {0x0B80, 0x0BFF, Script::tamil},
    {0x0C00, 0x0C7F, Script::telugu},     {0x0C80, 0x0CFF, Script::kannada},
    {0x0D00, 0x0D7F, Script::malayalam},  {0x0D80, 0x0DFF, Script::sinhala},
    {0x0E00, 0x0E7F, Script::thai},       {0x0E80, 0x0EFF, Script::lao},
    {0x0F00, 0x0FFF, Script::tibetan},    {0x1000, 0x109F, Script::burmese},
    {0x10A0, 0x10FF, Script::georgian},   {0x1100, 0x11FF, Script::hangul},
    {0x1200, 0x139F, Script::ethiopic},   {0x1780, 0x17FF, Script::khmer},
    {0x1C50, 0x1C7F, Script::ol_chiki},   {0x1C80, 0x1C8F, Script::cyrillic},
    {0x1C90, 0x1CBF, Script::georgian},   {0x1E00, 0x1EFF, Script::latin},
    {0x1F00, 0x1FFF, Script::greek},      {0x2C60, 0x2C7F, Script::latin},
    {0x2D00, 0x2D2F, Script::georgian},   {0x2D30, 0x2D7F, Script::tifinagh},
    {0x2D80, 0x2DDF, Script::ethiopic},   {0x2DE0, 0x2DFF, Script::cyrillic},
    {0x3005, 0x3007, Script::han},        {0x3031, 0x3035, Script::kana},
    {0x3040, 0x30FF, Script::kana},       {0x3130, 0x318F, Script::hangul},
    {0x31F0, 0x31FF, Script::kana},       {0x3400, 0x4DBF, Script::han},
    {0x4E00, 0x9FFF, Script::han},        {0xA640, 0xA69F, Script::cyrillic},
    {0xA720, 0xA7FF, Script::latin},      {0xA8E0, 0xA8FF, Script::devanagari},
    {0xA960, 0xA97F, Script::hangul},     {0xA9E0, 0xA9FF, Script::burmese},
    {0xAA60, 0xAA7F, Script::burmese},    {0xAAE0, 0xAAFF, Script::meetei},
    {0xAB00, 0xAB2F, Script::ethiopic},   {0xAB30, 0xAB6F, Script::latin},
    {0xABC0, 0xABFF, Script::meetei},     {0xAC00, 0xD7FF, Script::hangul},
    {0xF900, 0xFAFF, Script::han},        {0xFB00, 0xFB06, Script::latin},
    {0xFB13, 0xFB17, Script::armenian},   {0xFB1D, 0xFB4F, Script::hebrew},
    {0xFB50, 0xFDFF, Script::arabic},     {0xFE70, 0xFEFE, Script::arabic},
    {0xFF21, 0xFF5A, Script::latin},      {0xFF66, 0xFF9F, Script::kana},
    {0xFFA0, 0xFFDC, Script::hangul},     {0x1B000, 0x1B16F, Script::kana},
    {0x20000, 0x323AF, Script::han},
};

Script search_script(char32_t character) {
  if (!pipeline::is_letter(character)) return Script::none;
  const Block* block =
      std::lower_bound(std::begin(kBlocks), std::end(kBlocks), character,
                       [](const Block& b, char32_t value) { return b.last < value; });
  if (block == std::end(kBlocks) || character < block->first) return Script::other;
  return block->script;
}

constexpr char32_t kTable = 0x1000;  // below this scripts come from a table without a search

struct ScriptWords {
  std::string_view code, name;
};

constexpr std::array<ScriptWords, static_cast<size_t>(Script::count)> kWords{{
    {"", ""},
    {"", "another script"},
    {"Latn", "Latin"},
    {"Cyrl", "Cyrillic"},
    {"Grek", "Greek"},
    {"Armn", "Armenian"},
    {"Hebr", "Hebrew"},
    {"Arab", "Arabic"},
    {"Deva", "Devanagari"},
    {"Beng", "Bengali"},
    {"Guru", "Gurmukhi"},
    {"Gujr", "Gujarati"},
    {"Orya", "Odia"},
    {"Taml", "Tamil"},
    {"Telu", "Telugu"},
    {"Knda", "Kannada"},
    {"Mlym", "Malayalam"},
    {"Sinh", "Sinhala"},
    {"Thai", "Thai"},
    {"Laoo", "Lao"},
    {"Tibt", "Tibetan"},
    {"Mymr", "Burmese"},
    {"Geor", "Georgian"},
    {"Hang", "Korean"},
    {"Ethi", "Ethiopic"},
    {"Khmr", "Khmer"},
    {"Jpan", "Japanese"},
    {"Hani", "Chinese"},
    {"Tfng", "Tifinagh"},
    {"Olck", "Ol Chiki"},
    {"Mtei", "Meetei"},
    {"Thaa", "Thaana"},
}};

bool is_between(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }
// Where capitals and small letters alternate: the small letter is the one after.
char32_t after_even(char32_t c) { return c % 2 == 0 ? c + 1 : c; }
char32_t after_odd(char32_t c) { return c % 2 == 1 ? c + 1 : c; }

char32_t small_latin(char32_t c) {
  if (is_between(c, 'A', 'Z') || is_between(c, 0xC0, 0xD6) || is_between(c, 0xD8, 0xDE)) {
    return c + 0x20;
  }
  if (c < 0x100) return c;
  if (c == 0x130) return 'i';
  if (c == 0x178) return 0xFF;
  if (c == 0x18F) return 0x259;
  if (c == 0x1E9E) return 0xDF;
  if (is_between(c, 0x139, 0x148) || is_between(c, 0x179, 0x17E) || is_between(c, 0x1CD, 0x1DC)) {
    return after_odd(c);
  }
  if (c == 0x1AF) return 0x1B0;
  const bool alternates = is_between(c, 0x100, 0x137) || is_between(c, 0x14A, 0x177) ||
                          c == 0x1A0 || is_between(c, 0x1DE, 0x1EF) || c == 0x1F4 ||
                          is_between(c, 0x1F8, 0x21F) || is_between(c, 0x222, 0x233) ||
                          is_between(c, 0x1E00, 0x1E95) || is_between(c, 0x1EA0, 0x1EFF);
  if (alternates) return after_even(c);
  return is_between(c, 0xFF21, 0xFF3A) ? c + 0x20 : c;
}

char32_t small_greek(char32_t c) {
  if (c == 0x386) return 0x3AC;
  if (is_between(c, 0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (is_between(c, 0x38E, 0x38F)) return c + 63;
  return is_between(c, 0x391, 0x3AB) && c != 0x3A2 ? c + 0x20 : c;
}

char32_t small_cyrillic(char32_t c) {
  if (is_between(c, 0x410, 0x42F)) return c + 0x20;
  if (is_between(c, 0x400, 0x40F)) return c + 0x50;
  if (c == 0x4C0) return 0x4CF;
  if (is_between(c, 0x4C1, 0x4CE)) return after_odd(c);
  const bool alternates =
      is_between(c, 0x460, 0x481) || is_between(c, 0x48A, 0x4BF) || is_between(c, 0x4D0, 0x52F);
  return alternates ? after_even(c) : c;
}

}  // namespace

Script script_of_letter(char32_t character) {
  static const auto table = [] {
    std::array<Script, kTable> scripts{};
    for (char32_t c = 0; c < kTable; ++c) scripts[c] = search_script(c);
    return scripts;
  }();
  return character < kTable ? table[character] : search_script(character);
}

std::string_view script_code(Script script) { return kWords[static_cast<size_t>(script)].code; }
std::string_view script_name(Script script) { return kWords[static_cast<size_t>(script)].name; }

Script script_from_code(std::string_view code) {
  if (code.empty()) return Script::none;
  if (code == "Hans" || code == "Hant") return Script::han;
  if (code == "Kore") return Script::hangul;
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i].code == code) return static_cast<Script>(i);
  }
  return Script::none;
}

bool is_written_without_blanks(Script script) {
  return script == Script::han || script == Script::kana || script == Script::thai ||
         script == Script::lao || script == Script::khmer || script == Script::burmese ||
         script == Script::tibetan;
}

char32_t small_letter(char32_t c) {
  if (c < 0x370 || is_between(c, 0x1E00, 0x1EFF) || is_between(c, 0xFF21, 0xFF3A)) {
    return small_latin(c);
  }
  if (c < 0x400) return small_greek(c);
  if (c < 0x530) return small_cyrillic(c);
  return is_between(c, 0x531, 0x556) ? c + 0x30 : c;
}

bool is_capital_letter(char32_t character) { return small_letter(character) != character; }

bool is_small_letter(char32_t character) {
  const Script script = script_of_letter(character);
  const bool has_capitals = script == Script::latin || script == Script::cyrillic ||
                            script == Script::greek || script == Script::armenian;
  return has_capitals && !is_capital_letter(character);
}

}  // namespace tril
