// BPE: a word begins as its characters, and the pair of neighbours that comes first in the list of
// merges is merged, the leftmost of equals, until none is left.
#include <algorithm>
#include <limits>
#include <utility>

#include "tril/text/pipeline/hash_table.h"
#include "tril/text/pipeline/piece_model.h"
#include "tril/text/unicode.h"

namespace tril::pipeline {
namespace {

// Pieces of characters below this, which byte-level BPE uses alone, come from a table.
constexpr char32_t kTableEnd = 0x400;

struct BpeOptions {
  std::optional<int32_t> unknown;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

struct BpeMerges {
  HashTable ranks;            // (left, right) to rank
  std::vector<int32_t> made;  // what a merge makes, by rank

  void add(int32_t left, int32_t right, int32_t piece) {
    const uint64_t key = key_of(left, right);
    // Of a pair that stands twice the later rank counts.
    const int32_t before = ranks.find(key);
    if (before == HashTable::kNone) {
      ranks.add(key, static_cast<int32_t>(made.size()));
    } else {
      ranks.replace(key, static_cast<int32_t>(made.size()));
    }
    made.push_back(piece);
  }
  int32_t rank(int32_t left, int32_t right) const { return ranks.find(key_of(left, right)); }

 private:
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
};

// One word being merged.
class MergedWord {
 public:
  explicit MergedWord(const BpeMerges& merges) : merges_(merges) {}

  void add(int32_t id) { symbols_.push_back({id, size() - 1, size() + 1, true}); }

  void merge() {
    if (symbols_.empty()) return;
    symbols_.back().next = kEnd;
    for (int32_t i = 0; i + 1 < size(); ++i) consider(i, i + 1);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), later);
      const Candidate best = queue_.back();
      queue_.pop_back();
      if (is_current(best)) join(best);
    }
  }

  void append_ids(std::vector<int32_t>& ids) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.alive) ids.push_back(symbol.id);
    }
  }

 private:
  static constexpr int32_t kEnd = -1;
  struct Symbol {
    int32_t id = 0;
    int32_t previous = 0;
    int32_t next = 0;
    bool alive = true;
  };
  struct Candidate {
    int32_t rank = 0;
    int32_t left = 0;
  };

  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
  int32_t size() const { return static_cast<int32_t>(symbols_.size()); }
  Symbol& at(int32_t i) { return symbols_[static_cast<size_t>(i)]; }
  int32_t made(int32_t rank) const { return merges_.made[static_cast<size_t>(rank)]; }

  void consider(int32_t left, int32_t right) {
    const int32_t rank = merges_.rank(at(left).id, at(right).id);
    if (rank == HashTable::kNone) return;
    queue_.push_back({rank, left});
    std::push_heap(queue_.begin(), queue_.end(), later);
  }
  // As Hugging Face's library decides: whether the neighbours that are there now make the same
  // piece, even if by another merge.
  bool is_current(const Candidate& candidate) {
    const Symbol& left = at(candidate.left);
    if (!left.alive || left.next == kEnd) return false;
    const int32_t rank = merges_.rank(left.id, at(left.next).id);
    return rank != HashTable::kNone && made(rank) == made(candidate.rank);
  }
  void join(const Candidate& candidate) {
    Symbol& left = at(candidate.left);
    Symbol& right = at(left.next);
    left.id = made(candidate.rank);
    left.next = right.next;
    right.alive = false;
    if (right.next != kEnd) at(right.next).previous = candidate.left;
    if (left.previous >= 0) consider(left.previous, candidate.left);
    if (left.next != kEnd) consider(candidate.left, left.next);
  }

  const BpeMerges& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;  // a heap
};

class Bpe final : public PieceModel {
 public:
  Bpe(Vocabulary vocabulary, BpeMerges merges, const BpeOptions& options)
      : merges_(std::move(merges)), options_(options) {
    vocabulary_ = std::move(vocabulary);
    bytes_ = byte_pieces(vocabulary_);
    for (char32_t c = 0; c < kTableEnd; ++c) {
      const auto piece = vocabulary_.find(encode_utf8({&c, 1}));
      characters_.push_back(piece ? *piece : -1);
    }
  }

  std::optional<int32_t> unknown() const override { return options_.unknown; }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const auto piece = vocabulary_.find(word)) {
        ids.push_back(*piece);
        return;
      }
    }
    MergedWord merged(merges_);
    split(word, merged);
    merged.merge();
    merged.append_ids(ids);
  }

 private:
  void split(std::string_view word, MergedWord& merged) const {
    bool pending = false;  // one or several characters that no piece covers
    for (size_t begin = 0; begin < word.size();) {
      const std::string_view character = word.substr(begin, utf8_bytes(word[begin]));
      begin += character.size();
      if (const int32_t id = piece_of(character); id >= 0) {
        if (pending) merged.add(*options_.unknown);
        pending = false;
        merged.add(id);
      } else if (!add_bytes(character, merged) && options_.unknown) {
        if (pending && !options_.fuse_unknown) merged.add(*options_.unknown);
        pending = true;
      }
    }
    if (pending) merged.add(*options_.unknown);
  }

  int32_t piece_of(std::string_view character) const {
    const auto byte = [&](size_t i) {
      return static_cast<char32_t>(static_cast<uint8_t>(character[i]));
    };
    if (character.size() == 1) return characters_[byte(0)];
    if (character.size() == 2) {
      const char32_t c = (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
      if (c < kTableEnd) return characters_[c];
    }
    const auto piece = vocabulary_.find(character);
    return piece ? *piece : -1;
  }

  bool add_bytes(std::string_view character, MergedWord& merged) const {
    const auto id_of = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
    if (!options_.byte_fallback ||
        std::any_of(character.begin(), character.end(), [&](char b) { return id_of(b) < 0; })) {
      return false;
    }
    for (const char byte : character) merged.add(id_of(byte));
    return true;
  }

  BpeMerges merges_;
  BpeOptions options_;
  std::vector<int32_t> bytes_;
  std::vector<int32_t> characters_;  // the piece of each below kTableEnd
};

class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::string where)
      : vocabulary_(vocabulary), where_(std::move(where)) {}

  void add(std::string_view left, std::string_view right) {
    const int32_t a = id_of(left);
    const int32_t b = id_of(right);
    const std::string both = std::string(left) + std::string(right);
    merges_.add(a, b, id_of(both));
  }
  // "a b"
  void add(std::string_view line) {
    const size_t at = line.find(' ');
    require(at != std::string_view::npos && line.find(' ', at + 1) == std::string_view::npos,
            ErrorCode::bad_format, where_, ": ", merges_.made.size(),
            ": expected two pieces with a blank between, got ", printable(line));
    add(line.substr(0, at), line.substr(at + 1));
  }
  BpeMerges take() { return std::move(merges_); }

 private:
  int32_t id_of(std::string_view piece) const {
    const auto id = vocabulary_.find(piece);
    require(id.has_value(), ErrorCode::bad_format, where_, ": ", merges_.made.size(), ": ",
            printable(piece), " is not in the vocabulary");
    return *id;
  }

  const Vocabulary& vocabulary_;
  std::string where_;
  BpeMerges merges_;
};

BpeMerges read_merges(Component& component, const Vocabulary& vocabulary) {
  MergeReader reader(vocabulary, component.where() + ": merges");
  const JsonValue& list = component.get("merges");
  if (list.kind != JsonValue::Kind::array) component.fail_field("merges", "an array");
  for (const JsonValue& merge : list.items) {
    if (merge.kind == JsonValue::Kind::string) {
      reader.add(merge.text);
      continue;
    }
    const auto is_text = [](const JsonValue& v) { return v.kind == JsonValue::Kind::string; };
    if (merge.kind != JsonValue::Kind::array || merge.items.size() != 2 ||
        !is_text(merge.items[0]) || !is_text(merge.items[1])) {
      component.fail_field("merges", "an array of pairs");
    }
    reader.add(merge.items[0].text, merge.items[1].text);
  }
  return reader.take();
}

}  // namespace

std::vector<int32_t> byte_pieces(const Vocabulary& vocabulary) {
  const std::string_view digits = "0123456789ABCDEF";
  std::vector<int32_t> ids;
  for (const char high : digits) {
    for (const char low : digits) {
      const auto id = vocabulary.find(std::string("<0x") + high + low + ">");
      ids.push_back(id ? *id : -1);
    }
  }
  return ids;
}

std::unique_ptr<const PieceModel> make_bpe(Component component) {
  Vocabulary vocabulary =
      Vocabulary::from_json(component.get("vocab"), component.where() + ": vocab");
  BpeOptions options;
  options.fuse_unknown = component.flag_or("fuse_unk", false);
  options.byte_fallback = component.flag_or("byte_fallback", false);
  options.ignore_merges = component.flag_or("ignore_merges", false);
  const std::string unknown = component.text_or("unk_token", "");
  if (!unknown.empty()) {
    options.unknown = vocabulary.find(unknown);
    require(options.unknown.has_value(), ErrorCode::bad_format, component.where(),
            ": unk_token: ", printable(unknown), " is not in the vocabulary");
  }
  // BART's and GPT-2's files say "", which adds nothing.
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!component.text_or(affix, "").empty()) {
      component.refuse(concat(affix, " is not supported"));
    }
  }
  if (component.find("dropout") != nullptr && component.get("dropout").number != 0.0) {
    component.refuse("dropout is not supported");
  }
  BpeMerges merges = read_merges(component, vocabulary);
  component.finish();
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), options);
}

std::unique_ptr<const PieceModel> make_bpe(Vocabulary vocabulary, std::string_view merges,
                                           const std::string& where) {
  MergeReader reader(vocabulary, where);
  for (bool first = true; !merges.empty(); first = false) {
    const size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    reader.add(line);
  }
  BpeMerges made = reader.take();
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(made), BpeOptions{});
}

std::unique_ptr<const PieceModel> make_model(Component component) {
  std::string type = component.type();
  // Files from before the type was written say by their fields what they are.
  if (type.empty()) type = component.find("merges") != nullptr ? "BPE" : "Unigram";
  if (type == "BPE") return make_bpe(std::move(component));
  if (type == "Unigram") return make_unigram(std::move(component));
  component.refuse(
      concat("the model ", printable(type), " is not supported, only BPE and Unigram"));
}

}  // namespace tril::pipeline
