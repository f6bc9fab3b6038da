#include "tril/text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "tril/text/pipeline/byte_letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/pipeline/pattern.h"
#include "tril/text/unicode.h"

namespace tril::pipeline {
namespace {

// What becomes of the parts of a text that a pattern matches.
enum class Delimiters { removed, isolated, with_previous, with_next, contiguous };

struct Part {
  size_t begin = 0, end = 0;
  bool is_match = false;
};

// The matches of a pattern and what lies between them, in order.
std::vector<Part> parts_of(std::string_view text, const Pattern& pattern, bool invert) {
  std::vector<Part> parts;
  size_t rest = 0;
  const auto add = [&](size_t begin, size_t end, bool is_match) {
    if (begin < end) parts.push_back({begin, end, is_match != invert});
  };
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = pattern.match(text, at);
    if (bytes == 0) {
      at += utf8_bytes(text[at]);
      continue;
    }
    add(rest, at, false);
    add(at, at + bytes, true);
    at = rest = at + bytes;
  }
  add(rest, text.size(), false);
  return parts;
}

std::vector<Part> joined(const std::vector<Part>& parts, Delimiters delimiters) {
  std::vector<Part> result;
  bool previous = false;
  const auto backwards = delimiters == Delimiters::with_next;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[backwards ? parts.size() - 1 - i : i];
    const bool joins = delimiters == Delimiters::contiguous ? part.is_match == previous
                                                            : part.is_match && !previous;
    previous = part.is_match;
    if (!joins || result.empty()) {
      result.push_back(part);
    } else if (backwards) {
      result.back().begin = part.begin;
    } else {
      result.back().end = part.end;
    }
  }
  if (backwards) std::reverse(result.begin(), result.end());
  return result;
}

// Appends the parts of a word as words.
void split_word(const Word& word, const Pattern& pattern, bool invert, Delimiters delimiters,
                std::vector<Word>& words) {
  std::vector<Part> parts = parts_of(word.text, pattern, invert);
  if (delimiters == Delimiters::removed) {
    std::erase_if(parts, [](const Part& part) { return part.is_match; });
  } else if (delimiters != Delimiters::isolated) {
    parts = joined(parts, delimiters);
  }
  for (const Part& part : parts) {
    words.push_back(
        {word.text.substr(part.begin, part.end - part.begin), word.is_first && part.begin == 0});
  }
}

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  std::vector<Word> apply(std::vector<Word> words) const override {
    std::vector<Word> result;
    for (Word& word : words) {
      if (add_prefix_space_ && !word.text.starts_with(' ')) word.text.insert(0, 1, ' ');
      if (use_regex_) {
        split_word(word, pattern_, false, Delimiters::isolated, result);
      } else {
        result.push_back(std::move(word));
      }
    }
    for (Word& word : result) word.text = to_byte_letters(word.text);
    return result;
  }

 private:
  bool add_prefix_space_, use_regex_;
  Pattern pattern_ = Pattern::gpt2();
};

enum class PrependScheme { always, first, never };

PrependScheme prepend_scheme_of(Component& component) {
  const std::string scheme = component.text_or("prepend_scheme", "always");
  const bool adds = component.flag_or("add_prefix_space", scheme != "never");
  if (scheme == "always" && adds) return PrependScheme::always;
  if (scheme == "first" && adds) return PrependScheme::first;
  if (scheme == "never" && !adds) return PrependScheme::never;
  component.fail_field("prepend_scheme", "always, first or never, as add_prefix_space says");
}

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(Component& component)
      : mark_(component.text("replacement")),
        scheme_(prepend_scheme_of(component)),
        splits_(component.flag_or("split", true)) {
    component.ignore({"str_rep"});
    require(!mark_.empty() && utf8_bytes(mark_[0]) == mark_.size(), ErrorCode::bad_format,
            component.where(), ": replacement: expected one character");
    pattern_ = Pattern::literal(mark_);
  }

  std::vector<Word> apply(std::vector<Word> words) const override {
    std::vector<Word> result;
    for (Word& word : words) {
      std::string text;
      text.reserve(word.text.size() + mark_.size());
      for (const char c : word.text) {
        if (c == ' ') {
          text += mark_;
        } else {
          text += c;
        }
      }
      const bool prepends =
          scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && word.is_first);
      if (prepends && !text.starts_with(mark_)) text.insert(0, mark_);
      word.text = std::move(text);
      if (splits_) {
        split_word(word, pattern_, false, Delimiters::with_next, result);
      } else {
        result.push_back(std::move(word));
      }
    }
    return result;
  }

 private:
  std::string mark_;
  PrependScheme scheme_;
  bool splits_;
  Pattern pattern_ = Pattern::literal(" ");
};

class Split final : public PreTokenizer {
 public:
  explicit Split(Component& component)
      : pattern_(read_split_pattern(component)), invert_(component.flag_or("invert", false)) {
    const std::string behavior = component.text("behavior");
    if (behavior == "Removed")
      delimiters_ = Delimiters::removed;
    else if (behavior == "Isolated")
      delimiters_ = Delimiters::isolated;
    else if (behavior == "MergedWithPrevious")
      delimiters_ = Delimiters::with_previous;
    else if (behavior == "MergedWithNext")
      delimiters_ = Delimiters::with_next;
    else if (behavior == "Contiguous")
      delimiters_ = Delimiters::contiguous;
    else
      component.refuse(concat("the behavior ", printable(behavior), " is not supported"));
  }

  std::vector<Word> apply(std::vector<Word> words) const override {
    std::vector<Word> result;
    for (const Word& word : words) split_word(word, pattern_, invert_, delimiters_, result);
    return result;
  }

 private:
  static Pattern read_split_pattern(Component& component) {
    Component pattern = component.object("pattern");
    if (pattern.find("String") == nullptr) {
      return Pattern::regex(pattern.text("Regex"), pattern.where());
    }
    std::string text = pattern.text("String");
    require(!text.empty(), ErrorCode::bad_format, pattern.where(), ": it is empty");
    return Pattern::literal(std::move(text));
  }

  Pattern pattern_;
  bool invert_;
  Delimiters delimiters_ = Delimiters::isolated;
};

class WhitespaceSplit final : public PreTokenizer {
 public:
  explicit WhitespaceSplit(Component&) {}
  std::vector<Word> apply(std::vector<Word> words) const override {
    std::vector<Word> result;
    for (const Word& word : words) {
      split_word(word, pattern_, false, Delimiters::removed, result);
    }
    return result;
  }

 private:
  Pattern pattern_ = Pattern::regex(R"(\s+)", "");
};

class CutInTurn final : public PreTokenizer {
 public:
  explicit CutInTurn(Component& component) {
    for (Component& one : component.list("pretokenizers")) {
      parts_.push_back(make_pre_tokenizer(std::move(one)));
    }
  }
  std::vector<Word> apply(std::vector<Word> words) const override {
    for (const auto& part : parts_) words = part->apply(std::move(words));
    return words;
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

template <class Made>
std::unique_ptr<const PreTokenizer> finished_cutter(Component& component) {
  auto made = std::make_unique<Made>(component);
  component.finish();
  return made;
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_byte_level(bool add_prefix_space) {
  return std::make_unique<ByteLevel>(add_prefix_space, true);
}

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(Component component) {
  const std::string type = component.type();
  if (type == "ByteLevel") {
    const bool add_prefix_space = component.flag_or("add_prefix_space", true);
    const bool use_regex = component.flag_or("use_regex", true);
    component.ignore({"trim_offsets"});
    component.finish();
    return std::make_unique<ByteLevel>(add_prefix_space, use_regex);
  }
  if (type == "Metaspace") return finished_cutter<Metaspace>(component);
  if (type == "Split") return finished_cutter<Split>(component);
  if (type == "WhitespaceSplit") return finished_cutter<WhitespaceSplit>(component);
  if (type == "Sequence") return finished_cutter<CutInTurn>(component);
  component.refuse(concat("the pre-tokenizer ", printable(type), " is not supported"));
}

}  // namespace tril::pipeline
