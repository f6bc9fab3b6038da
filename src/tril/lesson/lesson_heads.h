// Lesson `heads`: what each head of a translator looks at, what is lost when it is switched off,
// and whether more heads of the same total width translate better.
//
// Sentences that the translator was not trained on go through it as in training. The library never
// holds a matrix of attention weights, so an Observer keeps its queries and keys, and the weights
// are computed from these by the textbook softmax in double, under the library's own intervals. It
// is checked that they are the right ones: weights × values must give the heads' outputs as the
// library computed them, within ops/attention_bound.h.
//
// A head is switched off by setting its columns of the output projection to zero, in a copy of the
// model.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tril/base/words.h"
#include "tril/lesson/phrasebook.h"
#include "tril/tensor/context.h"
#include "tril/translate/translator.h"

namespace tril {

enum class AttentionKind { encoder, decoder, cross };

// Keys that a head may look at, named by their place relative to the row. For cross-attention
// `itself` is the source position with the row's own number, and there is no `previous` and `next`.
// `translation`, in cross-attention alone, is the source word whose translation the row is to
// predict, according to a lexicon (data/lexicon.h) learnt from the phrasebook's training part; rows
// where the lexicon gives no source word more than half are left out.
enum class HeadRelation { itself, previous, next, first, end, translation };
inline constexpr size_t kHeadRelations = 6;

template <>
struct Words<AttentionKind> {
  static constexpr std::string_view kList[] = {"encoder", "decoder", "cross"};
};
template <>
struct Words<HeadRelation> {
  static constexpr std::string_view kList[] = {"itself", "previous", "next",
                                               "first",  "end",      "translation"};
};

// By HeadRelation; nothing where it does not apply.
using HeadShares = std::array<std::optional<double>, kHeadRelations>;

// A model's quality on the sentences: loss per token under teacher forcing; exactly right
// translations and BLEU of greedy decoding.
struct HeadQuality {
  double loss = 0.0;
  int64_t exact = 0;
  double bleu = 0.0;
};

struct HeadFigures {
  AttentionKind kind = AttentionKind::encoder;
  int64_t layer = 0, head = 0;  // from 0
  // Mean weight on the key of each relation, over the rows that have it. In self-attention these
  // are the rows from the third token on: before it, `itself`, `previous` and `first` are not three
  // different keys.
  HeadShares shares{};
  double entropy = 0.0;  // mean, in bits
  // Mean of entropy divided by its maximum, log2 of the number of keys seen: 0 to 1.
  double evenness = 0.0;
  // How much of its weight is on other keys than another head's of its layer for the same row, ½ Σ
  // |difference of the weights|, mean over rows and heads: 0 for equal weights, 1 for no key in
  // common. 0 for an only head.
  double apart = 0.0;
  HeadQuality without{};  // of the model with this head switched off

  // One word, by rule: the relation with the largest share if that is at least a half; else
  // "spread" if evenness is at least a half; else "varied": it looks at few words, in changing
  // places.
  std::string_view description() const;
};

// The phrasebook learnt with this many heads, at the same model width.
struct HeadCount {
  int64_t heads = 0, head_dim = 0;
  std::vector<HeadQuality> runs{};  // one per seed
  HeadQuality mean() const;         // `exact` is rounded down
};

struct HeadsLesson {
  int64_t sentences = 0, left_out = 0;  // left out: longer than the model can read
  int64_t rows = 0;                     // of the decoder: tokens to predict, END among them
  int64_t translated_rows = 0;          // those with a `translation`
  std::vector<HeadFigures> heads;       // by kind, layer, head
  std::array<HeadShares, 3> even{};     // by kind: a head that gives all keys the same weight
  HeadQuality all_on{};                 // nothing switched off
  // Textbook against library: numbers compared, and the largest ratio of a difference to its own
  // bound.
  int64_t compared = 0;
  double largest_share = 0.0;

  int64_t updates = 0;            // of each trained model
  uint64_t first_seed = 0;        // the seeds follow each other
  std::vector<HeadCount> counts;  // empty: not trained
  int64_t held_out = 0;           // sentences these are measured on

  // The outcome. How many different descriptions there are; the mean of `apart`; the heads whose
  // absence raises the loss least and most.
  int64_t descriptions = 0;
  double apart = 0.0;
  size_t least = 0, most = 0;  // indices in `heads`
  double cost(const HeadFigures& head) const { return head.without.loss - all_on.loss; }
  // Of the runs with the most heads, those with a lower loss than one head with the same seed, and
  // likewise a higher BLEU.
  int64_t lower_loss = 0, higher_bleu = 0;

  // Textbook and library agree.
  bool checked() const { return compared > 0 && largest_share <= 1.0; }
  // There are at least three descriptions, and two heads of a layer have a quarter of their weight
  // on different keys.
  bool differ() const { return descriptions >= 3 && apart >= 0.25; }
  // Switching off the most important head raises the loss by a quarter.
  bool matter() const { return cost(heads[most]) >= 0.25 * all_on.loss; }
  // With the most heads the loss is lower than with one for every seed, and the mean BLEU is
  // higher.
  bool improve() const;
  // Checked, differ, matter; and improve, if that was measured.
  bool holds = false;
};

struct HeadsOptions {
  std::vector<int64_t> counts = {1, 2, 4, 8};  // empty: this part is left out
  int64_t seeds = 3;
  int64_t updates = 400;
  uint64_t seed = 1;
  int threads = 0;
  TestHooks hooks{};  // deliberate faults of the observed pass, for tests
  // Called before each head is switched off and once after the last, and after each update of all
  // models together; may be empty.
  std::function<void(int64_t head, int64_t heads)> switching{};
  std::function<void(int64_t update, int64_t updates, double loss)> learning{};
};

// Measures on phrasebook.held_out. Raises `invalid_argument` for a decoder-only model, if no
// sentence is left, and for invalid options; `unsupported` for a model whose weights exist only in
// packed form.
HeadsLesson teach_heads(const Translator& translator, const Phrasebook& phrasebook,
                        const HeadsOptions& options = {});

}  // namespace tril
