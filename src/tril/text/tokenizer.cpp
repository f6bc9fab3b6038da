#include "tril/text/tokenizer.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/text/sentencepiece_kind.h"
#include "tril/text/tokenizer_families.h"
#include "tril/text/tokenizer_files.h"
#include "tril/text/tokenizer_kind.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

void check_line(std::string_view line) {
  if (const auto fault = first_invalid_utf8(line)) {
    fail(ErrorCode::invalid_argument, "tokenizer: the text is not UTF-8 at byte ", *fault + 1);
  }
}

bool is_control(char byte) { return (byte >= 0 && byte < 0x20) || byte == 0x7F; }

// "fra, deu"; of many languages how many they are, and those that resemble the code or, if none
// does, the first.
std::string some_of(const std::vector<Language>& languages, const std::string& code) {
  constexpr size_t kAll = 24, kSome = 8;
  std::vector<std::string_view> named;
  const auto add_those = [&](std::string_view beginning) {
    for (const Language& language : languages) {
      if (language.code.starts_with(beginning)) named.push_back(language.code);
    }
  };
  const bool all = languages.size() <= kAll;
  if (!all) add_those(std::string_view(code).substr(0, 2));
  if (named.empty()) add_those("");
  std::string text = all ? "" : concat(languages.size(), ", such as ");
  const size_t shown = all ? named.size() : std::min(named.size(), kSome);
  for (size_t i = 0; i < shown; ++i) text += concat(i == 0 ? "" : ", ", named[i]);
  return text + (shown < named.size() ? ", ..." : "");
}

// The bytes at the end of `text` that begin a character but do not complete it.
size_t incomplete_bytes(std::string_view text) {
  for (size_t behind = 1; behind <= std::min<size_t>(3, text.size()); ++behind) {
    const auto byte = static_cast<uint8_t>(text[text.size() - behind]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation byte
    const size_t bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return behind < bytes ? behind : 0;
  }
  return 0;
}

}  // namespace

struct Tokenizer::State {
  std::shared_ptr<const std::string> bytes;
  std::unique_ptr<const TokenizerKind> kind;  // may refer to `bytes`
  TokenizerFacts facts;
  int64_t vocab[2] = {0, 0};  // by side
  bool has_surplus = false;   // special tokens from vocab on, which the model has no rows for

  void check_id(int32_t id, TextSide side, std::string_view before, std::string_view after) const {
    const int64_t size = vocab[static_cast<size_t>(side)];
    require(0 <= id && id < size, ErrorCode::invalid_argument, "tokenizer: ", before, " ", id, " ",
            after, ", expected 0 to ", size - 1);
  }

  int32_t language(const std::string& code, const std::string& otherwise,
                   std::string_view what) const {
    const std::string& wanted = code.empty() ? otherwise : code;
    require(!wanted.empty(), ErrorCode::invalid_argument, Field{"languages"}, "the model has ",
            facts.languages.size(), " languages: name the one to translate ", what);
    for (const Language& language : facts.languages) {
      if (language.code == wanted) return language.token;
    }
    fail(ErrorCode::invalid_argument, "no language ", wanted, " in the model, which has ",
         some_of(facts.languages, wanted));
  }
  int32_t from(const LanguagePair& pair) const {
    return language(pair.from, facts.default_languages.from, "from");
  }
  int32_t to(const LanguagePair& pair) const {
    return language(pair.to, facts.default_languages.to, "into");
  }

  // A model of one direction has no languages to name.
  void check_languages(const LanguagePair& pair) const {
    for (const std::string* code : {&pair.from, &pair.to}) {
      require(code->empty() || !facts.languages.empty(), ErrorCode::invalid_argument,
              "the language ", *code, " was named, but the model has none to choose");
    }
    if (!pair.from.empty()) (void)from(pair);
    if (!pair.to.empty()) (void)to(pair);
  }

  void add(const std::vector<LayoutToken>& tokens, const LanguagePair& pair,
           std::vector<int32_t>& ids) const {
    for (const LayoutToken& one : tokens) {
      switch (one.kind) {
        case LayoutToken::Kind::token: ids.push_back(one.token); break;
        case LayoutToken::Kind::from: ids.push_back(from(pair)); break;
        case LayoutToken::Kind::to: ids.push_back(to(pair)); break;
        case LayoutToken::Kind::to_if_named:
          if (!pair.to.empty() || !facts.default_languages.to.empty()) ids.push_back(to(pair));
          break;
      }
    }
  }
  std::vector<int32_t> encoded(std::string_view line, TextSide side) const {
    std::vector<int32_t> ids = kind->encode(line, side);
    if (!has_surplus) return ids;
    for (const int32_t id : ids) {
      require(id < vocab[static_cast<size_t>(side)], ErrorCode::invalid_argument, "the text holds ",
              kind->piece(id, side), ", for which the model has no row");
    }
    return ids;
  }
  std::vector<int32_t> laid_out(std::string_view line, TextSide side,
                                const LanguagePair& pair) const {
    check_line(line);
    check_languages(pair);
    const TokenLayout& layout = side == TextSide::source ? facts.source : facts.target;
    std::vector<int32_t> ids;
    add(layout.before, pair, ids);
    const std::vector<int32_t> text = encoded(line, side);
    ids.insert(ids.end(), text.begin(), text.end());
    add(layout.after, pair, ids);
    return ids;
  }
};

Tokenizer TokenizerBuilder::build(MadeTokenizer made, std::shared_ptr<const std::string> bytes,
                                  const TokenizerSettings& settings, const std::string& file) {
  auto state = std::make_shared<Tokenizer::State>();
  state->bytes = std::move(bytes);
  state->kind = std::move(made.kind);
  TokenizerFacts& facts = state->facts = std::move(made.facts);
  for (const TextSide side : {TextSide::source, TextSide::target}) {
    const int64_t rows = side == TextSide::source ? settings.source_vocab : settings.target_vocab;
    const int64_t pieces = state->kind->size(side);
    state->vocab[static_cast<size_t>(side)] = rows == 0 ? pieces : rows;
    if (rows == 0 || pieces <= rows) continue;
    // Models without a row for a token of training, such as <mask>, are used all the same.
    bool special = side == TextSide::target || state->kind->size(TextSide::target) == pieces;
    for (int64_t id = rows; special && id < pieces; ++id) {
      special = state->kind->is_special(static_cast<int32_t>(id));
    }
    require(special, ErrorCode::bad_format, file, ": the tokenizer has ", pieces,
            " pieces, the model only ", rows, " rows for them");
    state->has_surplus = true;
  }
  if (!settings.family.empty() && !has_encoder(settings.family)) {
    // What the tokenizer puts before a text, if anything, whatever config.json calls BOS.
    const std::vector<LayoutToken>& before = facts.source.before;
    const bool begins = !before.empty() && before[0].kind == LayoutToken::Kind::token;
    facts.start = begins ? std::optional(before[0].token) : std::nullopt;
  } else if (settings.start) {
    facts.start = settings.start;
  }
  if (!settings.ends.empty()) facts.ends = settings.ends;
  require(!facts.ends.empty(), ErrorCode::bad_format, file, ": no token ends a text");
  const int64_t vocab = state->vocab[static_cast<size_t>(TextSide::target)];
  const auto check = [&](int32_t id, std::string_view what) {
    require(0 <= id && id < vocab, ErrorCode::bad_format, file, ": ", what, " is token ", id,
            ", expected 0 to ", vocab - 1);
  };
  if (facts.start) check(*facts.start, "START");
  for (const int32_t end : facts.ends) check(end, "END");
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_bytes(std::string bytes, const std::string& file) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  if (is_bundle(*kept)) return from_bundle(kept, file);
  return TokenizerBuilder::build(make_sentencepiece(kept, file), kept, {}, file);
}

Tokenizer Tokenizer::from_files(TokenizerFiles files, const TokenizerSettings& settings,
                                const std::string& folder) {
  return from_bundle(std::make_shared<const std::string>(to_bundle(files, settings)), folder);
}

std::span<const std::string_view> Tokenizer::file_names() { return tokenizer_file_names(); }

const std::string& Tokenizer::bytes() const { return *state_->bytes; }

TokenizerFiles Tokenizer::files() const {
  TokenizerFiles files;
  if (!is_bundle(*state_->bytes)) return files;
  for (const auto& [name, content] : read_bundle(*state_->bytes, "the tokenizer").files) {
    files.emplace(name, content);
  }
  return files;
}

bool Tokenizer::lossless() const { return state_->facts.lossless; }

int64_t Tokenizer::vocab(TextSide side) const { return state_->vocab[static_cast<size_t>(side)]; }
int64_t Tokenizer::pieces(TextSide side) const {
  return std::min(state_->kind->size(side), vocab(side));
}

bool Tokenizer::has_start() const {
  return state_->facts.start_is_language || state_->facts.start.has_value();
}
int32_t Tokenizer::start(const LanguagePair& languages) const {
  if (state_->facts.start_is_language) return state_->to(languages);
  require(state_->facts.start.has_value(), ErrorCode::unsupported, "tokenizer: it has no START");
  return *state_->facts.start;
}
int32_t Tokenizer::end() const { return state_->facts.ends.front(); }
const std::vector<int32_t>& Tokenizer::ends() const { return state_->facts.ends; }
std::optional<int32_t> Tokenizer::pad() const { return state_->facts.pad; }
std::optional<int32_t> Tokenizer::unknown() const { return state_->facts.unknown; }
const std::vector<Language>& Tokenizer::languages() const { return state_->facts.languages; }

const LanguagePair& Tokenizer::default_languages() const { return state_->facts.default_languages; }

std::vector<int32_t> Tokenizer::unshowable() const {
  std::vector<int32_t> ids = unwritable();
  std::erase_if(ids, [&](int32_t id) { return id < pieces() && state_->kind->is_special(id); });
  return ids;
}

std::vector<int32_t> Tokenizer::unwritable() const {
  const TokenizerKind& kind = *state_->kind;
  const std::vector<int32_t>& last = ends();
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocab()); ++id) {
    if (std::find(last.begin(), last.end(), id) != last.end()) continue;
    const auto commands = [&] {
      const std::string bytes = kind.bytes_of(id);
      return std::any_of(bytes.begin(), bytes.end(), is_control);
    };
    if (id >= pieces() || kind.is_special(id) || commands()) ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode(std::string_view line, TextSide side) const {
  check_line(line);
  return state_->encoded(line, side);
}

std::vector<int32_t> Tokenizer::encode(std::string_view line, const BpeDropout& dropout) const {
  check_line(line);
  return state_->kind->encode(line, dropout);
}

std::vector<int32_t> TokenizerKind::encode(std::string_view, const BpeDropout&) const {
  fail(ErrorCode::unsupported, "tokenizer: BPE dropout needs a tokenizer made by tril");
}

std::vector<int32_t> Tokenizer::encode_source(std::string_view line,
                                              const LanguagePair& languages) const {
  return state_->laid_out(line, TextSide::source, languages);
}

std::vector<int32_t> Tokenizer::encode_target(std::string_view line,
                                              const LanguagePair& languages) const {
  return state_->laid_out(line, TextSide::target, languages);
}

std::vector<int32_t> Tokenizer::target_prefix(const LanguagePair& languages) const {
  state_->check_languages(languages);
  std::vector<int32_t> ids;
  state_->add(state_->facts.target.before, languages, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  bool padded = false;
  for (const int32_t id : ids) {
    state_->check_id(id, TextSide::target, "id", "to decode");
    padded = padded || id >= pieces();
  }
  if (!padded) return state_->kind->decode(ids);
  std::vector<int32_t> written(ids.begin(), ids.end());
  std::erase_if(written, [&](int32_t id) { return id >= pieces(); });
  return state_->kind->decode(written);
}

size_t Tokenizer::whole_tokens(std::span<const int32_t> ids) const {
  // No token has fewer bytes than one, except those that write nothing and end any character.
  std::string tail;
  size_t first = ids.size();
  while (first > 0 && tail.size() < 3) {
    const int32_t id = ids[first - 1];
    if (id >= pieces() || state_->kind->is_special(id)) break;
    tail.insert(0, state_->kind->bytes_of(id));
    --first;
  }
  size_t missing = incomplete_bytes(tail);
  size_t whole = ids.size();
  while (missing > 0) {
    const size_t bytes = state_->kind->bytes_of(ids[--whole]).size();
    missing -= std::min(missing, bytes);
  }
  return whole;
}

std::string Tokenizer::piece(int32_t id, TextSide side) const {
  state_->check_id(id, side, "piece", "asked for");
  return id < pieces(side) ? state_->kind->piece(id, side) : "<padding>";
}

std::optional<int32_t> Tokenizer::find(std::string_view piece, TextSide side) const {
  return state_->kind->find(piece, side);
}

}  // namespace tril
