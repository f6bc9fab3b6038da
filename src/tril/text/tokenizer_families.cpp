#include "tril/text/tokenizer_families.h"

#include <algorithm>
#include <utility>

#include "tril/base/error.h"
#include "tril/text/pipeline/pipeline.h"

namespace tril {
namespace {

LayoutToken fixed(int32_t token) { return {LayoutToken::Kind::token, token}; }

// The id of a special token that the configuration names, or of the family's usual one.
std::optional<int32_t> special_id(const TokenizerKind& kind, const TokenizerConfig& config,
                                  std::string_view name, std::string_view usual) {
  const auto text = config.special_token(name);
  if (text) return kind.find(*text, TextSide::target);
  return usual.empty() ? std::nullopt : kind.find(usual, TextSide::target);
}

bool is_lower(char c) { return 'a' <= c && c <= 'z'; }
bool is_upper(char c) { return 'A' <= c && c <= 'Z'; }

// "eng_Latn"
bool is_nllb_language(std::string_view text) {
  return text.size() == 8 && text[3] == '_' &&
         std::all_of(text.begin(), text.begin() + 3, is_lower) && is_upper(text[4]) &&
         std::all_of(text.begin() + 5, text.end(), is_lower);
}
// "en_XX"
bool is_mbart_language(std::string_view text) {
  return text.size() == 5 && text[2] == '_' && is_lower(text[0]) && is_lower(text[1]) &&
         is_upper(text[3]) && is_upper(text[4]);
}
// "<2de>", "<2zh_Hant>"
bool is_madlad_language(std::string_view text) {
  return text.size() >= 5 && text.starts_with("<2") && text.ends_with('>') && (is_lower(text[2]));
}

// Tokens of tokenizer.json that stand for languages, in the order of their ids.
template <class IsLanguage, class Code>
std::vector<Language> languages_of(const pipeline::Parts& parts, const IsLanguage& is_language,
                                   const Code& code) {
  std::vector<Language> languages;
  const auto add = [&](const std::string& text, int32_t id) {
    if (is_language(text)) languages.push_back({code(text), id});
  };
  for (const pipeline::AddedToken& token : parts.added.all()) add(token.content, token.id);
  if (languages.empty()) {
    const pipeline::Vocabulary& pieces = parts.model->vocabulary();
    for (int32_t id = 0; id < static_cast<int32_t>(pieces.size()); ++id) {
      if (const std::string* piece = pieces.piece(id)) add(*piece, id);
    }
  }
  std::sort(languages.begin(), languages.end(),
            [](const Language& a, const Language& b) { return a.token < b.token; });
  return languages;
}

std::string same_text(const std::string& text) { return text; }

void find_languages(const FolderOfFiles& files, const pipeline::Parts& parts,
                    TokenizerFacts& facts) {
  const std::string& family = files.family();
  if (family == "m2m_100") {
    facts.languages = languages_of(parts, is_nllb_language, same_text);
    const bool legacy = files.config.flag("legacy_behaviour").value_or(false);
    lay_out_languages(legacy ? LanguageLayout::after : LanguageLayout::before, facts);
  } else if (family == "mbart") {
    facts.languages = languages_of(parts, is_mbart_language, same_text);
    const bool is_50 = std::any_of(facts.languages.begin(), facts.languages.end(),
                                   [](const Language& l) { return l.code == "af_ZA"; });
    lay_out_languages(is_50 ? LanguageLayout::before : LanguageLayout::after_to_start, facts);
  } else if (family == "t5") {
    facts.languages = languages_of(parts, is_madlad_language, [](const std::string& text) {
      return text.substr(2, text.size() - 3);
    });
    if (!facts.languages.empty()) {
      facts.source.before.insert(facts.source.before.begin(), {LayoutToken::Kind::to_if_named, 0});
    }
  }
  set_default_languages(files.config, facts);
}

// Where the configuration says whether START and END are added, it overrides the template.
void apply_flags(const FolderOfFiles& files, TokenizerFacts& facts, TokenLayout& layout) {
  const auto add_start = files.config.flag("add_bos_token");
  const auto add_end = files.config.flag("add_eos_token");
  if (!add_start && !add_end) return;
  layout = {};
  if (add_start.value_or(false) && facts.start) layout.before.push_back(fixed(*facts.start));
  if (add_end.value_or(false) && !facts.ends.empty()) layout.after.push_back(fixed(facts.ends[0]));
}

// Whatever a template does for a prompt, a text that is learnt ends with END, and START is read but
// not written.
TokenLayout target_layout(const FolderOfFiles& files, const TokenizerFacts& facts,
                          const TokenLayout& source) {
  TokenLayout layout = source;
  if (!has_encoder(files.family())) layout.before.clear();
  const auto is_end = [&](const LayoutToken& one) {
    return one.kind == LayoutToken::Kind::token &&
           std::find(facts.ends.begin(), facts.ends.end(), one.token) != facts.ends.end();
  };
  if (!facts.ends.empty() && std::none_of(layout.after.begin(), layout.after.end(), is_end)) {
    layout.after.push_back(fixed(facts.ends[0]));
  }
  return layout;
}

TokenizerFacts facts_of(const FolderOfFiles& files, const pipeline::Pipeline& kind) {
  const bool is_gpt2 = files.family() == "gpt2";
  TokenizerFacts facts;
  facts.start = special_id(kind, files.config, "bos_token", is_gpt2 ? "<|endoftext|>" : "<s>");
  facts.pad = special_id(kind, files.config, "pad_token", is_gpt2 ? "" : "<pad>");
  facts.unknown = kind.parts().model->unknown();
  if (const auto end =
          special_id(kind, files.config, "eos_token", is_gpt2 ? "<|endoftext|>" : "</s>")) {
    facts.ends = {*end};
  }
  if (!files.bundle.settings.ends.empty()) facts.ends = files.bundle.settings.ends;
  facts.source = kind.parts().layout;
  apply_flags(files, facts, facts.source);
  facts.target = target_layout(files, facts, facts.source);
  // An encoder's START is what its folder says, never the token that texts begin with.
  if (is_gpt2 || has_encoder(files.family())) facts.start = std::nullopt;
  facts.lossless = kind.parts().decodes.letters && kind.parts().normalizer == nullptr;
  find_languages(files, kind.parts(), facts);
  return facts;
}

// Special tokens that only the configuration names become added tokens, as transformers does it.
void add_configured_tokens(const FolderOfFiles& files, pipeline::Parts& parts) {
  for (pipeline::AddedToken& token : files.config.added_tokens()) {
    if (!parts.added.find(token.content)) parts.added.add(std::move(token), parts.normalizer.get());
  }
  for (const std::string_view name : {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"}) {
    auto token = files.config.special_added_token(name);
    if (!token || parts.added.find(token->content)) continue;
    const auto id = parts.model->vocabulary().find(token->content);
    if (!id) continue;
    token->id = *id;
    parts.added.add(std::move(*token), parts.normalizer.get());
  }
}

MadeTokenizer finished(const FolderOfFiles& files, pipeline::Parts parts) {
  add_configured_tokens(files, parts);
  auto kind = std::make_unique<const pipeline::Pipeline>(std::move(parts));
  TokenizerFacts facts = facts_of(files, *kind);
  return {std::move(kind), std::move(facts)};
}

MadeTokenizer make_from_vocab_and_merges(const FolderOfFiles& files) {
  const bool prefix_space = files.config.flag("add_prefix_space").value_or(false);
  pipeline::Parts parts = pipeline::read_byte_level(
      files.content("vocab.json"), files.content("merges.txt"), prefix_space, files.folder);
  const pipeline::Vocabulary& pieces = parts.model->vocabulary();
  // Their usual special tokens, with the properties that the configuration gives them.
  const auto add = [&](std::string_view field, std::string_view usual) {
    pipeline::AddedToken token =
        files.config.special_added_token(field).value_or(pipeline::AddedToken{std::string(usual)});
    const auto id = pieces.find(token.content);
    if (!id) return;
    token.id = *id;
    token.special = true;
    parts.added.add(std::move(token), nullptr);
  };
  if (files.family() == "bart") {
    add("bos_token", "<s>");
    add("eos_token", "</s>");
    add("unk_token", "<unk>");
    add("pad_token", "<pad>");
    add("mask_token", "<mask>");
    const auto start = pieces.find("<s>"), end = pieces.find("</s>");
    require(start && end, ErrorCode::bad_format, files.path("vocab.json"),
            ": no pieces <s> and </s>");
    parts.layout = {{fixed(*start)}, {fixed(*end)}};
  } else {
    add("eos_token", "<|endoftext|>");
  }
  return finished(files, std::move(parts));
}

}  // namespace

bool has_encoder(const std::string& family) {
  return family == "bart" || family == "mbart" || family == "m2m_100" || family == "t5" ||
         family == "mt5" || family == "umt5" || family == "pegasus" || family == "marian";
}

std::string FolderOfFiles::path(std::string_view name) const { return concat(folder, ": ", name); }

std::string_view FolderOfFiles::content(std::string_view name) const {
  const auto found = bundle.find(name);
  require(found.has_value(), ErrorCode::bad_format, path(name), ": the file is missing");
  return *found;
}

void lay_out_languages(LanguageLayout layout, TokenizerFacts& facts) {
  const LayoutToken from{LayoutToken::Kind::from, 0}, to{LayoutToken::Kind::to, 0};
  if (facts.ends.empty()) return;  // which whoever builds the tokenizer refuses
  const LayoutToken end = fixed(facts.ends[0]);
  switch (layout) {
    case LanguageLayout::none: return;
    case LanguageLayout::before:
      facts.source = {{from}, {end}};
      facts.target = {{to}, {end}};
      return;
    case LanguageLayout::after:
      facts.source = {{}, {end, from}};
      facts.target = {{to}, {end}};
      return;
    case LanguageLayout::after_to_start:
      facts.source = {{}, {end, from}};
      facts.target = {{}, {end}};
      facts.start_is_language = true;
      return;
  }
}

void set_default_languages(const TokenizerConfig& config, TokenizerFacts& facts) {
  const auto known = [&](std::string_view field) -> std::string {
    const auto code = config.text(field);
    const bool has = code && std::any_of(facts.languages.begin(), facts.languages.end(),
                                         [&](const Language& l) { return l.code == *code; });
    return has ? *code : "";
  };
  facts.default_languages = {known("src_lang"), known("tgt_lang")};
}

MadeTokenizer make_tokenizer(const Bundle& bundle, const std::string& folder) {
  const TokenizerConfig config(bundle, folder);
  const FolderOfFiles files{bundle, config, folder};
  if (files.family() == "marian" || files.has("source.spm")) return make_marian(files);
  if (files.family() == "m2m_100" && files.has("vocab.json")) return make_m2m100(files);
  if (files.has("tokenizer.json")) {
    return finished(files, pipeline::read_tokenizer_json(files.content("tokenizer.json"),
                                                         files.path("tokenizer.json")));
  }
  if (files.has("merges.txt")) return make_from_vocab_and_merges(files);
  if (files.family() == "m2m_100" || files.family() == "mbart") return make_fairseq(files);
  if (files.has("spiece.model") || files.has("tokenizer.model")) return make_plain(files);
  fail(ErrorCode::bad_format, folder,
       ": no tokenizer: expected tokenizer.json, vocab.json with merges.txt, or a SentencePiece "
       "model");
}

}  // namespace tril
