#include "tril/text/bpe.h"

#include <algorithm>

namespace tril {
namespace {

constexpr std::string_view kBlank = "\u2581";

// The length of the first word of `text`, up to the next blank.
size_t word_bytes(std::string_view text) { return std::min(text.find(kBlank, 1), text.size()); }

size_t character_bytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

}  // namespace

// One word being merged from characters to pieces. Reused from word to word for its memory.
class BpeMerger::Word {
 public:
  explicit Word(const BpeMerger& merger) : merger_(merger) {}

  void merge(std::string_view text, double dropout, Random& random) {
    text_ = text;
    split_into_characters();
    pairs_.clear();
    for (int32_t i = 0; i + 1 < size(symbols_); ++i) add_pair(i, i + 1);
    passed_over_.clear();
    while (!pairs_.empty()) {
      const Pair pair = take_best();
      if (is_stale(pair)) continue;
      if (static_cast<double>(random.uniform()) < dropout) {
        passed_over_.push_back(pair);
        continue;
      }
      join(pair);
      for (const Pair& candidate : passed_over_) put(candidate);
      passed_over_.clear();
    }
  }

  void append_ids(std::vector<int32_t>& ids) const {
    for (int32_t i = 0; i >= 0; i = at(i).next) {
      const std::string_view symbol = text_.substr(at(i).begin, at(i).bytes);
      if (const auto found = merger_.pieces_.find(symbol); found != merger_.pieces_.end()) {
        ids.push_back(found->second.id);
      } else {
        for (const char byte : symbol) ids.push_back(merger_.byte_ids_[static_cast<uint8_t>(byte)]);
      }
    }
  }

 private:
  struct Symbol {
    size_t begin = 0;
    size_t bytes = 0;  // 0 once the symbol is part of the one before it
    int32_t previous = -1;
    int32_t next = -1;
  };
  struct Pair {
    float score = 0.0f;
    int32_t left = 0;
    int32_t right = 0;
    size_t bytes = 0;
  };
  // Orders the heap: the pair to merge first is on top.
  static bool comes_later(const Pair& a, const Pair& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
  static int32_t size(const std::vector<Symbol>& symbols) {
    return static_cast<int32_t>(symbols.size());
  }
  Symbol& at(int32_t i) { return symbols_[static_cast<size_t>(i)]; }
  const Symbol& at(int32_t i) const { return symbols_[static_cast<size_t>(i)]; }

  void split_into_characters() {
    symbols_.clear();
    for (size_t begin = 0; begin < text_.size();) {
      const size_t bytes = std::min(character_bytes(text_[begin]), text_.size() - begin);
      symbols_.push_back({begin, bytes, size(symbols_) - 1, size(symbols_) + 1});
      begin += bytes;
    }
    symbols_.back().next = -1;
  }
  void put(const Pair& pair) {
    pairs_.push_back(pair);
    std::push_heap(pairs_.begin(), pairs_.end(), comes_later);
  }
  Pair take_best() {
    std::pop_heap(pairs_.begin(), pairs_.end(), comes_later);
    const Pair best = pairs_.back();
    pairs_.pop_back();
    return best;
  }
  void add_pair(int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const size_t bytes = at(left).bytes + at(right).bytes;
    const auto found = merger_.pieces_.find(text_.substr(at(left).begin, bytes));
    if (found == merger_.pieces_.end() || !found->second.merges) return;
    put({found->second.score, left, right, bytes});
  }
  // One of the two has been merged with another symbol since.
  bool is_stale(const Pair& pair) const {
    return at(pair.left).bytes == 0 || at(pair.right).bytes == 0 ||
           at(pair.left).bytes + at(pair.right).bytes != pair.bytes;
  }
  void join(const Pair& pair) {
    Symbol& left = at(pair.left);
    Symbol& right = at(pair.right);
    left.bytes = pair.bytes;
    left.next = right.next;
    if (right.next >= 0) at(right.next).previous = pair.left;
    right.bytes = 0;
    add_pair(left.previous, pair.left);
    add_pair(pair.left, left.next);
  }

  const BpeMerger& merger_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> pairs_;        // a heap
  std::vector<Pair> passed_over_;  // since the last merge
};

bool BpeMerger::fits(const std::vector<ModelPiece>& pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const ModelPiece& piece) {
    return piece.type != PieceType::normal || word_bytes(piece.text) == piece.text.size();
  });
}

BpeMerger::BpeMerger(const std::vector<ModelPiece>& pieces) {
  pieces_.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ModelPiece& piece = pieces[i];
    const auto id = static_cast<int32_t>(i);
    const bool merges = piece.type == PieceType::normal;
    pieces_.emplace(piece.text, Piece{id, piece.score, merges});
    if (piece.type == PieceType::byte) byte_ids_[byte_of(piece)] = id;
  }
}

void BpeMerger::encode(std::string_view text, double dropout, Random& random,
                       std::vector<int32_t>& ids) const {
  Word word(*this);
  while (!text.empty()) {
    const size_t bytes = word_bytes(text);
    word.merge(text.substr(0, bytes), dropout, random);
    word.append_ids(ids);
    text.remove_prefix(bytes);
  }
}

}  // namespace tril
