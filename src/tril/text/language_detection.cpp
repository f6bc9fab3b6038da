// detect_language(): the script decides first; then every word of the text adds to the score of
// each language of that script, in thousandths of a natural logarithm, as if words were
// independent. Whole numbers, so that no order of additions decides.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "tril/base/math.h"
#include "tril/text/language_profiles.h"
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
    const std::string bytes = encode_utf8(word);
    for_holders(index_.words, bytes,
                [&](uint16_t i) { scores_[i] += listed(word.size()) - kUnlisted; });
    add_letters(word);
    add_parts(U'_' + word + U'_');
  }

  int64_t operator[](size_t profile) const { return scores_[profile] + unlisted_; }
  int64_t unlisted() const { return unlisted_; }

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
};

// A language that the text may be in, candidate or not.
struct Contender {
  int64_t score = 0;
  std::vector<size_t> candidates;  // that mean it; none: it is no candidate
};

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

std::vector<Contender> chinese(const std::u32string& text,
                               std::span<const std::string> candidates) {
  int64_t simplified = 0, traditional = 0, cantonese = 0, japanese = 0;
  for (const char32_t c : text) {
    const bool old = kTraditional.find(c) != kTraditional.npos;
    const bool is_new = kSimplified.find(c) != kSimplified.npos;
    if (is_new && !old) simplified += 1000;
    if (old && !is_new) traditional += 1000;
    if (kCantonese.find(c) != kCantonese.npos) cantonese += 3000;
    if (kJapanese.find(c) != kJapanese.npos) japanese += 1500;
  }
  std::vector<Contender> contenders(4);
  contenders[0].score = simplified - traditional;
  contenders[1].score = traditional - simplified;
  contenders[2].score = traditional - simplified + cantonese - 1500;
  contenders[3].score = japanese - 2000;
  const auto writes = [&](std::string_view script) {
    return std::any_of(candidates.begin(), candidates.end(), [&](const std::string& code) {
      return base_language(code) == "zh" && script_of_language(code) == script;
    });
  };
  const bool both = writes("Hans") && writes("Hant");
  // Where only one way of writing is there, it stands for both.
  if (!both) contenders[0].score = contenders[1].score = std::max(simplified, traditional);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string base = base_language(candidates[i]);
    const bool old = script_of_language(candidates[i]) == "Hant";
    const size_t which = base == "zh" ? (old ? 1 : 0) : base == "yue" ? 2 : 3;
    if (which < 3 || base == "ja") contenders[which].candidates.push_back(i);
  }
  if (!both) contenders.erase(contenders.begin() + (writes("Hant") ? 0 : 1));
  return contenders;
}

// Whether the candidate can be written in a script: its usual one, that of its code, or one of
// which there is a profile.
bool can_be_in(Script script, const std::string& candidate) {
  const Script own = script_from_code(script_of_language(candidate));
  const std::string base = base_language(candidate);
  // Japanese has both, and Kashmiri and the like either.
  if (own == Script::kana && script == Script::han) return true;
  if (own == script) return true;
  const bool names_one = candidate.size() > 4 && candidate.find_first_of("-_") != candidate.npos &&
                         script_of_language(candidate) != script_of_language(base);
  if (names_one || candidate.find_first_of("-_") + 5 == candidate.size()) return false;
  const auto profiles = language_profiles();
  return std::any_of(profiles.begin(), profiles.end(), [&](const LanguageProfile& profile) {
    return profile.script == script && profile.base == base;
  });
}

// The script of most letters, among those that a candidate is written in; and how many of all
// letters it has.
std::pair<Script, double> main_script(const std::u32string& text,
                                      std::span<const std::string> candidates) {
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
                    [&](const std::string& code) { return can_be_in(script, code); })) {
      best = script;
      most = letters[i];
    }
  }
  return {best, all == 0 ? 0.0 : static_cast<double>(most) / static_cast<double>(all)};
}

}  // namespace

std::vector<DetectedLanguage> detect_language(std::string_view text,
                                              std::span<const std::string> candidates) {
  if (text.size() > kMostBytes) {
    size_t end = kMostBytes;
    while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  const std::u32string characters = decode_utf8(text);
  const auto [script, share] = main_script(characters, candidates);
  if (script == Script::none) return {};
  if (script == Script::han) return confidences(chinese(characters, candidates), share, candidates);
  ProfileScores scores(script);
  for (const std::u32string& word : words_of_text(text)) scores.add(word);
  std::vector<Contender> contenders;
  std::vector<std::string> bases;
  const auto profiles = language_profiles();
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (profiles[i].script != script) continue;
    contenders.push_back({scores[i], {}});
    bases.emplace_back(profiles[i].base);
  }
  const bool has_profiles = !contenders.empty();
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!can_be_in(script, candidates[i])) continue;
    const std::string base = base_language(candidates[i]);
    const auto at =
        static_cast<size_t>(std::find(bases.begin(), bases.end(), base) - bases.begin());
    if (at == bases.size()) {
      contenders.push_back({scores.unlisted() + (has_profiles ? kNoProfile : 0), {}});
      bases.push_back(base);
    }
    contenders[at].candidates.push_back(i);
  }
  return confidences(std::move(contenders), share, candidates);
}

}  // namespace tril
