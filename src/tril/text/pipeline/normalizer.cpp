#include "tril/text/pipeline/normalizer.h"

#include <array>
#include <optional>
#include <utility>

#include "tril/text/character_map.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/pipeline/pattern.h"

namespace tril::pipeline {

struct Replacement::State {
  Pattern pattern;
  std::string content;
};

namespace {

// The pattern of a component: {"String": "a"} or {"Regex": "a+"}.
Pattern read_pattern(Component& component) {
  Component pattern = component.object("pattern");
  if (pattern.find("String") != nullptr) {
    std::string text = pattern.text("String");
    require(!text.empty(), ErrorCode::bad_format, pattern.where(), ": it is empty");
    pattern.finish();
    return Pattern::literal(std::move(text));
  }
  const std::string expression = pattern.text("Regex");
  pattern.finish();
  return Pattern::regex(expression, pattern.where());
}

// The bytes that base64 text stands for. Raises `bad_format`, naming `where`.
std::string decoded_base64(std::string_view text, const std::string& where) {
  const auto digit = [](char c) -> int {
    if ('A' <= c && c <= 'Z') return c - 'A';
    if ('a' <= c && c <= 'z') return c - 'a' + 26;
    if ('0' <= c && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = digit(c);
    require(value >= 0, ErrorCode::bad_format, where, ": not base64");
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

// SentencePiece's map of characters, as Hugging Face's library applies it: to whole clusters of
// fewer than six bytes first, then to each character. A key that is only the beginning of a
// cluster replaces all of it.
class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Component& component)
      : map_(decoded_base64(component.text("precompiled_charsmap"),
                            component.where() + ": precompiled_charsmap"),
             component.where()) {
    for (char c = 0; c >= 0 && c < 0x7F; ++c) {
      is_kept_[static_cast<size_t>(c)] = !map_.first_match({&c, 1});
    }
  }

  std::string apply(std::string text) const override {
    std::string result;
    result.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const std::string_view cluster =
          std::string_view(text).substr(at, cluster_bytes(std::string_view(text).substr(at)));
      at += cluster.size();
      add(cluster, result);
    }
    return result;
  }

 private:
  static constexpr size_t kShortCluster = 6;

  void add(std::string_view cluster, std::string& result) const {
    if (cluster.size() == 1 && is_kept(cluster[0])) {
      result += cluster[0];
      return;
    }
    if (cluster.size() < kShortCluster) {
      if (const auto replaced = map_.first_match(cluster)) {
        result += *replaced;
        return;
      }
    }
    for (size_t at = 0; at < cluster.size();) {
      const std::string_view character = cluster.substr(at, character_at(cluster, at).bytes);
      at += character.size();
      result += map_.first_match(character).value_or(character);
    }
  }
  bool is_kept(char c) const { return c >= 0 && is_kept_[static_cast<size_t>(c)]; }

  CharacterMap map_;
  std::array<bool, 128> is_kept_{};
};

class ReplaceAll final : public Normalizer {
 public:
  explicit ReplaceAll(Component& component) : replacement_(component) {}
  std::string apply(std::string text) const override { return replacement_.apply(text); }

 private:
  Replacement replacement_;
};

class Prepended final : public Normalizer {
 public:
  explicit Prepended(Component& component) : before_(component.text("prepend")) {}
  std::string apply(std::string text) const override {
    return text.empty() ? text : before_ + text;
  }

 private:
  std::string before_;
};

class Stripped final : public Normalizer {
 public:
  explicit Stripped(Component& component)
      : left_(component.flag("strip_left")), right_(component.flag("strip_right")) {}
  std::string apply(std::string text) const override {
    size_t begin = 0, end = text.size();
    const auto space = [](const CharacterAt& at) { return is_space(at.character) ? at.bytes : 0; };
    while (left_ && begin < end) {
      const size_t bytes = space(character_at(text, begin));
      if (bytes == 0) break;
      begin += bytes;
    }
    while (right_ && begin < end) {
      const size_t bytes = space(character_before(text, end));
      if (bytes == 0) break;
      end -= bytes;
    }
    return text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class InTurn final : public Normalizer {
 public:
  explicit InTurn(Component& component) {
    for (Component& one : component.list("normalizers")) {
      parts_.push_back(make_normalizer(std::move(one)));
    }
  }
  std::string apply(std::string text) const override {
    for (const auto& part : parts_) text = part->apply(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

template <class Made>
std::unique_ptr<const Normalizer> finished(Component& component) {
  auto made = std::make_unique<Made>(component);
  component.finish();
  return made;
}

}  // namespace

Replacement::Replacement(Component& component) {
  Pattern pattern = read_pattern(component);
  state_ = std::make_unique<const State>(State{std::move(pattern), component.text("content")});
}
Replacement::~Replacement() = default;

std::string Replacement::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (const size_t bytes = state_->pattern.match(text, at)) {
      result += state_->content;
      at += bytes;
      continue;
    }
    const size_t bytes = character_at(text, at).bytes;
    result += text.substr(at, bytes);
    at += bytes;
  }
  return result;
}

std::unique_ptr<const Normalizer> make_normalizer(Component component) {
  const std::string type = component.type();
  if (type == "Precompiled") return finished<Precompiled>(component);
  if (type == "Replace") return finished<ReplaceAll>(component);
  if (type == "Prepend") return finished<Prepended>(component);
  if (type == "Strip") return finished<Stripped>(component);
  if (type == "Sequence") return finished<InTurn>(component);
  component.refuse(concat("the normalizer ", printable(type), " is not supported"));
}

}  // namespace tril::pipeline
