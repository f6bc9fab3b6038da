#include "tril/text/pipeline/pipeline.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tril/text/pipeline/byte_letters.h"
#include "tril/text/pipeline/characters.h"
#include "tril/text/pipeline/template.h"
#include "tril/text/utf8.h"

namespace tril::pipeline {
namespace {

// The largest files in use have 256,000 pieces and twice as many merges.
constexpr JsonLimits kLimits{.max_bytes = 1 << 28, .max_depth = 16, .max_values = 1 << 24};

// Bytes as SentencePiece would show a piece: blanks as U+2581, what cannot be shown as "<0xE0>".
std::string shown(std::string_view bytes) {
  std::string text;
  const std::string_view digits = "0123456789ABCDEF";
  while (!bytes.empty()) {
    const size_t valid = first_invalid_utf8(bytes).value_or(bytes.size());
    const bool is_control = static_cast<uint8_t>(bytes[0]) < 0x20 || bytes[0] == 0x7F;
    if (valid == 0 || is_control) {
      const auto byte = static_cast<uint8_t>(bytes[0]);
      text += std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">";
      bytes.remove_prefix(1);
    } else if (bytes[0] == ' ') {
      text += "\u2581";
      bytes.remove_prefix(1);
    } else {
      const size_t length = character_at(bytes, 0).bytes;
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    }
  }
  return text;
}

}  // namespace

Pipeline::Pipeline(Parts parts) : parts_(std::move(parts)) {
  size_ = parts_.model->vocabulary().size();
  for (const AddedToken& token : parts_.added.all()) {
    size_ = std::max<int64_t>(size_, token.id + 1);
  }
}

int64_t Pipeline::size(TextSide) const { return size_; }

std::vector<int32_t> Pipeline::encode(std::string_view text, TextSide) const {
  std::vector<int32_t> ids;
  bool is_first = true;
  const auto encode_words = [&](std::string&& stretch, bool first) {
    if (stretch.empty()) return;
    std::vector<Word> words;
    words.push_back({std::move(stretch), first});
    if (parts_.pre_tokenizer) words = parts_.pre_tokenizer->apply(std::move(words));
    for (const Word& word : words) parts_.model->encode(word.text, ids);
  };
  for (const Found& found : parts_.added.split(text, false)) {
    if (found.token) {
      ids.push_back(*found.token);
      is_first = false;
      continue;
    }
    std::string normalized(found.text);
    if (parts_.normalizer) normalized = parts_.normalizer->apply(std::move(normalized));
    for (const Found& part : parts_.added.split(normalized, true)) {
      if (part.token) {
        ids.push_back(*part.token);
      } else {
        encode_words(std::string(part.text), is_first);
      }
      is_first = false;
    }
  }
  return ids;
}

std::string Pipeline::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const std::string* text = text_of(id);
    if (text != nullptr && !is_special(id)) tokens.push_back(*text);
  }
  const std::string_view between = parts_.decoder ? "" : " ";
  if (parts_.decoder) tokens = parts_.decoder->apply(std::move(tokens));
  std::string line;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) line += between;
    line += tokens[i];
  }
  return line;
}

const std::string* Pipeline::text_of(int32_t id) const {
  const AddedToken* added = parts_.added.find(id);
  return added != nullptr ? &added->content : parts_.model->vocabulary().piece(id);
}

std::string Pipeline::piece(int32_t id, TextSide) const {
  const std::string* text = text_of(id);
  if (text == nullptr) return "<padding>";
  const bool is_added = parts_.added.find(id) != nullptr;
  if (!parts_.decodes.letters || is_added) return *text;
  return shown(from_byte_letters(*text));
}

std::optional<int32_t> Pipeline::find(std::string_view piece, TextSide) const {
  const auto added = parts_.added.find(piece);
  return added ? added : parts_.model->vocabulary().find(piece);
}

bool Pipeline::is_special(int32_t id) const {
  const AddedToken* added = parts_.added.find(id);
  return added != nullptr && added->special;
}

std::string Pipeline::bytes_of(int32_t id) const {
  const std::string* text = text_of(id);
  if (text == nullptr) return {};
  if (parts_.decodes.letters) return from_byte_letters(*text);
  if (parts_.decodes.fallback && text->size() == 6 && text->starts_with("<0x")) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(text->data() + 3, text->data() + 5, byte, 16);
    if (error == std::errc() && end == text->data() + 5) return {static_cast<char>(byte)};
  }
  return *text;
}

Parts read_tokenizer_json(std::string_view text, const std::string& file) {
  const JsonValue json = parse_json(text, file, kLimits);
  Component root(json, file);
  root.ignore({"version", "truncation", "padding"});
  Parts parts;
  if (root.find("normalizer") != nullptr) {
    parts.normalizer = make_normalizer(root.object("normalizer"));
  }
  if (root.find("pre_tokenizer") != nullptr) {
    parts.pre_tokenizer = make_pre_tokenizer(root.object("pre_tokenizer"));
  }
  parts.model = make_model(root.object("model"));
  if (root.find("added_tokens") != nullptr) {
    for (Component& token : root.list("added_tokens")) {
      parts.added.add(read_added_token(std::move(token)), parts.normalizer.get());
    }
  }
  if (root.find("post_processor") != nullptr) {
    parts.layout = read_template(root.object("post_processor"));
  }
  if (root.find("decoder") != nullptr) {
    parts.decoder = make_decoder(root.object("decoder"));
    parts.decodes = decodes_bytes(root.object("decoder"));
  }
  root.finish();
  return parts;
}

Parts read_byte_level(std::string_view vocab, std::string_view merges, bool add_prefix_space,
                      const std::string& folder) {
  const std::string vocab_file = folder + ": vocab.json";
  Parts parts;
  parts.model = make_bpe(Vocabulary::from_json(parse_json(vocab, vocab_file, kLimits), vocab_file),
                         merges, folder + ": merges.txt");
  parts.pre_tokenizer = make_byte_level(add_prefix_space);
  parts.decoder = make_byte_level_decoder();
  parts.decodes.letters = true;
  return parts;
}

}  // namespace tril::pipeline
