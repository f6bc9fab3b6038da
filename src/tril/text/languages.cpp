#include "tril/text/languages.h"

#include <algorithm>
#include <utility>

#include "tril/text/language_codes.h"
#include "tril/text/language_table.h"

namespace tril {
namespace {

char small(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char capital(char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 32) : c; }
bool is_letter(char c) { return 'a' <= small(c) && small(c) <= 'z'; }
bool is_figure(char c) { return '0' <= c && c <= '9'; }

template <class F>
bool all(std::string_view text, const F& f) {
  return std::all_of(text.begin(), text.end(), f);
}

// What a code says. Empty where it says nothing.
struct CodeParts {
  std::string language;  // small letters
  std::string script;    // "Latn"
  std::string region;    // "BR"
};

// Without what models write around a code: "__en__", ">>eng<<", "<2en>", "[en_XX]".
std::string_view bare_code(std::string_view code) {
  const auto is_around = [](char c) { return !is_letter(c) && !is_figure(c); };
  while (!code.empty() && is_around(code.back())) code.remove_suffix(1);
  const bool is_t5 = code.starts_with("<2");
  while (!code.empty() && is_around(code.front())) code.remove_prefix(1);
  if (is_t5) code.remove_prefix(1);
  return code;
}

std::string scripted(std::string_view part) {
  std::string script(part);
  std::transform(script.begin(), script.end(), script.begin(), small);
  script[0] = capital(script[0]);
  return script;
}

// The script that a region writes Chinese in.
std::string chinese_script(const CodeParts& parts, std::string_view code) {
  const bool traditional = parts.region == "TW" || parts.region == "HK" || parts.region == "MO";
  return traditional || code.substr(0, 2) == "zt" ? "Hant" : "Hans";
}

CodeParts parts_of(std::string_view code) {
  code = bare_code(code);
  CodeParts parts;
  bool first = true;
  while (!code.empty()) {
    const size_t end = std::min(code.find_first_of("-_"), code.size());
    const std::string_view part = code.substr(0, end);
    code.remove_prefix(std::min(end + 1, code.size()));
    const bool letters = all(part, is_letter);
    if (std::exchange(first, false)) {
      if (!letters || part.size() < 2 || part.size() > 3) return {};
      parts.language = part;
      std::transform(part.begin(), part.end(), parts.language.begin(), small);
    } else if (letters && part.size() == 4) {
      parts.script = scripted(part);
    } else if ((letters && part.size() == 2) || (part.size() == 3 && all(part, is_figure))) {
      std::string region(part);
      std::transform(region.begin(), region.end(), region.begin(), capital);
      if (region != "XX") parts.region = region;  // as mBART writes no region
    }
  }
  if (parts.language == "pb" && parts.region.empty()) parts.region = "BR";
  return parts;
}

std::string base_of(const CodeParts& parts) {
  const LanguageRow* row = find_language_row(parts.language);
  return std::string(row == nullptr ? parts.language : row->base);
}

std::string script_of(const CodeParts& parts) {
  if (parts.language.empty()) return "";
  const std::string base = base_of(parts);
  if (parts.script == "Hani" || (parts.script.empty() && base == "zh")) {
    return chinese_script(parts, parts.language);
  }
  if (!parts.script.empty()) return parts.script == "Kore" ? "Hang" : parts.script;
  const LanguageRow* row = find_language_row(parts.language);
  return std::string(row == nullptr ? "" : row->script);
}

struct NamedRegion {
  std::string_view base, region, name;
};
// Where models and services tell variants apart.
constexpr NamedRegion kRegions[] = {
    {"en", "US", "American"}, {"en", "GB", "British"},        {"pt", "BR", "Brazil"},
    {"pt", "PT", "Portugal"}, {"es", "419", "Latin America"}, {"fr", "CA", "Canada"},
    {"es", "ES", "Spain"},    {"es", "MX", "Mexico"},
};

std::string_view name_of_script(std::string_view script) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"Hans", "simplified"}, {"Hant", "traditional"}, {"Latn", "Latin"},    {"Cyrl", "Cyrillic"},
      {"Arab", "Arabic"},     {"Deva", "Devanagari"},  {"Tfng", "Tifinagh"}, {"Beng", "Bengali"},
      {"Guru", "Gurmukhi"},   {"Hebr", "Hebrew"},
  };
  for (const auto& [code, name] : kNames) {
    if (code == script) return name;
  }
  return script;
}

}  // namespace

std::string base_language(std::string_view code) { return base_of(parts_of(code)); }

std::string script_of_language(std::string_view code) { return script_of(parts_of(code)); }

std::string language_name(std::string_view code) {
  const CodeParts parts = parts_of(code);
  const LanguageRow* row = find_language_row(parts.language);
  if (row == nullptr) return std::string(code);
  std::string name(row->name);
  const std::string script = script_of(parts);
  // Chinese is told apart by its script; others where it is not the usual one.
  const bool is_plain_chinese =
      row->base == "zh" && parts.script.empty() && parts.region.empty() && script == "Hans";
  if (!is_plain_chinese && (row->base == "zh" || script != row->script)) {
    return name + " (" + std::string(name_of_script(script)) + ")";
  }
  for (const auto& [base, region, region_name] : kRegions) {
    // mBART's pt_XX and de_DE name no variant.
    const bool named = base == row->base && region == parts.region;
    if (named) return name + " (" + std::string(region_name) + ")";
  }
  return name;
}

bool joins_sentences(std::string_view code) {
  const std::string base = base_language(code);
  return base == "zh" || base == "ja" || base == "yue" || base == "wuu" || base == "lzh";
}

namespace {

// What a client asks for.
struct Asked {
  explicit Asked(std::string_view code)
      : parts(parts_of(code)), base(base_of(parts)), script(script_of(parts)) {}

  // Chinese by its region is asked for in a script; other languages only by naming one.
  bool names_script() const {
    return !parts.script.empty() || (base == "zh" && !parts.region.empty()) ||
           parts.language == "zt";
  }
  bool is_in(const std::string& other_script) const {
    return other_script == script || (other_script.empty() && parts.script.empty());
  }

  CodeParts parts;
  std::string base, script;
};

}  // namespace

std::optional<std::string> find_language(std::span<const std::string> codes,
                                         std::string_view wanted) {
  return LanguageCodes(codes).find(wanted);
}

LanguageCodes::LanguageCodes(std::span<const std::string> codes) {
  for (const std::string& code : codes) add(code);
}

void LanguageCodes::add(const std::string& code) {
  const CodeParts parts = parts_of(code);
  by_base_[base_of(parts)].push_back({codes_.size(), script_of(parts), parts.region});
  codes_.push_back(code);
}

bool LanguageCodes::add_new(const std::string& code) {
  if (find(code)) return false;
  add(code);
  return true;
}

std::optional<std::string> LanguageCodes::find(std::string_view wanted) const {
  const Asked asked(wanted);
  const auto same_base = by_base_.find(asked.base);
  if (same_base == by_base_.end()) return std::nullopt;
  const std::vector<Known>& known = same_base->second;
  for (const Known& one : known) {
    if (codes_[one.index] == wanted) return codes_[one.index];
  }
  if (asked.base.empty()) return std::nullopt;
  const bool several_scripts = std::any_of(known.begin(), known.end(), [&](const Known& one) {
    return one.script != known.front().script;
  });
  const bool by_script = asked.names_script() || several_scripts;
  const std::optional<std::string> regions[] = {asked.parts.region, "", std::nullopt};
  for (const auto& region : regions) {
    for (const Known& one : known) {
      const bool suits =
          (!by_script || asked.is_in(one.script)) && region.value_or(one.region) == one.region;
      if (suits) return codes_[one.index];
    }
  }
  return std::nullopt;
}

std::vector<size_t> LanguageCodes::same_base(std::string_view code) const {
  std::vector<size_t> indices;
  const auto same_base = by_base_.find(base_language(code));
  if (same_base == by_base_.end()) return indices;
  for (const Known& one : same_base->second) indices.push_back(one.index);
  return indices;
}

}  // namespace tril
