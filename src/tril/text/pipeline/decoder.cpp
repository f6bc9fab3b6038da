#include "tril/text/pipeline/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "tril/text/pipeline/byte_letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/pipeline/normalizer.h"
#include "tril/text/unicode.h"
#include "tril/text/utf8.h"

namespace tril::pipeline {
namespace {

using Texts = std::vector<std::string>;

class ByteLevelDecoder final : public Decoder {
 public:
  ByteLevelDecoder() = default;
  explicit ByteLevelDecoder(Component& component) {
    component.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
  }
  Texts apply(Texts tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_letters(token);
    return {replace_invalid(bytes)};
  }
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(Component& component)
      : mark_(component.text("replacement")),
        drops_first_(component.text_or("prepend_scheme", "always") != "never") {
    if (!component.flag_or("add_prefix_space", true)) drops_first_ = false;
    component.ignore({"split", "str_rep"});
    require(!mark_.empty() && utf8_bytes(mark_[0]) == mark_.size(), ErrorCode::bad_format,
            component.where(), ": replacement: expected one character");
  }
  Texts apply(Texts tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string_view blank = i == 0 && drops_first_ ? "" : " ";
      std::string text;
      for (size_t at = 0; at < tokens[i].size();) {
        const std::string_view rest = std::string_view(tokens[i]).substr(at);
        if (rest.starts_with(mark_)) {
          text += blank;
          at += mark_.size();
        } else {
          text += rest[0];
          ++at;
        }
      }
      tokens[i] = std::move(text);
    }
    return tokens;
  }

 private:
  std::string mark_;
  bool drops_first_;
};

// The byte of "<0xE0>", in digits of either case.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  // A sign would be read too.
  const std::string_view digits = token.substr(token[3] == '+' ? 4 : 3, token[3] == '+' ? 1 : 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return static_cast<char>(byte);
}

class ByteFallbackDecoder final : public Decoder {
 public:
  explicit ByteFallbackDecoder(Component&) {}
  Texts apply(Texts tokens) const override {
    Texts result;
    std::string bytes;
    const auto end_bytes = [&] {
      if (!first_invalid_utf8(bytes)) {
        if (!bytes.empty()) result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), "\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = fallback_byte(token)) {
        bytes += *byte;
        continue;
      }
      end_bytes();
      result.push_back(std::move(token));
    }
    end_bytes();
    return result;
  }
};

class FuseDecoder final : public Decoder {
 public:
  explicit FuseDecoder(Component&) {}
  Texts apply(Texts tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    return {all};
  }
};

class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(Component& component)
      : content_(component.text("content")),
        start_(component.number("start", 0, kMost)),
        stop_(component.number("stop", 0, kMost)) {
    require(!content_.empty() && utf8_bytes(content_[0]) == content_.size(), ErrorCode::bad_format,
            component.where(), ": content: expected one character");
  }
  Texts apply(Texts tokens) const override {
    for (std::string& token : tokens) {
      std::string_view text = token;
      for (int64_t i = 0; i < start_ && text.starts_with(content_); ++i) {
        text.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && text.ends_with(content_); ++i) {
        text.remove_suffix(content_.size());
      }
      token = std::string(text);
    }
    return tokens;
  }

 private:
  static constexpr int64_t kMost = 1 << 20;
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(Component& component) : replacement_(component) {}
  Texts apply(Texts tokens) const override {
    for (std::string& token : tokens) token = replacement_.apply(token);
    return tokens;
  }

 private:
  Replacement replacement_;
};

class DecodersInTurn final : public Decoder {
 public:
  explicit DecodersInTurn(Component& component) {
    for (Component& one : component.list("decoders")) {
      parts_.push_back(make_decoder(std::move(one)));
    }
  }
  Texts apply(Texts tokens) const override {
    for (const auto& part : parts_) tokens = part->apply(std::move(tokens));
    return tokens;
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

template <class Made>
std::unique_ptr<const Decoder> finished_decoder(Component& component) {
  auto made = std::make_unique<Made>(component);
  component.finish();
  return made;
}

}  // namespace

std::unique_ptr<const Decoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}

std::unique_ptr<const Decoder> make_decoder(Component component) {
  const std::string type = component.type();
  if (type == "ByteLevel") return finished_decoder<ByteLevelDecoder>(component);
  if (type == "Metaspace") return finished_decoder<MetaspaceDecoder>(component);
  if (type == "ByteFallback") return finished_decoder<ByteFallbackDecoder>(component);
  if (type == "Fuse") return finished_decoder<FuseDecoder>(component);
  if (type == "Strip") return finished_decoder<StripDecoder>(component);
  if (type == "Replace") return finished_decoder<ReplaceDecoder>(component);
  if (type == "Sequence") return finished_decoder<DecodersInTurn>(component);
  component.refuse(concat("the decoder ", printable(type), " is not supported"));
}

DecodesBytes decodes_bytes(Component component) {
  const std::string type = component.type();
  DecodesBytes bytes{type == "ByteLevel", type == "ByteFallback"};
  if (type != "Sequence") return bytes;
  for (Component& one : component.list("decoders")) {
    const DecodesBytes part = decodes_bytes(std::move(one));
    bytes.letters = bytes.letters || part.letters;
    bytes.fallback = bytes.fallback || part.fallback;
  }
  return bytes;
}

}  // namespace tril::pipeline
