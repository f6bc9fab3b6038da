#include "tril/text/model_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "tril/base/error.h"
#include "tril/text/character_map.h"
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

// Whether text passes unchanged, but for blanks becoming U+2581.
bool check_normalizer(std::string_view bytes, const std::string& file) {
  std::string_view map;
  bool strips = true;  // SentencePiece's default
  for (Fields fields(bytes, file); fields.next();) {
    if (fields.number() == 2) map = fields.bytes();
    if (fields.number() == 4) strips = fields.choice(0, 1) == 1;
  }
  if (!map.empty()) CharacterMap(map, file);
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

// SentencePiece looks user-defined pieces up in an array of 64 entries, whatever their number: no
// more of them may begin with each other.
void check_user_defined(const std::vector<ModelPiece>& pieces, const std::string& file) {
  constexpr size_t kMostAtOnce = 64;
  std::unordered_set<std::string_view> texts;
  for (const ModelPiece& piece : pieces) {
    if (piece.type == PieceType::user_defined) texts.insert(piece.text);
  }
  if (texts.size() <= kMostAtOnce) return;
  for (const std::string_view text : texts) {
    size_t prefixes = 0;
    for (size_t bytes = 1; bytes <= text.size(); ++bytes)
      prefixes += texts.count(text.substr(0, bytes));
    require(prefixes <= kMostAtOnce, ErrorCode::unsupported, file, ": more than ", kMostAtOnce,
            " user-defined pieces begin with each other");
  }
}

void check_pieces(const std::vector<ModelPiece>& pieces, const std::string& file,
                  ModelOrigin origin) {
  require(!pieces.empty(), ErrorCode::bad_format, file,
          ": not a SentencePiece model: it has no pieces");
  for (size_t id = 0; id < pieces.size(); ++id) {
    const ModelPiece& piece = pieces[id];
    const bool is_text = !piece.text.empty() && !first_invalid_utf8(piece.text) &&
                         piece.text.find('\0') == std::string_view::npos;
    require(is_text, ErrorCode::bad_format, file, ": piece ", id,
            " is empty, has a NUL or is not UTF-8");
    require(origin == ModelOrigin::anyone ||
                (piece.type != PieceType::user_defined && piece.type != PieceType::unused),
            ErrorCode::unsupported, file, ": piece ", id, " is user-defined or unused");
    require(piece.type != PieceType::byte || is_byte(piece.text), ErrorCode::bad_format, file,
            ": piece ", id, " stands for a byte, expected its text to be as <0xE0>");
    require(std::isfinite(piece.score), ErrorCode::bad_format, file, ": piece ", id,
            " has the score ", piece.score);
  }
  check_user_defined(pieces, file);
}

}  // namespace

uint8_t byte_of(const ModelPiece& piece) {
  uint8_t byte = 0;
  const char* text = piece.text.data();
  std::from_chars(text + 3, text + 5, byte, 16);
  return byte;
}

ModelFile parse_model_file(std::string_view bytes, const std::string& file, ModelOrigin origin) {
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
  check_pieces(model.pieces, file, origin);
  // The last part of a file: if it were cut off, the defaults would silently lose blanks.
  require(has_normalizer, ErrorCode::bad_format, file,
          ": cut off: how text is normalised is missing");
  require(trainer.algorithm == Algorithm::bpe || trainer.algorithm == Algorithm::unigram,
          ErrorCode::unsupported, file,
          ": a model of words or characters, expected BPE or unigram");
  model.type = trainer.algorithm == Algorithm::bpe ? TokenizerType::bpe : TokenizerType::unigram;
  if (origin == ModelOrigin::anyone) return model;
  require(trainer.byte_fallback, ErrorCode::unsupported, file,
          ": what no piece covers cannot be spelt in bytes (learnt without byte_fallback)");
  // If it were spelt in bytes, it would come back as U+2581.
  require(std::any_of(model.pieces.begin(), model.pieces.end(), is_blank), ErrorCode::unsupported,
          file, ": no piece for the blank, U+2581");
  return model;
}

}  // namespace tril
