#include "tril/text/numbered_pieces.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/model_file.h"
#include "tril/text/unicode.h"

namespace tril {
namespace {

// One SentencePiece model and the ids of its pieces.
class NumberedSide {
 public:
  explicit NumberedSide(PieceFile file) : numbering_(std::move(file.numbering)) {
    const ModelFile model = parse_model_file(file.bytes, file.name, ModelOrigin::anyone);
    const auto status = processor_.LoadFromSerializedProto(file.bytes);
    require(status.ok(), ErrorCode::bad_format, file.name, ": SentencePiece: ", status.ToString());
    if (!numbering_.unknown) numbering_.unknown = processor_.unk_id() + numbering_.offset;
    for (const ModelPiece& piece : model.pieces) types_.push_back(piece.type);
  }

  int64_t size() const {
    return numbering_.listed ? numbering_.listed->size()
                             : int64_t{processor_.GetPieceSize()} + numbering_.offset;
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) const {
    if (numbering_.listed) {
      std::vector<std::string> pieces;
      check(processor_.Encode(text, &pieces));
      for (const std::string& piece : pieces) ids.push_back(listed(piece));
      return;
    }
    std::vector<int> numbers;
    check(processor_.Encode(text, &numbers));
    for (const int number : numbers) {
      ids.push_back(number == processor_.unk_id() ? *numbering_.unknown
                                                  : number + numbering_.offset);
    }
  }

  int32_t listed(std::string_view piece) const {
    const auto id = numbering_.listed->find(piece);
    return id ? *id : *numbering_.unknown;
  }

  std::optional<int32_t> find(std::string_view piece) const {
    if (numbering_.listed) return numbering_.listed->find(piece);
    const int number = processor_.PieceToId(piece);
    if (processor_.IdToPiece(number) != piece) return std::nullopt;
    return number == processor_.unk_id() ? *numbering_.unknown : number + numbering_.offset;
  }

  // Empty for an id without a piece.
  std::string piece(int32_t id) const {
    if (numbering_.listed) {
      const std::string* text = numbering_.listed->piece(id);
      return text == nullptr ? "" : *text;
    }
    if (id == *numbering_.unknown) return processor_.IdToPiece(processor_.unk_id());
    const int32_t number = id - numbering_.offset;
    if (number < 0 || number >= processor_.GetPieceSize()) return "";
    return processor_.IdToPiece(number);
  }

  bool is_unknown(int32_t id) const { return id == *numbering_.unknown; }
  bool is_control(int32_t id) const {
    if (numbering_.listed) return false;
    const int32_t number = id - numbering_.offset;
    return number >= 0 && number < processor_.GetPieceSize() &&
           types_[static_cast<size_t>(number)] == PieceType::control;
  }

  std::string joined_by_library(const std::vector<std::string>& pieces) const {
    std::string text;
    check(processor_.Decode(pieces, &text));
    return text;
  }

 private:
  static void check(const sentencepiece::util::Status& status) {
    require(status.ok(), ErrorCode::internal, "tokenizer: SentencePiece: ", status.ToString());
  }

  Numbering numbering_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<PieceType> types_;
};

class NumberedKind final : public TokenizerKind {
 public:
  explicit NumberedKind(NumberedPieces pieces)
      : source_(std::move(pieces.source)),
        added_(std::move(pieces.added)),
        target_added_(std::move(pieces.target_added)),
        cuts_language_(pieces.cuts_language),
        decodes_by_library_(pieces.decodes_by_library),
        decodes_with_source_(pieces.decodes_with_source),
        strips_(pieces.strips) {
    if (pieces.target) target_.emplace(std::move(*pieces.target));
    for (const TextSide side : {TextSide::source, TextSide::target}) {
      int64_t& size = sizes_[static_cast<size_t>(side)] = of(side).size();
      for (const pipeline::AddedToken& token : added_of(side).all()) {
        size = std::max<int64_t>(size, token.id + 1);
      }
    }
  }

  int64_t size(TextSide side) const override { return sizes_[static_cast<size_t>(side)]; }

  std::vector<int32_t> encode(std::string_view text, TextSide side) const override {
    std::vector<int32_t> ids;
    for (const pipeline::Found& found : added_of(side).split(text, false)) {
      if (found.token) {
        ids.push_back(*found.token);
      } else if (!found.text.empty()) {
        of(side).encode(without_language(found.text, side, ids), ids);
      }
    }
    return ids;
  }
  using TokenizerKind::encode;

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> pieces;
    for (const int32_t id : ids) {
      if (!is_special(id)) pieces.push_back(piece(id, TextSide::target));
    }
    std::string text;
    if (decodes_by_library_) {
      text = (decodes_with_source_ ? source_ : of(TextSide::target)).joined_by_library(pieces);
    } else {
      for (const std::string& one : pieces) text += one;
    }
    text = with_blanks(text);
    return strips_ ? std::string(strip(text)) : text;
  }

  std::string piece(int32_t id, TextSide side) const override {
    if (const pipeline::AddedToken* token = added_of(side).find(id)) return token->content;
    const std::string text = of(side).piece(id);
    return text.empty() ? "<padding>" : text;
  }

  std::optional<int32_t> find(std::string_view piece, TextSide side) const override {
    const auto added = added_of(side).find(piece);
    return added ? added : of(side).find(piece);
  }

  bool is_special(int32_t id) const override {
    if (const auto* token = added_of(TextSide::target).find(id)) return token->special;
    const NumberedSide& side = of(TextSide::target);
    return side.is_unknown(id) || side.is_control(id) || side.piece(id).empty();
  }

  std::string bytes_of(int32_t id) const override {
    const std::string text = piece(id, TextSide::target);
    if (text.size() != 6 || !text.starts_with("<0x")) return text;
    return {static_cast<char>(byte_of({text, 0.0f, PieceType::byte}))};
  }

 private:
  // U+2581 as a blank.
  static std::string with_blanks(std::string_view text) {
    constexpr std::string_view kMark = "\u2581";
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
      const bool is_mark = text.starts_with(kMark);
      result += is_mark ? ' ' : text[0];
      text.remove_prefix(is_mark ? kMark.size() : 1);
    }
    return result;
  }

  const NumberedSide& of(TextSide side) const {
    return side == TextSide::target && target_ ? *target_ : source_;
  }

  const pipeline::AddedTokens& added_of(TextSide side) const {
    return side == TextSide::target && target_ ? target_added_ : added_;
  }

  // ">>fra<< text": the token is looked up whole.
  std::string_view without_language(std::string_view text, TextSide side,
                                    std::vector<int32_t>& ids) const {
    if (!cuts_language_ || !text.starts_with(">>")) return text;
    const size_t end = text.find("<<");
    if (end == std::string_view::npos) return text;
    ids.push_back(of(side).listed(text.substr(0, end + 2)));
    return text.substr(end + 2);
  }

  NumberedSide source_;
  std::optional<NumberedSide> target_;
  pipeline::AddedTokens added_, target_added_;
  bool cuts_language_, decodes_by_library_, decodes_with_source_, strips_;
  std::array<int64_t, 2> sizes_{};  // by side
};

}  // namespace

std::unique_ptr<const TokenizerKind> make_numbered_pieces(NumberedPieces pieces) {
  return std::make_unique<NumberedKind>(std::move(pieces));
}

PieceList list_pieces(std::string_view bytes, const std::string& file) {
  const ModelFile model = parse_model_file(bytes, file, ModelOrigin::anyone);
  PieceList list;
  for (const ModelPiece& piece : model.pieces) {
    if (piece.type != PieceType::normal) list.special.emplace(piece.text, list.size);
    ++list.size;
  }
  return list;
}

}  // namespace tril
