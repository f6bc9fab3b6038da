// Unigram: of all ways to cut a word into pieces, the one whose scores have the largest sum.
//
// As the library of Hugging Face computes it, to the last tie: sums in double from the left, the
// first of equals kept, 10 below the lowest score for a character without a piece, and neighbouring
// characters of this kind fused into one.
#include <algorithm>
#include <limits>
#include <utility>

#include "tril/text/pipeline/piece_model.h"
#include "tril/text/pipeline/prefix_tree.h"
#include "tril/text/unicode.h"

namespace tril::pipeline {
namespace {

constexpr double kUnknownPenalty = 10.0;

class Unigram final : public PieceModel {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unknown,
          bool byte_fallback)
      : scores_(std::move(scores)), unknown_(unknown), byte_fallback_(byte_fallback) {
    vocabulary_ = std::move(vocabulary);
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary_.size()); ++id) {
      tree_.add(*vocabulary_.piece(id), id);
    }
    for (const double score : scores_) lowest_ = std::min(lowest_, score);
    bytes_ = byte_pieces(vocabulary_);
  }

  std::optional<int32_t> unknown() const override { return unknown_; }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    std::vector<Node> best(word.size() + 1);
    find_best(word, best);
    const size_t begin = ids.size();
    // From the end to the beginning; what no piece covers grows to the left until a piece comes.
    size_t fused_end = word.size();
    bool fusing = false;
    const auto add_fused = [&](size_t from) {
      if (fusing) add_unknown(word.substr(from, fused_end - from), ids);
      fusing = false;
    };
    for (size_t end = word.size(); end > 0;) {
      const Node& node = best[end];
      if (unknown_ && node.id == *unknown_) {
        if (!fusing) fused_end = end;
        fusing = true;
      } else {
        add_fused(end);
        ids.push_back(node.id);
      }
      end = node.begin;
    }
    add_fused(0);
    std::reverse(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end());
  }

 private:
  static constexpr size_t kUnreached = std::numeric_limits<size_t>::max();
  // The best way to reach a place in the word: its last piece.
  struct Node {
    double score = 0.0;
    size_t begin = kUnreached;
    int32_t id = 0;
  };

  static void improve(Node& node, double score, size_t begin, int32_t id) {
    if (node.begin == kUnreached || score > node.score) node = {score, begin, id};
  }

  void find_best(std::string_view word, std::vector<Node>& best) const {
    for (size_t begin = 0; begin < word.size();) {
      const size_t character = utf8_bytes(word[begin]);
      const double so_far = best[begin].score;
      bool has_character = false;
      tree_.each_prefix(word.substr(begin), [&](size_t bytes, int32_t id) {
        improve(best[begin + bytes], scores_[static_cast<size_t>(id)] + so_far, begin, id);
        has_character = has_character || bytes == character;
      });
      if (!has_character) {
        require(unknown_.has_value(), ErrorCode::invalid_argument,
                "tokenizer: a character that no piece covers, and no piece for the unknown");
        improve(best[begin + character], lowest_ - kUnknownPenalty + so_far, begin, *unknown_);
      }
      begin += character;
    }
  }

  // In reverse. What was fused may be a piece by chance.
  void add_unknown(std::string_view text, std::vector<int32_t>& ids) const {
    if (const auto piece = vocabulary_.find(text)) {
      ids.push_back(*piece);
      return;
    }
    const auto id_of = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
    if (byte_fallback_ &&
        std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; })) {
      for (size_t i = text.size(); i > 0; --i) ids.push_back(id_of(text[i - 1]));
      return;
    }
    ids.push_back(*unknown_);
  }

  std::vector<double> scores_;
  std::optional<int32_t> unknown_;
  bool byte_fallback_ = false;
  double lowest_ = std::numeric_limits<double>::infinity();
  PrefixTree tree_;
  std::vector<int32_t> bytes_;
};

}  // namespace

std::unique_ptr<const PieceModel> make_unigram(Component component) {
  const std::string where = component.where() + ": vocab";
  const JsonValue& list = component.get("vocab");
  if (list.kind != JsonValue::Kind::array) component.fail_field("vocab", "an array");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const JsonValue& entry : list.items) {
    const auto id = static_cast<int32_t>(scores.size());
    require(entry.items.size() == 2 && entry.names.empty() &&
                entry.items[0].kind == JsonValue::Kind::string && !entry.items[0].text.empty() &&
                (entry.items[1].kind == JsonValue::Kind::number ||
                 entry.items[1].kind == JsonValue::Kind::integer),
            ErrorCode::bad_format, where, ": ", id, ": expected a piece and its score");
    vocabulary.add(entry.items[0].text, id, where);
    scores.push_back(entry.items[1].number);
  }
  require(!scores.empty(), ErrorCode::bad_format, where, ": it is empty");
  std::optional<int32_t> unknown;
  if (component.find("unk_id") != nullptr) {
    unknown = static_cast<int32_t>(
        component.number("unk_id", 0, static_cast<int64_t>(scores.size()) - 1));
  }
  const bool byte_fallback = component.flag_or("byte_fallback", false);
  if (component.find("alpha") != nullptr && component.get("alpha").number != 0.0) {
    component.refuse("alpha: sampling is not supported");
  }
  component.ignore({"nbest_size"});
  component.finish();
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown,
                                   byte_fallback);
}

}  // namespace tril::pipeline
