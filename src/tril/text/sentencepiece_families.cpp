// Folders without a tokenizer.json: SentencePiece's pieces, numbered as each family does.
#include <algorithm>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/language_lists.h"
#include "tril/text/numbered_pieces.h"
#include "tril/text/tokenizer_families.h"

namespace tril {
namespace {

constexpr JsonLimits kVocabLimits{.max_bytes = 1 << 27, .max_depth = 2, .max_values = 1 << 23};

pipeline::Vocabulary read_vocab(const FolderOfFiles& files, std::string_view name) {
  const std::string path = files.path(name);
  return pipeline::Vocabulary::from_json(parse_json(files.content(name), path, kVocabLimits), path);
}

pipeline::AddedToken special_token(std::string content, int32_t id) {
  pipeline::AddedToken token{std::move(content), id};
  token.special = true;
  return token;
}

int32_t id_in(const pipeline::Vocabulary& vocabulary, std::string_view piece,
              const std::string& path) {
  const auto id = vocabulary.find(piece);
  require(id.has_value(), ErrorCode::bad_format, path, ": no piece ", piece);
  return *id;
}

std::string name_of(const FolderOfFiles& files, std::string_view field, std::string_view usual) {
  return files.config.special_token(field).value_or(std::string(usual));
}

TokenLayout then_end(int32_t end) { return {{}, {{LayoutToken::Kind::token, end}}}; }

std::string_view plain_model_name(const FolderOfFiles& files) {
  return files.has("spiece.model") ? "spiece.model" : "tokenizer.model";
}

// Pegasus: <pad>, </s>, two masks and names for 101 tokens of its pretraining come first.
void add_pegasus_tokens(int32_t offset, pipeline::AddedTokens& added) {
  const std::vector<std::string> first = {"<pad>", "</s>", "<mask_1>", "<mask_2>"};
  for (int32_t id = 0; id < offset; ++id) {
    const auto place = static_cast<size_t>(id);
    added.add(special_token(place < first.size() ? first[place] : concat("<unk_", id - 2, ">"), id),
              nullptr);
  }
}

// T5: <extra_id_99> to <extra_id_0> come last.
void add_extra_ids(const FolderOfFiles& files, int32_t pieces, pipeline::AddedTokens& added) {
  constexpr int64_t kUsual = 100, kMost = 100'000;
  const auto count = static_cast<int32_t>(
      std::clamp<int64_t>(files.config.number("extra_ids").value_or(kUsual), 0, kMost));
  for (int32_t i = 0; i < count; ++i) {
    added.add(special_token(concat("<extra_id_", i, ">"), pieces + count - 1 - i), nullptr);
  }
}

}  // namespace

MadeTokenizer make_marian(const FolderOfFiles& files) {
  const bool separate =
      files.config.flag("separate_vocabs").value_or(files.has("target_vocab.json"));
  const std::string unknown = name_of(files, "unk_token", "<unk>");
  const std::string path = files.path("vocab.json");
  NumberedPieces pieces;
  const auto side = [&](std::string_view spm, std::string_view vocab) {
    PieceFile file{files.content(spm), files.path(spm)};
    file.numbering.listed = read_vocab(files, vocab);
    file.numbering.unknown = id_in(*file.numbering.listed, unknown, files.path(vocab));
    return file;
  };
  pieces.source = side("source.spm", "vocab.json");
  pieces.target = side("target.spm", separate ? "target_vocab.json" : "vocab.json");
  pieces.cuts_language = true;
  pieces.decodes_with_source = !separate;
  const pipeline::Vocabulary& target = *pieces.target->numbering.listed;
  TokenizerFacts facts;
  facts.unknown = pieces.target->numbering.unknown;
  facts.ends = {id_in(target, name_of(files, "eos_token", "</s>"), path)};
  facts.pad = target.find(name_of(files, "pad_token", "<pad>"));
  facts.source = facts.target = then_end(facts.ends[0]);
  for (const auto& [field, usual] :
       {std::pair{"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}}) {
    const std::string text = name_of(files, field, usual);
    if (const auto id = pieces.source.numbering.listed->find(text)) {
      pieces.added.add(special_token(text, *id), nullptr);
    }
    if (const auto id = target.find(text)) {
      pieces.target_added.add(special_token(text, *id), nullptr);
    }
  }
  for (int32_t id = 0; !separate && id < static_cast<int32_t>(target.size()); ++id) {
    const std::string* text = target.piece(id);
    if (text == nullptr || !text->starts_with(">>") || !text->ends_with("<<")) continue;
    facts.languages.push_back({text->substr(2, text->size() - 4), id});
  }
  if (!facts.languages.empty()) {
    facts.source.before = {{LayoutToken::Kind::to_if_named, 0}};
  }
  return {make_numbered_pieces(std::move(pieces)), std::move(facts)};
}

MadeTokenizer make_m2m100(const FolderOfFiles& files) {
  NumberedPieces pieces;
  const std::string path = files.path("vocab.json");
  pieces.source = {files.content("sentencepiece.bpe.model"), files.path("sentencepiece.bpe.model")};
  pieces.source.numbering.listed = read_vocab(files, "vocab.json");
  const pipeline::Vocabulary& vocabulary = *pieces.source.numbering.listed;
  TokenizerFacts facts;
  facts.unknown = id_in(vocabulary, name_of(files, "unk_token", "<unk>"), path);
  facts.ends = {id_in(vocabulary, name_of(files, "eos_token", "</s>"), path)};
  facts.pad = vocabulary.find(name_of(files, "pad_token", "<pad>"));
  pieces.source.numbering.unknown = facts.unknown;
  for (const auto& [field, usual] : {std::pair{"bos_token", "<s>"},
                                     {"eos_token", "</s>"},
                                     {"unk_token", "<unk>"},
                                     {"pad_token", "<pad>"}}) {
    const std::string text = name_of(files, field, usual);
    if (const auto id = vocabulary.find(text)) pieces.added.add(special_token(text, *id), nullptr);
  }
  const std::string list = files.config.text("language_codes").value_or("m2m100");
  require(list == "m2m100" || list == "wmt21", ErrorCode::unsupported,
          files.path("tokenizer_config.json"), ": language_codes: ", printable(list),
          " is not supported");
  auto next = static_cast<int32_t>(vocabulary.size());
  for (const std::string& code : list == "m2m100" ? m2m100_languages() : wmt21_languages()) {
    pieces.added.add(special_token(concat("__", code, "__"), next), nullptr);
    facts.languages.push_back({code, next++});
  }
  lay_out_languages(LanguageLayout::before, facts);
  set_default_languages(files.config, facts);
  return {make_numbered_pieces(std::move(pieces)), std::move(facts)};
}

MadeTokenizer make_fairseq(const FolderOfFiles& files) {
  constexpr std::string_view kModel = "sentencepiece.bpe.model";
  const bool is_mbart = files.family() == "mbart";
  NumberedPieces pieces;
  pieces.source = {files.content(kModel), files.path(kModel)};
  // SentencePiece begins with <unk> <s> </s>, fairseq with <s> <pad> </s> <unk>.
  pieces.source.numbering.offset = 1;
  pieces.source.numbering.unknown = 3;
  pieces.decodes_by_library = false;
  const int32_t first = list_pieces(pieces.source.bytes, pieces.source.name).size + 1;
  TokenizerFacts facts;
  facts.pad = 1;
  facts.ends = {2};
  facts.unknown = 3;
  int32_t id = 0;
  for (const char* text : {"<s>", "<pad>", "</s>", "<unk>"}) {
    pieces.added.add(special_token(text, id++), nullptr);
  }
  const auto rows = files.bundle.settings.target_vocab;
  const auto in_50 = static_cast<int64_t>(mbart50_languages().size());
  const std::string kind = files.config.text("tokenizer_class").value_or("");
  const bool is_50 = kind.empty() ? rows >= first + in_50 : kind.starts_with("MBart50");
  std::vector<std::string> codes =
      is_mbart ? (is_50 ? mbart50_languages() : mbart25_languages()) : nllb_languages();
  if (!is_mbart && !files.config.additional_special_tokens().empty()) {
    codes = files.config.additional_special_tokens();
  }
  id = first;
  for (const std::string& code : codes) {
    pieces.added.add(special_token(code, id), nullptr);
    facts.languages.push_back({code, id++});
  }
  pipeline::AddedToken mask = special_token("<mask>", id);
  mask.lstrip = true;
  pieces.added.add(mask, nullptr);
  const bool legacy = files.config.flag("legacy_behaviour").value_or(false);
  lay_out_languages(is_mbart && !is_50 ? LanguageLayout::after_to_start
                    : legacy           ? LanguageLayout::after
                                       : LanguageLayout::before,
                    facts);
  set_default_languages(files.config, facts);
  return {make_numbered_pieces(std::move(pieces)), std::move(facts)};
}

MadeTokenizer make_plain(const FolderOfFiles& files) {
  const std::string_view name = plain_model_name(files);
  const std::string& family = files.family();
  NumberedPieces pieces;
  pieces.source = {files.content(name), files.path(name)};
  const PieceList list = list_pieces(pieces.source.bytes, pieces.source.name);
  TokenizerFacts facts;
  const auto id_of = [&](std::string_view field, std::string_view usual) -> std::optional<int32_t> {
    const auto found = list.special.find(name_of(files, field, usual));
    if (found == list.special.end()) return std::nullopt;
    return found->second + pieces.source.numbering.offset;
  };
  const bool is_t5 = family == "t5" || family == "mt5" || family == "umt5";
  if (family == "pegasus") {
    constexpr int64_t kUsual = 103, kMost = 1000;
    pieces.source.numbering.offset = static_cast<int32_t>(
        std::clamp<int64_t>(files.config.number("offset").value_or(kUsual), 4, kMost));
    add_pegasus_tokens(pieces.source.numbering.offset, pieces.added);
    facts.pad = 0;
    facts.ends = {1};
  } else {
    facts.pad = id_of("pad_token", "<pad>");
    if (const auto end = id_of("eos_token", "</s>")) facts.ends = {*end};
  }
  facts.unknown = id_of("unk_token", "<unk>");
  for (const auto& [field, usual] : {std::pair{"bos_token", "<s>"},
                                     {"eos_token", "</s>"},
                                     {"unk_token", "<unk>"},
                                     {"pad_token", "<pad>"}}) {
    const std::string text = name_of(files, field, usual);
    const auto id = id_of(field, usual);
    if (id && !pieces.added.find(text)) pieces.added.add(special_token(text, *id), nullptr);
  }
  if (is_t5) add_extra_ids(files, list.size, pieces.added);
  require(!facts.ends.empty(), ErrorCode::bad_format, pieces.source.name,
          ": no piece ends a text: expected ", name_of(files, "eos_token", "</s>"));
  facts.source = facts.target = then_end(facts.ends[0]);
  if (!is_t5 && family != "pegasus") {  // Llama: <s> X, and no END in a prompt
    pieces.strips = false;
    facts.start = id_of("bos_token", "<s>");
    facts.source = {};
    if (facts.start && files.config.flag("add_bos_token").value_or(true)) {
      facts.source.before = {{LayoutToken::Kind::token, *facts.start}};
    }
    if (files.config.flag("add_eos_token").value_or(false)) {
      facts.source.after = facts.target.after;
    }
  }
  return {make_numbered_pieces(std::move(pieces)), std::move(facts)};
}

}  // namespace tril
