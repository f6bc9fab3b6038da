#include "tril/text/tokenizer.h"

#include <sentencepiece_processor.h>

#include <set>
#include <thread>

#include "support/model_bytes.h"
#include "support/testing.h"
#include "text_support.h"
#include "tril/text/utf8.h"

namespace tril::tokenizer_test {
namespace {

using testing::any_line;
using testing::bpe;
using testing::learn;
using testing::nfkc;
using testing::raised_by;
using testing::sentences;
using testing::unigram;

// ---- text to ids and back

RC_GTEST_PROP(Tokenizer, BpeBringsEveryLineBack, ()) {
  const std::string line = *any_line();
  RC_ASSERT(bpe().decode(bpe().encode(line)) == line);
}

RC_GTEST_PROP(Tokenizer, UnigramBringsEveryLineBack, ()) {
  const std::string line = *any_line();
  RC_ASSERT(unigram().decode(unigram().encode(line)) == line);
}

TEST(Tokenizer, BringsCharactersBack) {
  std::string line;
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 61) {
    if (testing::is_surrogate(c) || c == 0x2581) continue;
    line += testing::utf8_of(c);
    if (line.size() < 200) continue;
    ASSERT_EQ(bpe().decode(bpe().encode(line)), line) << "up to " << static_cast<uint32_t>(c);
    ASSERT_EQ(unigram().decode(unigram().encode(line)), line) << static_cast<uint32_t>(c);
    line.clear();
  }
}

TEST(Tokenizer, NfkcFoldsWhatIdentityKeeps) {
  EXPECT_EQ(nfkc().decode(nfkc().encode("ﬁ Ⅷ １２３")), "fi VIII 123");
  EXPECT_EQ(bpe().decode(bpe().encode("ﬁ Ⅷ １２３")), "ﬁ Ⅷ １２３");
}

TEST(Tokenizer, SpecialTokensAreWhereTheHeaderSays) {
  for (const Tokenizer& tokenizer : {bpe(), unigram()}) {
    EXPECT_EQ(tokenizer.piece(Tokenizer::kPad), "<pad>");
    EXPECT_EQ(tokenizer.piece(Tokenizer::kUnknown), "<unk>");
    EXPECT_EQ(tokenizer.piece(Tokenizer::kStart), "<s>");
    EXPECT_EQ(tokenizer.piece(Tokenizer::kEnd), "</s>");
    EXPECT_EQ(tokenizer.start(), Tokenizer::kStart);
    EXPECT_EQ(tokenizer.end(), Tokenizer::kEnd);
  }
}

TEST(Tokenizer, SpecialTokensWriteNothing) {
  const std::vector<int32_t> words = bpe().encode(" how are  you");
  std::vector<int32_t> ids{Tokenizer::kStart};
  for (const int32_t id : words) {
    ids.insert(ids.end(), {id, Tokenizer::kPad, Tokenizer::kUnknown});
  }
  ids.push_back(Tokenizer::kEnd);
  EXPECT_EQ(bpe().decode(ids), " how are  you");
  EXPECT_EQ(bpe().decode(std::vector<int32_t>{0, 1, 2, 3}), "");
}

TEST(Tokenizer, UnwritableAreTheSpecialTokensButEndAndControlCharacters) {
  for (const Tokenizer& tokenizer : {bpe(), unigram(), nfkc()}) {
    ASSERT_EQ(tokenizer.piece(4 + '\n'), "<0x0A>");
    std::vector<int32_t> expected = {0, 1, 2};
    for (int32_t byte = 0; byte < 0x20; ++byte) expected.push_back(4 + byte);
    expected.push_back(4 + 0x7F);
    EXPECT_EQ(tokenizer.unwritable(), expected);
  }
  // Learnt by another program: unknown 0, START 1, END 2, no PAD, bytes from 4 on.
  testing::ModelParts parts;
  parts.pieces +=
      testing::piece("<extra>", PieceType::control) + testing::piece("a\nb", PieceType::normal) +
      testing::piece("<0x0A", PieceType::normal) + testing::piece("a\tb", PieceType::normal) +
      testing::piece("\x1b[2J", PieceType::normal) +
      testing::piece("\xe0\xa4\xae", PieceType::normal);
  const Tokenizer other = Tokenizer::from_bytes(parts.bytes(), "t.model");
  EXPECT_EQ(other.end(), 2);
  std::vector<int32_t> expected = {0, 1};
  for (int32_t byte = 0; byte < 0x20; ++byte) expected.push_back(4 + byte);
  expected.insert(expected.end(), {4 + 0x7F, 260, 261, 263, 264});
  EXPECT_EQ(other.unwritable(), expected);
}

// The text of a special token is text like any other.
TEST(Tokenizer, SpecialTokensCannotBeWritten) {
  for (const int32_t id : bpe().encode("<pad><unk><s></s><0x41>")) EXPECT_GT(id, Tokenizer::kEnd);
}

RC_GTEST_PROP(Tokenizer, AnyIdsDecodeToUtf8, ()) {
  const auto ids = *rc::gen::container<std::vector<int32_t>>(
      rc::gen::inRange<int32_t>(0, static_cast<int32_t>(bpe().vocab())));
  RC_ASSERT(!first_invalid_utf8(bpe().decode(ids)));
}

TEST(Tokenizer, BytesThatAreNoCharacterAreReplaced) {
  std::vector<int32_t> ids = bpe().encode("🦀");  // no piece: four bytes after the blank
  ASSERT_EQ(ids.size(), 5u);
  ids.pop_back();
  EXPECT_EQ(bpe().decode(ids), "\ufffd\ufffd\ufffd");
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  const auto raised = raised_by([] { bpe().encode("how \xff"); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "tokenizer: the text is not UTF-8 at byte 5");
  EXPECT_EQ(raised_by([] { bpe().encode("\xed\xa0\x80", BpeDropout{}); }).code,
            ErrorCode::invalid_argument);
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  const auto last = static_cast<int32_t>(bpe().vocab()) - 1;
  EXPECT_FALSE(bpe().piece(last).empty());
  for (const int32_t id : {-1, last + 1}) {
    EXPECT_EQ(raised_by([&] { bpe().piece(id); }).code, ErrorCode::invalid_argument);
    const auto raised = raised_by([&] { bpe().decode(std::vector<int32_t>{5, id}); });
    EXPECT_EQ(raised.text, concat("tokenizer: id ", id, " to decode, expected 0 to ", last));
  }
}

TEST(Tokenizer, AMegabyteInOneWord) {
  std::string line;
  while (line.size() < 1'000'000) line += "theyहूँ";
  EXPECT_EQ(bpe().decode(bpe().encode(line)), line);
  EXPECT_EQ(bpe().decode(bpe().encode(line, {.probability = 0.5})), line);
}

TEST(Tokenizer, ThreadsShareOne) {
  const std::vector<std::string> lines = sentences();
  std::vector<std::thread> threads;
  std::array<bool, 4> good{};
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t, copy = bpe()] {
      bool all = true;
      for (int round = 0; round < 50; ++round) {
        for (const std::string& line : lines) {
          all = all && copy.decode(copy.encode(line, {.probability = 0.3})) == line;
        }
      }
      good[t] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, (std::array<bool, 4>{true, true, true, true}));
}

// ---- learning

TEST(TokenizerTraining, SameTextSameBytes) {
  for (const TokenizerType type : {TokenizerType::bpe, TokenizerType::unigram}) {
    const TokenizerOptions options{.type = type, .vocab = 400};
    const std::string bytes = learn(sentences(), options).bytes();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(learn(sentences(), options).bytes(), bytes);
    EXPECT_EQ(Tokenizer::from_bytes(bytes, "again").bytes(), bytes);
  }
}

TEST(TokenizerTraining, CountsTheLinesItSkips) {
  std::vector<std::string> lines = sentences();
  const auto usable = static_cast<int64_t>(lines.size());
  const std::vector<std::string> unusable{"", "a ▁ b", "a ▅ b", std::string(101, 'x')};
  lines.insert(lines.begin() + 3, unusable.begin(), unusable.end());
  lines.push_back("");
  TokenizerReport report;
  const TokenizerOptions options{.vocab = 400, .max_line_bytes = 100};
  const Tokenizer tokenizer = learn(lines, options, &report);
  EXPECT_EQ(report.lines, usable);
  EXPECT_EQ(report.skipped, 5);
  EXPECT_EQ(tokenizer.bytes(), learn(sentences(), options).bytes());
}

TEST(TokenizerTraining, LearnsFromOddLines) {
  TokenizerReport report;
  const std::vector<std::string> odd{std::string("a\0b", 3), "\t", " ", "\x01\x7f",
                                     "<s> <0x41> <unk>"};
  const Tokenizer tokenizer = learn(odd, {.vocab = 400}, &report);
  EXPECT_EQ(report.lines, 5);
  for (const std::string& line : odd) EXPECT_EQ(tokenizer.decode(tokenizer.encode(line)), line);
}

TEST(TokenizerTraining, NamesTheSmallestVocabularyThatWorks) {
  for (const TokenizerType type : {TokenizerType::bpe, TokenizerType::unigram}) {
    std::set<char> characters;
    const std::string line = "hello world";
    for (const char c : line) characters.insert(c);
    const auto smallest = static_cast<int64_t>(4 + 256 + characters.size());  // a blank is one
    for (const int64_t vocab : {int64_t{1}, int64_t{4}, int64_t{260}, smallest - 1}) {
      const auto raised = raised_by([&] { learn({line}, {.type = type, .vocab = vocab}); });
      EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
      EXPECT_EQ(raised.text,
                concat("tokenizer: a vocabulary of ", vocab,
                       " is too small for the characters of the text: it takes ", smallest));
    }
    EXPECT_EQ(learn({line}, {.type = type, .vocab = smallest}).vocab(), smallest);
  }
}

TEST(TokenizerTraining, TakesThePiecesThereAre) {
  for (const TokenizerType type : {TokenizerType::bpe, TokenizerType::unigram}) {
    const Tokenizer tokenizer = learn({"hello world"}, {.type = type, .vocab = 30'000});
    EXPECT_LT(tokenizer.vocab(), 300);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("hello world")), "hello world");
    EXPECT_EQ(learn({"hello world"}, {.type = type, .vocab = 30'000}).bytes(), tokenizer.bytes());
  }
}

TEST(TokenizerTraining, UncoveredCharactersAreSpeltInBytes) {
  std::vector<std::string> lines(200, "how are you");
  lines.push_back("ठ");
  const Tokenizer tokenizer = learn(lines, {.vocab = 290, .coverage = 0.99});
  EXPECT_EQ(tokenizer.encode("ठ").size(), 4u);  // the blank and three bytes
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ठ")), "ठ");
}

// Blanks are rare in this text, but spelt in bytes they would not come back as blanks.
TEST(TokenizerTraining, ABlankAlwaysHasAPiece) {
  const std::vector<std::string> lines(3, std::string(300, 'x'));
  const Tokenizer tokenizer = learn(lines, {.vocab = 270, .coverage = 0.98});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" x  y ")), " x  y ");
}

TEST(TokenizerTraining, RefusesNoText) {
  EXPECT_EQ(raised_by([] { learn({}, {}); }).text,
            "tokenizer: no line to learn from: 0 came, each of them empty, too long or with U+2581 "
            "or U+2585");
  EXPECT_EQ(raised_by([] { learn({"", "▁"}, {}); }).code, ErrorCode::invalid_argument);
}

TEST(TokenizerTraining, NamesTheLineThatIsNotUtf8) {
  const auto raised = raised_by([] { learn({"how", "", "are \x80"}, {}); });
  EXPECT_EQ(raised.code, ErrorCode::invalid_argument);
  EXPECT_EQ(raised.text, "tokenizer: line 3 is not UTF-8 at byte 5");
}

TEST(TokenizerTraining, WhatTheSourceThrowsComesOut) {
  int lines = 0;
  const auto next = [&](std::string& line) {
    if (++lines == 3) throw std::runtime_error("disk on fire");
    line = "how are you";
    return true;
  };
  EXPECT_THROW(Tokenizer::train(next, {.vocab = 300}), std::runtime_error);
  EXPECT_EQ(lines, 3);
}

TEST(TokenizerTraining, RefusesOptionsOutOfRange) {
  const auto refused = [](const TokenizerOptions& options) {
    return raised_by([&] { learn(sentences(), options); }).text;
  };
  EXPECT_EQ(refused({.vocab = 0}), "tokenizer: vocab is 0, expected 1 to 1000000");
  EXPECT_EQ(refused({.vocab = 1'000'001}), "tokenizer: vocab is 1000001, expected 1 to 1000000");
  EXPECT_EQ(refused({.coverage = 0.5}), "tokenizer: coverage is 0.5, expected 0.98 to 1");
  EXPECT_EQ(refused({.coverage = 1.5}), "tokenizer: coverage is 1.5, expected 0.98 to 1");
  EXPECT_EQ(refused({.coverage = std::nan("")}), "tokenizer: coverage is nan, expected 0.98 to 1");
  EXPECT_EQ(refused({.max_line_bytes = 0}), "tokenizer: max_line_bytes is 0, expected 1 to 16000");
  EXPECT_EQ(refused({.max_line_bytes = 16'001}),
            "tokenizer: max_line_bytes is 16001, expected 1 to 16000");
}

// SentencePiece reads outside its memory for a word of more than 2^15 characters.
TEST(TokenizerTraining, LearnsFromTheLongestLine) {
  std::string line;
  while (line.size() < 16'000) line += static_cast<char>('a' + line.size() * line.size() % 7);
  std::string folded;  // NFKC: six characters for three bytes
  while (folded.size() + 3 <= 16'000) folded += "㌖";
  for (const TokenizerType type : {TokenizerType::bpe, TokenizerType::unigram}) {
    TokenizerReport report;
    const TokenizerOptions options{
        .type = type, .normalization = Normalization::nfkc, .vocab = 300, .max_line_bytes = 16'000};
    learn({line, folded, line + "a"}, options, &report);
    EXPECT_EQ(report.lines, 2);
    EXPECT_EQ(report.skipped, 1);
  }
}

TEST(TokenizerTraining, SaysNothing) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  learn(sentences(), {.vocab = 400});
  raised_by([] { learn(sentences(), {.vocab = 4}); });
  raised_by([] { learn({}, {}); });
  raised_by([] { Tokenizer::from_bytes("garbage", "f"); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// ---- files

TEST(TokenizerFile, RefusesGarbage) {
  for (const std::string bytes : {"", "garbage", "\n", "{\"format\": 1}"}) {
    const auto raised = raised_by([&] { Tokenizer::from_bytes(bytes, "t.model"); });
    EXPECT_EQ(raised.code, ErrorCode::bad_format);
    EXPECT_TRUE(raised.text.starts_with("t.model: ")) << raised.text;
  }
}

TEST(TokenizerFile, RefusesOneCutOffAnywhere) {
  for (const Tokenizer& tokenizer : {bpe(), unigram()}) {
    const std::string& bytes = tokenizer.bytes();
    for (size_t size = 0; size < bytes.size(); ++size) {
      const auto raised =
          raised_by([&] { Tokenizer::from_bytes(bytes.substr(0, size), "t.model"); });
      ASSERT_TRUE(raised.code == ErrorCode::bad_format || raised.code == ErrorCode::unsupported)
          << size << ": " << raised.text;
    }
  }
}

TEST(TokenizerFile, RefusesOneWithoutStartOrEnd) {
  for (const std::string token : {"<s>", "</s>"}) {
    std::string bytes = bpe().bytes();
    bytes[bytes.find("\x0a" + std::string(1, static_cast<char>(token.size())) + token) + 3] = '?';
    EXPECT_EQ(raised_by([&] { Tokenizer::from_bytes(bytes, "t.model"); }).text,
              "t.model: the tokenizer has no START or no END");
  }
}

// A damaged file is refused, or gives a tokenizer that is good for something.
void use_damaged(std::string bytes) {
  try {
    const Tokenizer tokenizer = Tokenizer::from_bytes(std::move(bytes), "t.model");
    for (const std::string& line : sentences()) tokenizer.decode(tokenizer.encode(line));
  } catch (const Error& error) {
    const bool expected =
        error.code() == ErrorCode::bad_format || error.code() == ErrorCode::unsupported;
    RC_ASSERT(expected);
    RC_ASSERT(std::string_view(error.what()).starts_with("t.model: "));
  }
}

RC_GTEST_PROP(TokenizerFile, SurvivesDamage, ()) {
  const Tokenizer* whole = *rc::gen::element(&bpe(), &unigram(), &nfkc());
  std::string bytes = whole->bytes();
  const auto damage = *rc::gen::container<std::vector<std::pair<size_t, char>>>(
      rc::gen::pair(rc::gen::inRange<size_t>(0, bytes.size()), rc::gen::arbitrary<char>()));
  for (const auto& [at, byte] : damage) bytes[at] = byte;
  use_damaged(bytes);
}

// ---- dropout, by the public interface; bpe_test.cpp has the merging itself

// SentencePiece alone, on the same file.
std::vector<int32_t> encoded_by_sentencepiece(const Tokenizer& tokenizer, const std::string& line) {
  sentencepiece::SentencePieceProcessor processor;
  RC_ASSERT(processor.LoadFromSerializedProto(tokenizer.bytes()).ok());
  return processor.EncodeAsIds(line);
}

RC_GTEST_PROP(TokenizerDropout, WithoutProbabilityIsSentencePiece, ()) {
  const std::string line = *any_line();
  for (const Tokenizer& tokenizer : {bpe(), nfkc()}) {
    const std::vector<int32_t> expected = encoded_by_sentencepiece(tokenizer, line);
    RC_ASSERT(tokenizer.encode(line, {.probability = 0.0, .seed = 1}) == expected);
    RC_ASSERT(tokenizer.encode(line) == expected);
  }
}

RC_GTEST_PROP(TokenizerDropout, BringsEveryLineBack, ()) {
  const std::string line = *any_line();
  const double probability = 0.1 * *rc::gen::inRange(0, 11);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const BpeDropout dropout{probability, seed, 3, 4};
  const std::vector<int32_t> ids = bpe().encode(line, dropout);
  RC_ASSERT(bpe().decode(ids) == line);
  RC_ASSERT(bpe().encode(line, dropout) == ids);
}

TEST(TokenizerDropout, CertainDropoutGivesCharacters) {
  std::vector<std::string> pieces;
  for (const int32_t id : bpe().encode("how हूँ 🦀", {.probability = 1.0})) {
    pieces.push_back(bpe().piece(id));
  }
  EXPECT_EQ(pieces, (std::vector<std::string>{"▁", "h", "o", "w", "▁", "ह", "ू", "ँ", "▁", "<0xF0>",
                                              "<0x9F>", "<0xA6>", "<0x80>"}));
}

TEST(TokenizerDropout, EveryNumberCounts) {
  const std::string line = "the theory that they themselves gathered lowest lower low slow slowest";
  const BpeDropout dropout{.probability = 0.5, .seed = 1, .epoch = 2, .line = 3};
  std::set<std::vector<int32_t>> seen{bpe().encode(line, dropout)};
  for (const int bit : {0, 31, 32, 63}) {
    BpeDropout other = dropout;
    other.seed ^= uint64_t{1} << bit;
    seen.insert(bpe().encode(line, other));
    other = dropout;
    other.epoch ^= uint64_t{1} << bit;
    seen.insert(bpe().encode(line, other));
    other = dropout;
    other.line ^= uint64_t{1} << bit;
    seen.insert(bpe().encode(line, other));
  }
  EXPECT_EQ(seen.size(), 13u);
}

// A resumed run depends on these numbers: they may never change.
TEST(TokenizerDropout, IsTheSameForEver) {
  std::string text;
  for (const int32_t id :
       bpe().encode("they gathered the theory", {.probability = 0.5, .seed = 7})) {
    text += bpe().piece(id) + "|";
  }
  EXPECT_EQ(text, "▁they|▁gat|he|re|d|▁the|▁the|or|y|");
}

TEST(TokenizerDropout, RefusesWhatItCannotDo) {
  EXPECT_EQ(raised_by([] { unigram().encode("how", BpeDropout{}); }).code, ErrorCode::unsupported);
  for (const double probability : {-0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(raised_by([&] { bpe().encode("how", {.probability = probability}); }).code,
              ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace tril::tokenizer_test
