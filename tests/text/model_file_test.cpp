// Files made by hand, byte by byte, to be wrong in one way each.
#include "tril/text/model_file.h"

#include <limits>

#include "support/model_bytes.h"
#include "support/testing.h"
#include "text_support.h"

namespace tril::model_file_test {
namespace {

using testing::bytes_field;
using testing::kBpe;
using testing::kBytes;
using testing::little_endian;
using testing::number_field;
using testing::piece;
using testing::raised_by;
using testing::varint;
using Parts = testing::ModelParts;

std::string error_of(const std::string& bytes) {
  const auto raised = raised_by([&] { Tokenizer::from_bytes(bytes, "t.model"); });
  EXPECT_TRUE(raised.code == ErrorCode::bad_format || raised.code == ErrorCode::unsupported);
  return raised.text;
}

TEST(ModelFile, ReadsWhatIsThere) {
  Parts parts;
  parts.pieces += piece("▁a", PieceType::normal, -1.5f);
  const std::string bytes = parts.bytes() + bytes_field(15, "a field of the future");
  const ModelFile file = parse_model_file(bytes, "t.model");
  EXPECT_EQ(file.type, TokenizerType::bpe);
  ASSERT_EQ(file.pieces.size(), 261u);
  EXPECT_EQ(file.pieces[1].text, "<s>");
  EXPECT_EQ(file.pieces[1].type, PieceType::control);
  EXPECT_EQ(byte_of(file.pieces[4 + 0xe0]), 0xe0);
  EXPECT_EQ(file.pieces[260].text, "▁a");
  EXPECT_EQ(file.pieces[260].score, -1.5f);
  parts.trainer = kBytes;
  EXPECT_EQ(parse_model_file(parts.bytes(), "t.model").type, TokenizerType::unigram);
  // "a" has no piece of its own, but is part of one.
  const Tokenizer tokenizer = Tokenizer::from_bytes(bytes, "t.model");
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<int32_t>{260}));
  EXPECT_EQ(tokenizer.encode("a", BpeDropout{}), (std::vector<int32_t>{260}));
}

TEST(ModelFile, RefusesWhatIsNoProtocolBuffer) {
  const std::string good = Parts().bytes();
  EXPECT_EQ(error_of(good + '\0'), "t.model: not a SentencePiece model: field 0");
  EXPECT_EQ(error_of(good + varint(7 << 3 | 3)),
            "t.model: not a SentencePiece model: field 7 of wire type 3");
  EXPECT_EQ(error_of(good + varint(7 << 3 | 2) + varint(5) + "abc"),
            "t.model: not a SentencePiece model, or cut off: 5 bytes announced where 3 are left");
  EXPECT_EQ(error_of(good + std::string(11, '\xff')),
            "t.model: not a SentencePiece model: a number of more than 64 bits");
  EXPECT_EQ(error_of(good + number_field(1, 1)), "t.model: field 1 has wire type 0, expected 2");
}

TEST(ModelFile, RefusesPiecesThatAreNone) {
  const auto with = [](const std::string& more) {
    Parts parts;
    parts.pieces += more;
    return error_of(parts.bytes());
  };
  const std::string no_text = "t.model: piece 260 is empty, has a NUL or is not UTF-8";
  EXPECT_EQ(with(piece("", PieceType::normal)), no_text);
  EXPECT_EQ(with(piece("\xff", PieceType::normal)), no_text);
  EXPECT_EQ(with(piece(std::string("b\0", 2), PieceType::normal)), no_text);
  EXPECT_EQ(with(piece("b", PieceType::normal, std::numeric_limits<float>::infinity())),
            "t.model: piece 260 has the score inf");
  EXPECT_EQ(with(piece("b", static_cast<PieceType>(7))), "t.model: field 3 is 7, expected 1 to 6");
  EXPECT_EQ(with(piece("b", PieceType::user_defined)),
            "t.model: piece 260 is user-defined or unused");
  EXPECT_EQ(with(piece("b", PieceType::unused)), "t.model: piece 260 is user-defined or unused");
  EXPECT_EQ(with(piece("<0x4g>", PieceType::byte)),
            "t.model: piece 260 stands for a byte, expected its text to be as <0xE0>");
  EXPECT_NE(with(piece("▁", PieceType::normal)).find("already defined"), std::string::npos);
}

TEST(ModelFile, RefusesOtherKindsOfModel) {
  Parts parts;
  parts.trainer = kBpe;
  EXPECT_EQ(
      error_of(parts.bytes()),
      "t.model: what no piece covers cannot be spelt in bytes (learnt without byte_fallback)");
  parts.trainer = number_field(3, 4) + kBytes;
  EXPECT_EQ(error_of(parts.bytes()),
            "t.model: a model of words or characters, expected BPE or unigram");
  parts = Parts();
  parts.pieces.replace(parts.pieces.find("▁"), 3, "abc");
  EXPECT_EQ(error_of(parts.bytes()), "t.model: no piece for the blank, U+2581");
  EXPECT_EQ(error_of(Parts().pieces + bytes_field(2, Parts().trainer)),
            "t.model: cut off: how text is normalised is missing");
}

// ---- the map of characters: a double array, whose unit is offset << 10 | has leaf << 8 | label

constexpr uint32_t kLeaf = 1u << 8;
constexpr uint32_t kValue = 1u << 31;

std::string map_of(const std::vector<uint32_t>& units, const std::string& replacements) {
  std::string map = little_endian(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) map += little_endian(unit);
  return map + replacements;
}

// The keys "a", "aa", ... of up to `keys` letters, all replaced by "b". The root and each node have
// a block of 256 units for their children, in which the label of a missing child is wrong.
std::vector<uint32_t> chain(uint32_t keys) {
  std::vector<uint32_t> units(256 * (keys + 2), 0xff);
  for (uint32_t block = 0; block < units.size(); block += 256) units[block + 0xff] = 0;
  units[0] = 256 << 10;
  for (uint32_t key = 1; key <= keys; ++key) {
    const uint32_t node = 256 * key + 'a';
    const uint32_t children = 256 * (key + 1);
    units[node] = (node ^ children) << 10 | kLeaf | 'a';
    units[children] = kValue | 0;
  }
  return units;
}

std::string map_error(const std::string& map) {
  Parts parts;
  parts.map = map;
  const std::string text = error_of(parts.bytes());
  const std::string start = "t.model: the map of characters is damaged: ";
  EXPECT_TRUE(text.starts_with(start)) << text;
  return text.substr(std::min(start.size(), text.size()));
}

const std::string kB("b\0", 2);

TEST(ModelFile, FollowsAMapOfCharacters) {
  Parts parts;
  parts.map = map_of(chain(3), kB);
  const Tokenizer tokenizer = Tokenizer::from_bytes(parts.bytes(), "t.model");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("aaaaa c")), "bb c");
}

TEST(ModelFile, RefusesAMapThatLeadsAstray) {
  EXPECT_EQ(map_error("abc"), "it is too short");
  EXPECT_EQ(map_error(little_endian(8) + "abcd"), "its trie does not fit");
  EXPECT_EQ(map_error(little_endian(3) + "abcd"), "its trie does not fit");
  EXPECT_EQ(map_error(map_of(chain(1), "b")), "its replacements do not end");
  EXPECT_EQ(map_error(map_of(chain(1), std::string("\xff\0", 2))),
            "its replacements are not UTF-8");

  std::vector<uint32_t> outside = chain(1);
  outside[0] = 768 << 10;
  EXPECT_EQ(map_error(map_of(outside, kB)), "its trie leads outside itself");
  outside = chain(2);
  outside.pop_back();
  EXPECT_EQ(map_error(map_of(outside, kB)), "its trie leads outside itself");

  std::vector<uint32_t> circle = chain(1);
  circle[256 + 'a'] = uint32_t{'a'} << 10 | 'a';  // back to the children of the root
  EXPECT_EQ(map_error(map_of(circle, kB)), "its trie has no end");

  std::vector<uint32_t> no_replacement = chain(1);
  no_replacement[512] = kValue | 2;
  EXPECT_EQ(map_error(map_of(no_replacement, kB)), "a key leads to no replacement");

  EXPECT_EQ(map_error(map_of(chain(33), kB)), "too many of its keys begin with each other");
  Parts parts;
  parts.map = map_of(chain(32), kB);
  const Tokenizer tokenizer = Tokenizer::from_bytes(parts.bytes(), "t.model");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(std::string(33, 'a'))), "bb");
}

}  // namespace
}  // namespace tril::model_file_test
