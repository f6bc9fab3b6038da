// BatchStream: an endless stream of packed batches of one size.
//
// Every epoch goes through the corpus in a new order, a function of (seed, epoch). A window of
// sentences waits; a batch takes the oldest and then, in order, every one that still fits, so that
// only few rows are padding and no sentence waits long. The position of a stream is a few numbers:
// a stream made from them continues exactly as the first one would have.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "tril/base/ahead.h"
#include "tril/data/corpus.h"
#include "tril/tensor/rows.h"
#include "tril/text/tokenizer.h"

namespace tril {

// Packed sentences: source rows are what the tokenizer's layout says (END at last), target rows
// begin with START where there is one, and the label of a row is the token that follows, END at
// last; -1 for padding.
struct Batch {
  Rows source, target;
  std::vector<int32_t> labels;
  int64_t sentences = 0;
  int64_t source_tokens = 0;  // without padding
  int64_t target_tokens = 0;

  void clear();
};

// A sentence in tokens: all that an encoder reads (nothing in a decoder-only model), and all that a
// decoder writes, which it reads after START; without START it reads from the first token on, and
// learns from the second on.
struct SentenceTokens {
  std::optional<int32_t> start{};
  std::vector<int32_t> source{}, target{};

  int64_t source_rows() const { return static_cast<int64_t>(source.size()); }
  int64_t target_rows() const { return static_cast<int64_t>(target.size()) - (start ? 0 : 1); }
};
// What targets begin with: nothing where a tokenizer has no START, which only a decoder-only model
// can do without.
std::optional<int32_t> start_for(const Tokenizer& tokenizer, const LanguagePair& languages,
                                 bool has_source);
// A pair of a corpus in the tokenizer's layout.
SentenceTokens tokens_of(const Corpus& corpus, int64_t pair, const Tokenizer& tokenizer,
                         const LanguagePair& languages);
// Appends a sentence to a batch. `number` identifies it, for dropout.
void add_to_batch(Batch& batch, const SentenceTokens& sentence, int32_t number);
// The same for text without START, END and languages, in the layout of a tokenizer that tril
// learnt; without a source for a decoder-only model.
void add_to_batch(Batch& batch, const Tokenizer& tokenizer,
                  std::optional<std::span<const int32_t>> source, std::span<const int32_t> target,
                  int32_t number);

struct BatchOptions {
  int64_t source_rows = 2048;  // 0 without a source
  int64_t target_rows = 2048;
  int64_t window = 256;  // sentences waiting
  uint64_t seed = 1;
  double bpe_dropout = 0.0;
  // A sentence that BPE dropout splits into more tokens is tokenized without dropout.
  int64_t max_tokens = INT64_MAX;
  // Threads that tokenize sentences ahead of time; 0: they are tokenized when needed. The batches
  // are the same.
  int threads_ahead = 0;
  LanguagePair languages{};  // of every pair, for a tokenizer of several languages
};

// Source rows for this many target rows: as many as the corpus needs on average, and some more, so
// that the target side decides what fits.
int64_t balanced_source_rows(const Corpus& corpus, int64_t target_rows, int64_t max_tokens);

struct StreamPlace {
  struct Waiting {
    int64_t epoch = 0;
    int64_t pair = 0;
  };
  int64_t epoch = 0;
  int64_t next = 0;  // in the epoch's order
  std::vector<Waiting> waiting;
};

// Reads a corpus and a tokenizer that must outlive it. One thread at a time may call it.
class BatchStream {
 public:
  // Raises unless every pair fits into a batch; see Corpus::limit_tokens().
  BatchStream(const Corpus& corpus, const Tokenizer& tokenizer, const BatchOptions& options,
              const StreamPlace& place = {});

  void next(Batch& batch);
  StreamPlace place() const;
  // Rounds through the corpus so far.
  double epochs() const {
    return static_cast<double>(epoch_) +
           static_cast<double>(next_) / static_cast<double>(corpus_.size());
  }

 private:
  struct Sentence {
    StreamPlace::Waiting from;
    SentenceTokens tokens;
  };
  Sentence tokenized(const StreamPlace::Waiting& from) const;
  std::vector<int32_t> side(std::string_view text, const StreamPlace::Waiting& from,
                            uint64_t which) const;
  bool fits(const Batch& batch, const Sentence& sentence) const;
  StreamPlace::Waiting after_start(int64_t sentences) const;
  void fill_window();

  const Corpus& corpus_;
  const Tokenizer& tokenizer_;
  BatchOptions options_;
  std::optional<int32_t> start_;
  int64_t epoch_;
  int64_t next_;
  std::deque<Sentence> waiting_;
  int64_t first_;  // sentence of this stream, counted over all epochs
  Ahead<Sentence> ahead_;
};

}  // namespace tril
