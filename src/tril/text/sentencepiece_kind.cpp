#include "tril/text/sentencepiece_kind.h"

#include <sentencepiece_processor.h>

#include <optional>

#include "tril/base/error.h"
#include "tril/base/rng.h"
#include "tril/text/bpe.h"
#include "tril/text/model_file.h"

namespace tril {
namespace {

// Separates the random numbers of BPE dropout from other uses of the same seed.
constexpr uint32_t kDropoutDomain = 0x62706564;

class SentencePieceKind final : public TokenizerKind {
 public:
  SentencePieceKind(std::shared_ptr<const std::string> bytes, const std::string& file)
      : bytes_(std::move(bytes)), file_(parse_model_file(*bytes_, file)) {
    const auto status = processor_.LoadFromSerializedProto(*bytes_);
    require(status.ok(), ErrorCode::bad_format, file, ": SentencePiece: ", status.ToString());
    if (file_.type == TokenizerType::bpe && BpeMerger::fits(file_.pieces)) {
      merger_.emplace(file_.pieces);
    }
  }

  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }
  const ModelFile& file() const { return file_; }

  int64_t size(TextSide) const override { return processor_.GetPieceSize(); }

  std::vector<int32_t> encode(std::string_view text, TextSide) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    require(status.ok(), ErrorCode::internal, "tokenizer: SentencePiece: ", status.ToString());
    return ids;
  }

  std::vector<int32_t> encode(std::string_view text, const BpeDropout& dropout) const override {
    require(merger_.has_value(), ErrorCode::unsupported,
            "tokenizer: BPE dropout needs a BPE whose pieces are parts of words");
    require(0.0 <= dropout.probability && dropout.probability <= 1.0, ErrorCode::invalid_argument,
            "tokenizer: BPE dropout: the probability is ", dropout.probability,
            ", expected 0 to 1");
    const Words4 key =
        philox(dropout.seed, {static_cast<uint32_t>(dropout.epoch),
                              static_cast<uint32_t>(dropout.epoch >> 32), kDropoutDomain, 0});
    Random random(uint64_t{key[0]} << 32 | key[1], dropout.line);
    std::vector<int32_t> ids;
    merger_->encode(normalized(encode(text, TextSide::source)), dropout.probability, random, ids);
    return ids;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<int> written;
    written.reserve(ids.size());
    for (const int32_t id : ids) {
      if (!is_special(id)) written.push_back(id);
    }
    std::string line;
    const auto status = processor_.Decode(written, &line);
    require(status.ok(), ErrorCode::internal, "tokenizer: SentencePiece: ", status.ToString());
    return line;
  }

  std::string piece(int32_t id, TextSide) const override { return processor_.IdToPiece(id); }

  std::optional<int32_t> find(std::string_view piece, TextSide) const override {
    const int id = processor_.PieceToId(piece);
    if (processor_.IdToPiece(id) != piece) return std::nullopt;  // the unknown one
    return id;
  }

  bool is_special(int32_t id) const override {
    const PieceType type = of(id).type;
    return type == PieceType::control || type == PieceType::unknown;
  }

  std::string bytes_of(int32_t id) const override {
    const ModelPiece& piece = of(id);
    if (piece.type == PieceType::byte) return {static_cast<char>(byte_of(piece))};
    return std::string(piece.text);
  }

 private:
  const ModelPiece& of(int32_t id) const { return file_.pieces[static_cast<size_t>(id)]; }

  // A line as its pieces spell it: normalised, blanks as U+2581.
  std::string normalized(const std::vector<int32_t>& ids) const {
    std::string text;
    for (const int32_t id : ids) text += bytes_of(id);
    return text;
  }

  std::shared_ptr<const std::string> bytes_;
  ModelFile file_;  // refers to the bytes
  sentencepiece::SentencePieceProcessor processor_;
  std::optional<BpeMerger> merger_;  // for a BPE model whose pieces are parts of words
};

std::optional<int32_t> if_any(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }

}  // namespace

MadeTokenizer make_sentencepiece(const std::shared_ptr<const std::string>& bytes,
                                 const std::string& file) {
  auto kind = std::make_unique<SentencePieceKind>(bytes, file);
  const sentencepiece::SentencePieceProcessor& processor = kind->processor();
  require(processor.bos_id() >= 0 && processor.eos_id() >= 0, ErrorCode::bad_format, file,
          ": the tokenizer has no START or no END");
  TokenizerFacts facts;
  facts.start = processor.bos_id();
  facts.ends = {processor.eos_id()};
  facts.pad = if_any(processor.pad_id());
  facts.unknown = if_any(processor.unk_id());
  facts.source.after = facts.target.after = {{LayoutToken::Kind::token, processor.eos_id()}};
  facts.lossless = kind->file().keeps_text;
  return {std::move(kind), std::move(facts)};
}

}  // namespace tril
