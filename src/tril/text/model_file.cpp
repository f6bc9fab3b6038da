#include "tril/text/model_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "tril/base/error.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// The fields of one protocol buffer message, in the order of the bytes. Groups, long obsolete, are
// refused.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  // Advances to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    wire_ = static_cast<Wire>(key & 7);
    require(number_ > 0 && number_ < (1u << 29), ErrorCode::bad_format, file_,
            ": not a SentencePiece model: field ", number_);
    switch (wire_) {
      case Wire::varint: value_ = varint(); break;
      case Wire::fixed64: content_ = take(8); break;
      case Wire::bytes: content_ = take(varint()); break;
      case Wire::fixed32: content_ = take(4); break;
      default:
        fail(ErrorCode::bad_format, file_, ": not a SentencePiece model: field ", number_,
             " of wire type ", key & 7);
    }
    return true;
  }

  uint64_t number() const { return number_; }
  std::string_view bytes() const {
    expect(Wire::bytes);
    return content_;
  }
  // A boolean or an enumeration value from `min` to `max`.
  uint8_t choice(uint8_t min, uint8_t max) const {
    expect(Wire::varint);
    require(min <= value_ && value_ <= max, ErrorCode::bad_format, file_, ": field ", number_,
            " is ", value_, ", expected ", min, " to ", max);
    return static_cast<uint8_t>(value_);
  }
  float number32() const {
    expect(Wire::fixed32);
    uint32_t bits = 0;  // little-endian in the file
    for (size_t i = 4; i > 0; --i) bits = bits << 8 | static_cast<uint8_t>(content_[i - 1]);
    return std::bit_cast<float>(bits);
  }

 private:
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void expect(Wire wire) const {
    require(wire_ == wire, ErrorCode::bad_format, file_, ": field ", number_, " has wire type ",
            static_cast<int>(wire_), ", expected ", static_cast<int>(wire));
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail(ErrorCode::bad_format, file_,
         ": not a SentencePiece model: a number of more than 64 bits");
  }
  std::string_view take(uint64_t bytes) {
    require(bytes <= rest_.size(), ErrorCode::bad_format, file_,
            ": not a SentencePiece model, or cut off: ", bytes, " bytes announced where ",
            rest_.size(), " are left");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  const std::string& file_;
  uint64_t number_ = 0;
  Wire wire_ = Wire::varint;
  uint64_t value_ = 0;
  std::string_view content_;
};

enum class Algorithm : uint8_t { unigram = 1, bpe, word, character };

struct TrainerFields {
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
};

ModelPiece read_piece(std::string_view bytes, const std::string& file) {
  ModelPiece piece;
  for (Fields fields(bytes, file); fields.next();) {
    if (fields.number() == 1) piece.text = fields.bytes();
    if (fields.number() == 2) piece.score = fields.number32();
    if (fields.number() == 3) piece.type = static_cast<PieceType>(fields.choice(1, 6));
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& file, TrainerFields& trainer) {
  for (Fields fields(bytes, file); fields.next();) {
    if (fields.number() == 3) {
      trainer.algorithm = static_cast<Algorithm>(fields.choice(1, 4));
    }
    if (fields.number() == 35) trainer.byte_fallback = fields.choice(0, 1) == 1;
  }
}

// The double array of the normalisation, as Darts-clone lays it out, and the replacements its
// leaves point to. SentencePiece follows it without checks, so every path is walked here once.
class CharacterMap {
 public:
  CharacterMap(std::string_view bytes, const std::string& file) : file_(file) {
    check(bytes.size() > 4, "it is too short");
    const uint32_t trie_bytes = word(bytes, 0);
    check(trie_bytes % 4 == 0 && trie_bytes > 0 && trie_bytes <= bytes.size() - 4,
          "its trie does not fit");
    for (size_t i = 0; i < trie_bytes; i += 4) units_.push_back(word(bytes, 4 + i));
    replacements_ = bytes.substr(4 + trie_bytes);
    check(!replacements_.empty() && replacements_.back() == '\0', "its replacements do not end");
    check(!first_invalid_utf8(replacements_), "its replacements are not UTF-8");
  }

  void check_paths() {
    leaves_.assign(units_.size(), kUnvisited);
    check(leaves_below(0, 0) <= kMaxLeaves, "too many of its keys begin with each other");
  }

 private:
  static constexpr uint32_t kValueBit = 1u << 31;
  static constexpr int kMaxLeaves = 32;  // the size of SentencePiece's array of matches
  static constexpr int kMaxDepth = 256;  // of a key in bytes; a cycle would have no end
  static constexpr int kUnvisited = -1;

  // The most leaves on any path below `node`. Paths may join again.
  int leaves_below(size_t node, int depth) {
    if (leaves_[node] != kUnvisited) return leaves_[node];
    check(depth < kMaxDepth, "its trie has no end");
    const size_t children = node ^ offset(units_[node]);
    check((children | 0xff) < units_.size(), "its trie leads outside itself");
    int most = 0;
    for (size_t label = 0; label < 256; ++label) {
      const size_t child = children ^ label;
      const uint32_t unit = units_[child];
      if ((unit & (kValueBit | 0xffu)) != label) continue;
      if (has_leaf(unit)) {
        const size_t leaf = child ^ offset(unit);
        check(leaf < units_.size() && (units_[leaf] & ~kValueBit) < replacements_.size(),
              "a key leads to no replacement");
      }
      most = std::max(most, leaves_below(child, depth + 1) + (has_leaf(unit) ? 1 : 0));
    }
    return leaves_[node] = most;
  }

  static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
  static size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  static uint32_t word(std::string_view bytes, size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
    return value;
  }
  void check(bool holds, std::string_view fault) const {
    require(holds, ErrorCode::bad_format, file_, ": the map of characters is damaged: ", fault);
  }

  const std::string& file_;
  std::vector<uint32_t> units_;
  std::string_view replacements_;
  std::vector<int> leaves_;  // by node; kUnvisited until known
};

// Whether text passes unchanged, but for blanks becoming U+2581.
bool check_normalizer(std::string_view bytes, const std::string& file) {
  std::string_view map;
  bool strips = true;  // SentencePiece's default
  for (Fields fields(bytes, file); fields.next();) {
    if (fields.number() == 2) map = fields.bytes();
    if (fields.number() == 4) strips = fields.choice(0, 1) == 1;
  }
  if (!map.empty()) CharacterMap(map, file).check_paths();
  return map.empty() && !strips;
}

bool is_blank(const ModelPiece& piece) {
  return piece.type == PieceType::normal && piece.text == "\u2581";
}

bool is_byte(std::string_view text) {
  const auto is_digit = [](char c) { return ('0' <= c && c <= '9') || ('A' <= c && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && is_digit(text[3]) && is_digit(text[4]) &&
         text[5] == '>';
}

void check_pieces(const std::vector<ModelPiece>& pieces, const std::string& file) {
  require(!pieces.empty(), ErrorCode::bad_format, file,
          ": not a SentencePiece model: it has no pieces");
  for (size_t id = 0; id < pieces.size(); ++id) {
    const ModelPiece& piece = pieces[id];
    const bool is_text = !piece.text.empty() && !first_invalid_utf8(piece.text) &&
                         piece.text.find('\0') == std::string_view::npos;
    require(is_text, ErrorCode::bad_format, file, ": piece ", id,
            " is empty, has a NUL or is not UTF-8");
    // SentencePiece looks user-defined pieces up in an array of 64 entries, whatever their number.
    require(piece.type != PieceType::user_defined && piece.type != PieceType::unused,
            ErrorCode::unsupported, file, ": piece ", id, " is user-defined or unused");
    require(piece.type != PieceType::byte || is_byte(piece.text), ErrorCode::bad_format, file,
            ": piece ", id, " stands for a byte, expected its text to be as <0xE0>");
    require(std::isfinite(piece.score), ErrorCode::bad_format, file, ": piece ", id,
            " has the score ", piece.score);
  }
}

}  // namespace

uint8_t byte_of(const ModelPiece& piece) {
  uint8_t byte = 0;
  const char* text = piece.text.data();
  std::from_chars(text + 3, text + 5, byte, 16);
  return byte;
}

ModelFile parse_model_file(std::string_view bytes, const std::string& file) {
  ModelFile model;
  TrainerFields trainer;
  bool has_normalizer = false;
  for (Fields fields(bytes, file); fields.next();) {
    switch (fields.number()) {
      case 1: model.pieces.push_back(read_piece(fields.bytes(), file)); break;
      case 2: read_trainer(fields.bytes(), file, trainer); break;
      case 3:
        has_normalizer = true;
        model.keeps_text = check_normalizer(fields.bytes(), file);
        break;
      case 5: check_normalizer(fields.bytes(), file); break;
      default: break;
    }
  }
  check_pieces(model.pieces, file);
  // The last part of a file: if it were cut off, the defaults would silently lose blanks.
  require(has_normalizer, ErrorCode::bad_format, file,
          ": cut off: how text is normalised is missing");
  require(trainer.algorithm == Algorithm::bpe || trainer.algorithm == Algorithm::unigram,
          ErrorCode::unsupported, file,
          ": a model of words or characters, expected BPE or unigram");
  require(trainer.byte_fallback, ErrorCode::unsupported, file,
          ": what no piece covers cannot be spelt in bytes (learnt without byte_fallback)");
  // If it were spelt in bytes, it would come back as U+2581.
  require(std::any_of(model.pieces.begin(), model.pieces.end(), is_blank), ErrorCode::unsupported,
          file, ": no piece for the blank, U+2581");
  model.type = trainer.algorithm == Algorithm::bpe ? TokenizerType::bpe : TokenizerType::unigram;
  return model;
}

}  // namespace tril
