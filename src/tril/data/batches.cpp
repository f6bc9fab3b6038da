#include "tril/data/batches.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/data/permutation.h"

namespace tril {
namespace {
constexpr int64_t kSentencesAhead = 4096;
}  // namespace

void Batch::clear() {
  source.clear();
  target.clear();
  labels.clear();
  sentences = source_tokens = target_tokens = 0;
}

std::optional<int32_t> start_for(const Tokenizer& tokenizer, const LanguagePair& languages,
                                 bool has_source) {
  if (!has_source && !tokenizer.has_start()) return std::nullopt;
  return tokenizer.start(languages);
}

SentenceTokens tokens_of(const Corpus& corpus, int64_t pair, const Tokenizer& tokenizer,
                         const LanguagePair& languages) {
  SentenceTokens tokens{.start = start_for(tokenizer, languages, corpus.has_source()),
                        .target = tokenizer.encode_target(corpus.target(pair), languages)};
  if (corpus.has_source()) tokens.source = tokenizer.encode_source(corpus.source(pair), languages);
  return tokens;
}

void add_to_batch(Batch& batch, const SentenceTokens& sentence, int32_t number) {
  const auto slot = static_cast<int32_t>(batch.sentences++);
  const bool alone = sentence.source.empty();
  if (!alone) batch.source.add_sequence(sentence.source, {.slot = slot, .sentence = number});
  Place place{.slot = slot, .segment = alone ? -1 : slot, .sentence = number};
  const std::span<const int32_t> target = sentence.target;
  if (sentence.start) {
    batch.target.add(*sentence.start, place);
    place.first = 1;
  }
  batch.target.add_sequence(target.first(target.size() - 1), place);
  const auto labels = target.subspan(sentence.start ? 0 : 1);
  batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
  batch.source_tokens += sentence.source_rows();
  batch.target_tokens += sentence.target_rows();
}

void add_to_batch(Batch& batch, const Tokenizer& tokenizer,
                  std::optional<std::span<const int32_t>> source, std::span<const int32_t> target,
                  int32_t number) {
  const auto ended = [&](std::span<const int32_t> text) {
    std::vector<int32_t> tokens(text.begin(), text.end());
    tokens.push_back(tokenizer.end());
    return tokens;
  };
  SentenceTokens sentence{.start = tokenizer.start(), .target = ended(target)};
  if (source) sentence.source = ended(*source);
  add_to_batch(batch, sentence, number);
}

int64_t balanced_source_rows(const Corpus& corpus, int64_t target_rows, int64_t max_tokens) {
  if (!corpus.has_source()) return 0;
  const double ratio = static_cast<double>(corpus.source_tokens()) /
                       static_cast<double>(std::max<int64_t>(corpus.target_tokens(), 1));
  constexpr double kSlack = 1.04;
  constexpr int64_t kMultiple = 16;
  const auto rows = static_cast<int64_t>(static_cast<double>(target_rows) * ratio * kSlack);
  return (std::max(rows, max_tokens) + kMultiple - 1) / kMultiple * kMultiple;
}

BatchStream::BatchStream(const Corpus& corpus, const Tokenizer& tokenizer,
                         const BatchOptions& options, const StreamPlace& place)
    : corpus_(corpus),
      tokenizer_(tokenizer),
      options_(options),
      start_(start_for(tokenizer, options.languages, corpus.has_source())),
      epoch_(place.epoch),
      next_(place.next),
      first_(place.epoch * corpus.size() + place.next),
      ahead_([this](int64_t number) { return tokenized(after_start(number)); },
             options.threads_ahead, kSentencesAhead) {
  require(corpus.size() > 0 && corpus.size() <= INT32_MAX, ErrorCode::invalid_argument,
          "batches: a corpus of ", corpus.size(), " pairs");
  require(options.window > 0 && options.target_rows > 0 &&
              (options.source_rows > 0) == corpus.has_source(),
          ErrorCode::invalid_argument, "batches: ", options.source_rows, " source rows, ",
          options.target_rows, " target rows, a window of ", options.window);
  require(epoch_ >= 0 && next_ >= 0 && next_ <= corpus.size(), ErrorCode::invalid_argument,
          "batches: the stream cannot stand at sentence ", next_, " of ", corpus.size());
  require(static_cast<int64_t>(place.waiting.size()) <= options.window, ErrorCode::invalid_argument,
          "batches: ", place.waiting.size(), " sentences cannot wait in a window of ",
          options.window);
  for (const auto& from : place.waiting) {
    require(from.pair >= 0 && from.pair < corpus.size(), ErrorCode::invalid_argument,
            "batches: no pair ", from.pair, " in a corpus of ", corpus.size());
    waiting_.push_back(tokenized(from));
  }
}

StreamPlace BatchStream::place() const {
  StreamPlace place{.epoch = epoch_, .next = next_, .waiting = {}};
  for (const Sentence& sentence : waiting_) place.waiting.push_back(sentence.from);
  return place;
}

std::vector<int32_t> BatchStream::side(std::string_view text, const StreamPlace::Waiting& from,
                                       uint64_t which) const {
  if (options_.bpe_dropout > 0.0) {
    auto pieces = tokenizer_.encode(text, {.probability = options_.bpe_dropout,
                                           .seed = options_.seed,
                                           .epoch = static_cast<uint64_t>(from.epoch),
                                           .line = static_cast<uint64_t>(from.pair) * 2 + which});
    pieces.push_back(tokenizer_.end());  // the whole layout of every tokenizer with BPE dropout
    const int64_t rows = which == 0 ? options_.source_rows : options_.target_rows;
    // BPE dropout makes more pieces, so a long sentence may no longer fit.
    if (static_cast<int64_t>(pieces.size()) <= std::min(rows, options_.max_tokens)) return pieces;
  }
  return which == 0 ? tokenizer_.encode_source(text, options_.languages)
                    : tokenizer_.encode_target(text, options_.languages);
}

BatchStream::Sentence BatchStream::tokenized(const StreamPlace::Waiting& from) const {
  Sentence sentence{.from = from, .tokens = {.start = start_}};
  SentenceTokens& tokens = sentence.tokens;
  tokens.target = side(corpus_.target(from.pair), from, 1);
  if (corpus_.has_source()) tokens.source = side(corpus_.source(from.pair), from, 0);
  require(fits({}, sentence), ErrorCode::invalid_argument, "batches: a sentence of ",
          tokens.source.size(), " and ", tokens.target.size(),
          " tokens does not fit into a batch of ", options_.source_rows, " and ",
          options_.target_rows, " rows");
  return sentence;
}

bool BatchStream::fits(const Batch& batch, const Sentence& sentence) const {
  return batch.source_tokens + sentence.tokens.source_rows() <= options_.source_rows &&
         batch.target_tokens + sentence.tokens.target_rows() <= options_.target_rows;
}

StreamPlace::Waiting BatchStream::after_start(int64_t sentences) const {
  const int64_t number = first_ + sentences;
  const int64_t epoch = number / corpus_.size();
  const Permutation order(corpus_.size(), options_.seed, static_cast<uint64_t>(epoch));
  return {.epoch = epoch, .pair = order[number % corpus_.size()]};
}

void BatchStream::fill_window() {
  while (static_cast<int64_t>(waiting_.size()) < options_.window) {
    if (next_ == corpus_.size()) {
      ++epoch_;
      next_ = 0;
    }
    ++next_;
    waiting_.push_back(ahead_.next());
  }
}

void BatchStream::next(Batch& batch) {
  batch.clear();
  for (bool added = true; added;) {
    added = false;
    fill_window();
    for (auto sentence = waiting_.begin(); sentence != waiting_.end();) {
      if (!fits(batch, *sentence)) {
        ++sentence;
        continue;
      }
      // A sentence that comes twice in one update, from two epochs, gets different dropout masks.
      const int64_t number = sentence->from.epoch * corpus_.size() + sentence->from.pair;
      add_to_batch(batch, sentence->tokens, static_cast<int32_t>(number & INT32_MAX));
      sentence = waiting_.erase(sentence);
      added = true;
    }
  }
  batch.source.add_filler(options_.source_rows - batch.source_tokens);
  batch.target.add_filler(options_.target_rows - batch.target_tokens);
  batch.labels.resize(static_cast<size_t>(options_.target_rows), -1);
}

}  // namespace tril
