#include <fmt/core.h>

#include <algorithm>

#include "lines.h"
#include "prove.h"
#include "tril/data/lines.h"
#include "tril/decode/search.h"
#include "tril/lesson/demo.h"
#include "tril/lesson/phrasebook.h"
#include "tril/prove/pairs.h"

namespace tril::app {
namespace {

constexpr size_t kSentences = 12;
constexpr size_t kFullSentences = 64;
constexpr size_t kMaxTokens = 48;  // per side
constexpr uint64_t kSeed = 1;

// Non-empty lines, at most as many as wanted.
std::vector<std::string> read_lines(const std::string& path, size_t wanted) {
  LineReader reader = open_lines(path);
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < wanted && reader.next(line)) {
    require(!reader.too_long(), ErrorCode::invalid_argument, reader.path(), ": line ",
            reader.number(), " has more than ", reader.max_line_bytes(), " bytes");
    if (line.find_first_not_of(" \t") != std::string::npos) lines.push_back(line);
  }
  require(!lines.empty(), ErrorCode::invalid_argument, reader.path(), ": no line to prove with");
  return lines;
}

// Whether a tokenizer suits this kind of text: no piece is unknown, and less than half of them are
// single bytes.
bool knows(const Tokenizer& tokenizer, const std::string& line, TextSide side) {
  const auto ids = tokenizer.encode(line, side);
  const auto unknown = tokenizer.unknown();
  if (unknown && std::find(ids.begin(), ids.end(), *unknown) != ids.end()) return false;
  const auto bytes = std::count_if(ids.begin(), ids.end(), [&](int32_t id) {
    return tokenizer.piece(id, side).starts_with("<0x");
  });
  return 2 * bytes < static_cast<std::ptrdiff_t>(ids.size());
}

class TextMaker {
 public:
  TextMaker(const ProveFlags& flags, const Transformer& model, const Tokenizer& tokenizer)
      : flags_(flags),
        model_(model),
        tokenizer_(tokenizer),
        longest_(std::min<size_t>(kMaxTokens, static_cast<size_t>(model.config().max_length))),
        wanted_(flags.full ? kFullSentences : kSentences),
        languages_(languages_of(flags.languages, tokenizer)),
        start_(tokenizer.has_start() ? tokenizer.start(languages_) : tokenizer.end()),
        first_(tokenizer.target_prefix(languages_)) {
    text_.end = tokenizer.end();
    text_.forced = first_;
  }

  ProofText make() {
    if (!flags_.text.empty()) {
      from_files();
    } else if (!from_lesson()) {
      sample();
    }
    return std::move(text_);
  }

 private:
  bool decoder_only() const { return model_.config().decoder_only(); }

  static LanguagePair languages_of(const LanguagePair& named, const Tokenizer& tokenizer) {
    LanguagePair pair = named;
    if (tokenizer.languages().empty()) return {};
    const LanguagePair& usual = tokenizer.default_languages();
    const std::string& any = tokenizer.languages().front().code;
    if (pair.from.empty() && usual.from.empty()) pair.from = any;
    if (pair.to.empty() && usual.to.empty()) pair.to = any;
    return pair;
  }

  // What an encoder reads: a long text is cut in the middle, so that what a source ends with is
  // still there.
  std::vector<int32_t> shortened(std::vector<int32_t> source) const {
    if (source.size() > longest_) {
      source.erase(source.begin() + static_cast<std::ptrdiff_t>(longest_ - 1), source.end() - 1);
    }
    return source;
  }
  // A target of these pieces.
  std::vector<int32_t> after_first(const std::vector<int32_t>& pieces) const {
    std::vector<int32_t> target = first_;
    target.insert(target.end(), pieces.begin(), pieces.end());
    return target;
  }

  void add(std::vector<int32_t> source, std::vector<int32_t> target) {
    bool cut = false;
    TokenPair pair{.source = {}, .target = {start_}, .next = tokenizer_.end()};
    if (!decoder_only()) {
      cut = source.size() > longest_;
      pair.source = shortened(std::move(source));
    }
    if (target.size() + 1 > longest_) {
      cut = true;
      pair.next = target[longest_ - 1];
      target.resize(longest_ - 1);
    }
    pair.target.insert(pair.target.end(), target.begin(), target.end());
    text_.cut += cut ? 1 : 0;
    text_.pairs.push_back(std::move(pair));
  }

  std::vector<int32_t> encode(const std::string& line, TextSide side, const std::string& path,
                              size_t number) {
    try {
      if (side == TextSide::source && !decoder_only()) {
        return tokenizer_.encode_source(line, languages_);
      }
      return after_first(tokenizer_.encode(line, TextSide::target));
    } catch (const Error& error) {
      fail(error.code(), path, ": line ", number + 1, ": ", error.what());
    }
  }

  void from_files() {
    const auto lines = read_lines(flags_.text, wanted_);
    std::vector<std::vector<int32_t>> encoded;
    for (size_t i = 0; i < lines.size(); ++i) {
      encoded.push_back(encode(lines[i], TextSide::source, flags_.text, i));
    }
    text_.origin = flags_.text;
    if (decoder_only()) {
      require(flags_.target.empty(), ErrorCode::invalid_argument, flags_.model,
              " is a decoder-only model: it has no --target");
      for (auto& line : encoded) add({}, std::move(line));
      return;
    }
    if (!flags_.target.empty()) {
      const auto targets = read_lines(flags_.target, lines.size());
      require(targets.size() == lines.size(), ErrorCode::invalid_argument, flags_.target, " has ",
              targets.size(), " lines with text, ", flags_.text, " at least ", lines.size());
      for (size_t i = 0; i < lines.size(); ++i) {
        add(std::move(encoded[i]), encode(targets[i], TextSide::target, flags_.target, i));
      }
      text_.origin += " and " + flags_.target;
      return;
    }
    // The model's greedy translations of them.
    text_.origin += " and what the model makes of it";
    std::vector<SearchRequest> requests;
    for (const auto& source : encoded) {
      requests.push_back({static_cast<int64_t>(requests.size()), shortened(source), first_});
    }
    const auto targets = written(requests, {.max_tokens = static_cast<int64_t>(longest_)});
    for (size_t i = 0; i < encoded.size(); ++i) add(std::move(encoded[i]), targets[i]);
  }

  // The lesson's sentences and some of the phrasebook, where the tokenizer suits such text.
  bool from_lesson() {
    const Phrasebook phrasebook = make_phrasebook();
    std::vector<PhrasePair> phrases = lesson_sentences();
    for (size_t i = 0; phrases.size() < wanted_; ++i) {
      phrases.push_back(phrasebook.held_out[i * phrasebook.held_out.size() / wanted_]);
    }
    const bool english =
        knows(tokenizer_, phrases[0].english, decoder_only() ? TextSide::target : TextSide::source);
    const bool hindi = knows(tokenizer_, phrases[0].hindi, TextSide::target);
    if (decoder_only() ? !english && !hindi : !english || !hindi) return false;
    text_.origin = "the lesson's sentences";
    for (const PhrasePair& phrase : phrases) {
      std::vector<int32_t> source;
      if (!decoder_only()) source = tokenizer_.encode_source(phrase.english, languages_);
      add(std::move(source),
          after_first(tokenizer_.encode(hindi ? phrase.hindi : phrase.english, TextSide::target)));
    }
    return true;
  }

  // Samples of the model itself; its sources are random.
  void sample() {
    text_.origin = "sampled from the model";
    const auto chance = random_pairs(model_.config(), static_cast<int64_t>(wanted_), 8, kSeed);
    std::vector<SearchRequest> requests;
    for (const TokenPair& pair : chance) {
      const auto number = static_cast<int64_t>(requests.size());
      requests.push_back(
          {.number = number, .source = pair.source, .prefix = first_, .stream = number});
    }
    const auto targets =
        written(requests,
                {.max_tokens = static_cast<int64_t>(longest_ / 2), .sample = true, .seed = kSeed});
    for (size_t i = 0; i < chance.size(); ++i) {
      add(chance[i].source, targets[i].empty() ? chance[i].target : targets[i]);
    }
  }

  // The result of a search for each request, without END.
  std::vector<std::vector<int32_t>> written(std::vector<SearchRequest> requests,
                                            const SearchRule& rule) {
    SearchOptions options;
    static_cast<SearchRule&>(options) = rule;
    options.start = start_;
    options.end = tokenizer_.end();
    options.more_ends.assign(tokenizer_.ends().begin() + 1, tokenizer_.ends().end());
    options.forbidden = tokenizer_.unwritable();
    Session session(model_, flags_.threads);
    std::vector<std::vector<int32_t>> targets(requests.size());
    size_t next = 0;
    search(
        model_, options, static_cast<int64_t>(requests.size()),
        [&]() -> std::optional<SearchRequest> {
          if (next == requests.size()) return std::nullopt;
          return requests[next++];
        },
        [&](SearchResult&& result) {
          auto tokens = result.hypotheses.front().tokens;
          if (result.hypotheses.front().ended) tokens.pop_back();
          targets[static_cast<size_t>(result.number)] = std::move(tokens);
          return true;
        },
        session);
    return targets;
  }

  const ProveFlags& flags_;
  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const size_t longest_, wanted_;
  const LanguagePair languages_;
  const int32_t start_;               // a model without START is given END, which separates texts
  const std::vector<int32_t> first_;  // what every target begins with
  ProofText text_;
};

}  // namespace

ProofText proof_text(const ProveFlags& flags, const Transformer& model,
                     const std::optional<Tokenizer>& tokenizer) {
  if (tokenizer) return TextMaker(flags, model, *tokenizer).make();
  require(flags.text.empty(), ErrorCode::invalid_argument, flags.model,
          " has no tokenizer.model, so --text cannot be read; leave it out to prove with tokens by "
          "chance");
  const TransformerConfig& c = model.config();
  const int64_t length = std::min<int64_t>(10, c.max_length);
  return {.pairs = random_pairs(c, 8, length, kSeed),
          .origin = "tokens by chance",
          .end = static_cast<int32_t>(std::min<int64_t>(Tokenizer::kEnd, c.target_vocab - 1))};
}

}  // namespace tril::app
