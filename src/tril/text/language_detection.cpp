// detect_language(): the script decides first; then every word of the text adds to the score of
// each language of that script, in thousandths of a natural logarithm, as if words were
// independent. Whole numbers, so that no order of additions decides.
#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include "tril/base/math.h"
#include "tril/text/language_profiles.h"
#include "tril/text/language_scripts.h"
#include "tril/text/languages.h"
#include "tril/text/letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/unicode.h"

namespace tril {
namespace {

constexpr size_t kMostBytes = 4000;

// What a word adds to a language's score.
constexpr int64_t kUnlisted = -500;        // no frequent word of it
constexpr int64_t kStrangeLetter = -3000;  // a letter that it does not use
constexpr int64_t kRareLetter = -1500;
constexpr int64_t kPart = 900;  // for each frequent part, two at most
constexpr int64_t kMostParts = 2;
constexpr size_t kLongestPart = 6;  // characters, with the marks of beginning and end
// Before any word: languages that are no candidates, and those of which only the script is known.
constexpr int64_t kNoCandidate = -3000;
constexpr int64_t kNoProfile = -3000;
constexpr int64_t kNoProfileWord = -400;  // for each word
// Languages in which many texts are, and those in which few are.
struct Prior {
  std::string_view bases;
  int64_t score = 0;
};
constexpr Prior kPriors[] = {
    {"en", 2000},
    {"de fr es it pt nl ru hi ar fa ur pl tr vi id sv cs uk ro hu he bn am", 1000},
    {"gl ast af nn ha so yo cy ga eo eu sa bho mai be tt ky tg mn ckb ug sd ti as yi", -500},
};
// Words are not independent, so that the sum says too much.
constexpr double kTemper = 1.5;
constexpr double kLeast = 0.005;  // less confident is left out

int64_t listed(size_t characters) {
  return characters == 1 ? 1200 : characters == 2 ? 2500 : characters <= 4 ? 3500 : 4500;
}
int64_t thousandths_of_log(double share) {
  return static_cast<int64_t>(std::max(math::log(share) * 1000.0, -2500.0));
}

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
// Which profiles have a word or a part.
using Holders = std::unordered_map<std::string, std::vector<uint16_t>, TextHash, std::equal_to<>>;

// The profiles, so that one look finds all that have a word.
struct ProfileIndex {
  struct Letters {
    std::u32string own, rare;
    int64_t with = 0, without = 0;  // what a word with such letters adds
  };
  std::array<Holders, static_cast<size_t>(Script::count)> words, parts;
  std::vector<Letters> letters;

  ProfileIndex() {
    const auto profiles = language_profiles();
    for (size_t i = 0; i < profiles.size(); ++i) {
      const LanguageProfile& profile = profiles[i];
      const auto script = static_cast<size_t>(profile.script);
      add(words[script], profile.words, i);
      add(parts[script], profile.parts, i);
      Letters own{decode_utf8(profile.letters), decode_utf8(profile.rare)};
      const double share = std::max(profile.with_letters, 1) / 100.0;
      own.with = thousandths_of_log(share);
      own.without = thousandths_of_log(1.0 - share);
      letters.push_back(std::move(own));
    }
  }

  static const ProfileIndex& get() {
    static const ProfileIndex index;
    return index;
  }

 private:
  static void add(Holders& holders, std::string_view list, size_t profile) {
    for (const std::string_view entry : split_words(list)) {
      auto& of_entry = holders[std::string(entry)];
      const auto number = static_cast<uint16_t>(profile);
      if (of_entry.empty() || of_entry.back() != number) of_entry.push_back(number);
    }
  }
};

// The words of a text in small letters, without what is no text: addresses, names of accounts,
// anything with digits.
std::vector<std::u32string> words_of_text(std::string_view text) {
  std::vector<std::u32string> words;
  for (const std::string_view run : split_words(text)) {
    if (run.find("://") != run.npos || run.find('@') != run.npos || run.starts_with("www.") ||
        run.find_first_of("0123456789_\\") != run.npos) {
      continue;
    }
    std::u32string word;
    const auto finish = [&] {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    };
    for (const char32_t c : decode_utf8(run)) {
      // Vowel signs and other marks belong to the word.
      const bool of_word = pipeline::is_letter(c) || (!word.empty() && pipeline::is_word(c)) ||
                           (!word.empty() && (c == 0x200C || c == 0x200D));
      if (of_word) {
        word.push_back(small_letter(c));
      } else {
        finish();
      }
    }
    finish();
  }
  return words;
}

Script script_of_word(const std::u32string& word) { return script_of_letter(word.front()); }

class ProfileScores {
 public:
  explicit ProfileScores(Script script)
      : script_(script),
        index_(ProfileIndex::get()),
        plain_(decode_utf8(plain_letters(script))),
        scores_(language_profiles().size(), 0) {}

  void add(const std::u32string& word) {
    if (script_of_word(word) != script_) return;
    unlisted_ += kUnlisted;
    ++words_;
    const std::string bytes = encode_utf8(word);
    for_holders(index_.words, bytes,
                [&](uint16_t i) { scores_[i] += listed(word.size()) - kUnlisted; });
    add_letters(word);
    add_parts(U'_' + word + U'_');
  }

  int64_t operator[](size_t profile) const { return scores_[profile] + unlisted_; }
  // Of a language without a profile.
  int64_t unknown() const { return unlisted_ + kNoProfile + words_ * kNoProfileWord; }

 private:
  template <class F>
  void for_holders(const std::array<Holders, static_cast<size_t>(Script::count)>& table,
                   std::string_view entry, const F& f) const {
    const Holders& holders = table[static_cast<size_t>(script_)];
    const auto found = holders.find(entry);
    if (found == holders.end()) return;
    for (const uint16_t i : found->second) f(i);
  }

  void add_letters(const std::u32string& word) {
    std::u32string special;  // letters that some languages of the script do not use
    for (const char32_t c : word) {
      if (!pipeline::is_letter(c) || plain_.empty() || plain_.find(c) != plain_.npos) continue;
      special.push_back(c);
    }
    const auto profiles = language_profiles();
    for (size_t i = 0; i < profiles.size(); ++i) {
      if (profiles[i].script != script_) continue;
      const auto& [own, rare, with, without] = index_.letters[i];
      const bool strange = special.find_first_not_of(own) != special.npos;
      if (!plain_.empty())
        scores_[i] += strange ? kStrangeLetter : special.empty() ? without : with;
      if (word.find_first_of(rare) != word.npos) scores_[i] += kRareLetter;
    }
  }

  void add_parts(const std::u32string& word) {
    counts_.assign(scores_.size(), 0);
    std::vector<size_t> ends;  // of the characters, in bytes
    const std::string bytes = encode_utf8(word);
    for (size_t at = 0; at < bytes.size(); at += utf8_bytes(bytes[at])) ends.push_back(at);
    ends.push_back(bytes.size());
    for (size_t first = 0; first + 1 < ends.size(); ++first) {
      const size_t last = std::min(first + kLongestPart + 1, ends.size());
      for (size_t end = first + 1; end < last; ++end) {
        const auto part = std::string_view(bytes).substr(ends[first], ends[end] - ends[first]);
        for_holders(index_.parts, part, [&](uint16_t i) {
          if (counts_[i]++ < kMostParts) scores_[i] += kPart;
        });
      }
    }
  }

  const Script script_;
  const ProfileIndex& index_;
  const std::u32string plain_;
  std::vector<int64_t> scores_;
  std::vector<int64_t> counts_;
  int64_t unlisted_ = 0;
  int64_t words_ = 0;
};

// A language that the text may be in, candidate or not.
struct Contender {
  int64_t score = 0;
  std::vector<size_t> candidates;  // that mean it; none: it is no candidate
};

int64_t prior_of(std::string_view base) {
  for (const auto& [bases, score] : kPriors) {
    const auto list = split_words(bases);
    if (std::find(list.begin(), list.end(), base) != list.end()) return score;
  }
  return 0;
}

std::vector<DetectedLanguage> confidences(std::vector<Contender> contenders, double share,
                                          std::span<const std::string> candidates) {
  int64_t best = INT64_MIN;
  for (Contender& one : contenders) {
    if (one.candidates.empty()) one.score += kNoCandidate;
    best = std::max(best, one.score);
  }
  double sum = 0.0;
  for (const Contender& one : contenders) {
    sum += math::exp(static_cast<double>(one.score - best) / (1000.0 * kTemper));
  }
  std::vector<std::pair<size_t, double>> found;
  for (const Contender& one : contenders) {
    const double p = math::exp(static_cast<double>(one.score - best) / (1000.0 * kTemper)) / sum;
    for (const size_t candidate : one.candidates) {
      found.emplace_back(candidate, share * p / static_cast<double>(one.candidates.size()));
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<DetectedLanguage> languages;
  for (const auto& [candidate, confidence] : found) {
    if (confidence >= kLeast) languages.push_back({candidates[candidate], confidence});
  }
  return languages;
}

// Characters that only one way of writing Chinese has, and words of Cantonese.
constexpr std::u32string_view kSimplified =
    U"们这国为个来时会说对没还过发开东车门问间见话语请谢让认识学习书写买卖钱爱亲点热电脑网络关兴难"
    U"样从众"
    U"产业义乐云价儿兰养减农几凤刘则别剧办动务劳势单卫历压县双变号听员园图团块场声处备复头夺奋";
constexpr std::u32string_view kTraditional =
    U"們這國為個來時會說對沒還過發開東車門問間見話語請謝讓認識學習書寫買賣錢愛親點熱電腦網絡關興難"
    U"樣從眾"
    U"產業義樂雲價兒蘭養減農幾鳳劉則別劇辦動務勞勢單衛歷壓縣雙變號聽員園圖團塊場聲處備復頭奪奮";
constexpr std::u32string_view kCantonese = U"嘅係咗喺唔冇佢哋啲嚟咁嗰嘢睇啱";
constexpr std::u32string_view kJapanese = U"円駅図価験実広歩働込畑沢辺気売読対帰戦県黒仏";

// A candidate, read once.
struct Candidate {
  std::string base, script;
  std::vector<Script> scripts;  // that it may be written in
};

Candidate read_candidate(const std::string& code) {
  return {base_language(code), script_of_language(code), scripts_of_language(code)};
}

bool can_be_in(Script script, const Candidate& candidate) {
  const auto& scripts = candidate.scripts;
  return std::find(scripts.begin(), scripts.end(), script) != scripts.end();
}

std::vector<Contender> chinese(const std::u32string& text, std::span<const Candidate> candidates) {
  int64_t simplified = 0, traditional = 0, cantonese = 0, japanese = 0;
  for (const char32_t c : text) {
    const bool old = kTraditional.find(c) != kTraditional.npos;
    const bool is_new = kSimplified.find(c) != kSimplified.npos;
    if (is_new && !old) simplified += 1000;
    if (old && !is_new) traditional += 1000;
    if (kCantonese.find(c) != kCantonese.npos) cantonese += 3000;
    if (kJapanese.find(c) != kJapanese.npos) japanese += 1500;
  }
  enum { in_simplified, in_traditional, in_cantonese, in_japanese };
  std::vector<Contender> contenders(4);
  contenders[in_simplified].score = simplified - traditional;
  contenders[in_traditional].score = traditional - simplified;
  contenders[in_cantonese].score = traditional - simplified + cantonese - 1500;
  contenders[in_japanese].score = japanese - 2000;
  bool writes_simplified = false, writes_traditional = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool is_chinese = candidate.base == "zh";
    const bool is_old = candidate.script == "Hant";
    writes_simplified = writes_simplified || (is_chinese && !is_old);
    writes_traditional = writes_traditional || (is_chinese && is_old);
    if (is_chinese) contenders[is_old ? in_traditional : in_simplified].candidates.push_back(i);
    if (candidate.base == "yue") contenders[in_cantonese].candidates.push_back(i);
    if (candidate.base == "ja") contenders[in_japanese].candidates.push_back(i);
  }
  // Where only one way of writing Chinese is a candidate, it stands for both.
  if (!writes_simplified || !writes_traditional) {
    const auto other = writes_traditional ? in_simplified : in_traditional;
    contenders[in_simplified].score = contenders[in_traditional].score =
        std::max(simplified, traditional);
    contenders.erase(contenders.begin() + other);
  }
  return contenders;
}

// The script of most letters, among those that a candidate is written in; and how many of all
// letters it has.
std::pair<Script, double> main_script(const std::u32string& text,
                                      std::span<const Candidate> candidates) {
  std::array<int64_t, static_cast<size_t>(Script::count)> letters{};
  int64_t all = 0;
  for (const char32_t c : text) {
    const Script script = script_of_letter(c);
    if (script == Script::none) continue;
    // A sign of Chinese or Korean says as much as two letters.
    const int64_t weight =
        script == Script::han || script == Script::kana || script == Script::hangul ? 2 : 1;
    letters[static_cast<size_t>(script)] += weight;
    all += weight;
  }
  auto& kana = letters[static_cast<size_t>(Script::kana)];
  auto& han = letters[static_cast<size_t>(Script::han)];
  if (10 * kana > kana + han) kana += std::exchange(han, 0);
  Script best = Script::none;
  int64_t most = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] <= most) continue;
    const auto script = static_cast<Script>(i);
    if (std::any_of(candidates.begin(), candidates.end(),
                    [&](const Candidate& one) { return can_be_in(script, one); })) {
      best = script;
      most = letters[i];
    }
  }
  return {best, all == 0 ? 0.0 : static_cast<double>(most) / static_cast<double>(all)};
}

}  // namespace

std::vector<Script> scripts_of_language(std::string_view code) {
  const std::string script = script_of_language(code);
  const Script own = script_from_code(script);
  std::vector<Script> scripts;
  if (own != Script::none) scripts.push_back(own);
  if (own == Script::kana || own == Script::hangul) scripts.push_back(Script::han);
  const bool names_script = !script.empty() && code.find(script) != code.npos;
  if (names_script) return scripts;
  const std::string base = base_language(code);
  for (const LanguageProfile& profile : language_profiles()) {
    if (profile.base == base && profile.script != own) scripts.push_back(profile.script);
  }
  return scripts;
}

std::vector<DetectedLanguage> detect_language(std::string_view text,
                                              std::span<const std::string> candidates) {
  if (text.size() > kMostBytes) {
    size_t end = kMostBytes;
    while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::vector<Candidate> known;
  for (const std::string& code : candidates) known.push_back(read_candidate(code));
  const std::u32string characters = decode_utf8(text);
  const auto [script, share] = main_script(characters, known);
  if (script == Script::none) return {};
  if (script == Script::han) return confidences(chinese(characters, known), share, candidates);
  ProfileScores scores(script);
  for (const std::u32string& word : words_of_text(text)) scores.add(word);
  std::vector<Contender> contenders;
  std::vector<std::string> bases;
  const auto profiles = language_profiles();
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (profiles[i].script != script) continue;
    contenders.push_back({scores[i] + prior_of(profiles[i].base), {}});
    bases.emplace_back(profiles[i].base);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!can_be_in(script, known[i])) continue;
    const std::string& base = known[i].base;
    const auto at =
        static_cast<size_t>(std::find(bases.begin(), bases.end(), base) - bases.begin());
    if (at == bases.size()) {
      contenders.push_back({scores.unknown(), {}});
      bases.push_back(base);
    }
    contenders[at].candidates.push_back(i);
  }
  return confidences(std::move(contenders), share, candidates);
}

}  // namespace tril
