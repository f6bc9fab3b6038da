#include "tril/text/bpe.h"

#include <algorithm>
#include <functional>
#include <map>

#include "text_support.h"

namespace tril::bpe_test {
namespace {

struct Model {
  ModelFile file = parse_model_file(testing::bpe().bytes(), "t.model");
  BpeMerger merger{file.pieces};
  std::map<std::string, float, std::less<>> scores;

  Model() {
    for (const ModelPiece& piece : file.pieces) {
      if (piece.type == PieceType::normal) scores.emplace(piece.text, piece.score);
    }
  }
};

const Model& model() {
  static const Model one;
  return one;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  for (const char byte : text) {
    if ((byte & 0xc0) == 0x80) {
      characters.back() += byte;
    } else {
      characters.emplace_back(1, byte);
    }
  }
  return characters;
}

// Algorithm 1 of the paper word by word: before each merge all pairs are drawn for, best first,
// as far as the first that is not passed over.
std::vector<std::string> plainly_merged(std::string_view word, double dropout, Random& random) {
  std::vector<std::string> symbols = characters_of(word);
  for (;;) {
    std::vector<size_t> pairs;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (model().scores.contains(symbols[i] + symbols[i + 1])) pairs.push_back(i);
    }
    const auto score = [&](size_t i) {
      return model().scores.find(symbols[i] + symbols[i + 1])->second;
    };
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](size_t a, size_t b) { return score(a) > score(b); });
    const auto chosen = std::find_if(pairs.begin(), pairs.end(), [&](size_t) {
      return static_cast<double>(random.uniform()) >= dropout;
    });
    if (chosen == pairs.end()) return symbols;
    symbols[*chosen] += symbols[*chosen + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*chosen) + 1);
  }
}

// A piece as text; bytes joined to the characters they spell.
std::vector<std::string> texts_of(const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  for (const int32_t id : ids) {
    const ModelPiece& piece = model().file.pieces[static_cast<size_t>(id)];
    if (piece.type != PieceType::byte) {
      texts.emplace_back(piece.text);
    } else if (const auto byte = static_cast<char>(byte_of(piece)); (byte & 0xc0) == 0x80) {
      texts.back() += byte;
    } else {
      texts.emplace_back(1, byte);
    }
  }
  return texts;
}

RC_GTEST_PROP(Bpe, IsThePapersAlgorithm, ()) {
  std::string text;
  for (const char byte : *testing::any_line()) {
    if (byte == ' ') {
      text += "▁";
    } else {
      text += byte;
    }
  }
  const double dropout = *rc::gen::element(0.0, 0.1, 0.5, 0.9, 1.0);
  const auto seed = *rc::gen::arbitrary<uint64_t>();

  Random plain_random(seed);
  std::vector<std::string> expected;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find("▁", begin + 1), text.size());
    const auto word = std::string_view(text).substr(begin, end - begin);
    for (std::string& symbol : plainly_merged(word, dropout, plain_random)) {
      expected.push_back(std::move(symbol));
    }
    begin = end;
  }

  Random random(seed);
  std::vector<int32_t> ids;
  model().merger.encode(text, dropout, random, ids);
  RC_ASSERT(texts_of(ids) == expected);
}

// The first merge of a word is passed over as often as the probability says, at a fixed seed.
TEST(Bpe, PassesOverWithTheProbability) {
  const ModelPiece h{"h", 0, PieceType::normal};
  const ModelPiece o{"o", 0, PieceType::normal};
  const ModelPiece ho{"ho", 0, PieceType::normal};
  const BpeMerger merger({h, o, ho});
  Random random(1);
  int apart = 0;
  const int words = 100'000;
  for (int i = 0; i < words; ++i) {
    std::vector<int32_t> ids;
    merger.encode("ho", 0.25, random, ids);
    apart += ids.size() == 2 ? 1 : 0;
  }
  EXPECT_NEAR(apart, 25'000, 5 * 137);  // five standard deviations of the binomial
}

TEST(Bpe, DoesNotFitPiecesOfTwoWords) {
  const ModelPiece one{"▁how", 0, PieceType::normal};
  const ModelPiece two{"▁how▁are", 0, PieceType::normal};
  const ModelPiece token{"▁▁", 0, PieceType::control};
  EXPECT_TRUE(BpeMerger::fits({one, token}));
  EXPECT_FALSE(BpeMerger::fits({one, two}));
  EXPECT_FALSE(BpeMerger::fits({{"▁▁", 0, PieceType::normal}}));
}

}  // namespace
}  // namespace tril::bpe_test
