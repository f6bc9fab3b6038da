// Lesson `decoding`: is the mask used in inference? And must inference make one call per token?
//
// Three ways to decode greedily with one model, one token chosen per step:
//   cached    each call reads the newest token; keys and values of the others are in the cache;
//   masked    each call reads START and all tokens again, under the mask;
//   unmasked  the same without the mask.
// All three are given the same tokens, those that the first one writes, and the logits that choose
// the next token are compared as bits. With a cache the mask hides nothing: what comes after the
// newest token does not exist. Recomputed, it is needed: without it earlier rows see later ones, so
// from the second layer on their keys and values are others. In the first layer they are made of
// embeddings alone, and the last row sees everything in any case; so a decoder of one layer,
// recomputed without the mask, chooses by the same bits. A copy of the model with its first decoder
// layer alone shows that.
//
// Guess and check: a table of which token most often follows the last two, counted in a text and in
// what was written so far, guesses several tokens. One call reads them behind the newest token,
// under the mask. The longest run of guesses that the model would itself have chosen is accepted,
// with the model's own token behind it; the rest is taken back from the cache. Fewer calls, and the
// same bits. (Leviathan et al., arXiv 2211.17192, do this with a small model as the guesser.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/lesson/phrasebook.h"
#include "tril/translate/translator.h"

namespace tril {

// One way to decode, all sentences together. What differs is compared with the cache's.
struct DecodingWay {
  int64_t calls = 0;      // of forward(), counted in the model
  int64_t positions = 0;  // computed in these calls
  int64_t logits = 0, logits_differing = 0;
  int64_t tokens = 0, tokens_differing = 0;  // chosen
  int64_t translations_differing = 0;

  bool same_bits() const { return logits > 0 && logits_differing == 0 && tokens_differing == 0; }
};

// The keys and values of the tokens before the newest, in one decoder layer, when they are
// recomputed: how many numbers are not those in the cache.
struct DecodingLayer {
  int64_t values = 0;
  int64_t differing_masked = 0, differing_unmasked = 0;
};

struct GuessRun {
  int64_t guesses = 0;  // per call, at most
  DecodingWay way{};
  int64_t guessed = 0, accepted = 0;  // tokens
};

struct DecodingExample {
  std::string english;
  std::string cached, unmasked;  // what is written, each way on its own
};

struct DecodingLesson {
  int64_t sentences = 0;
  int64_t left_out = 0;  // longer, in the model's tokens, than the model can read
  int64_t cut = 0;       // translations that had not ended at the limit of tokens
  int64_t decoder_layers = 0;

  DecodingWay cached, masked, unmasked;
  // search(), which translates, writes the tokens of the first way.
  bool same_as_search = false;
  std::vector<DecodingLayer> layers{};      // of the decoder
  std::vector<DecodingExample> examples{};  // some whose translations differ
  DecodingWay one_layer;  // recomputed without the mask, against the one-layer model's own cache
  std::vector<GuessRun> guessing{};
  GuessRun guessing_unmasked;  // as the last of these, without the mask

  // What the lesson says, one by one.
  bool same_bits_cached_and_recomputed = false;
  bool same_bits_without_mask = false;
  bool one_layer_same_without_mask = false;
  bool same_bits_guessing = false;  // for every number of guesses
  bool same_bits_guessing_without_mask = false;
  int64_t calls_one_by_one = 0;
  int64_t calls_with_guessing = 0;  // the fewest

  // Cached and recomputed under the mask are the same; without it another where the decoder has
  // several layers, from the second on, and the same with one; guessing takes fewer calls, with the
  // same bits under the mask.
  bool holds = false;
};

struct DecodingOptions {
  int64_t sentences = 200;  // at most, spread evenly over those that are given
  int64_t max_tokens = 40;  // per translation; search()'s own limits hold too
  std::vector<int64_t> guesses = {1, 2, 4, 8};
  int threads = 0;
  // Faults for tests that must be able to fail: of all calls, and of those under the mask.
  TestHooks hooks{};
  Masking mask = Masking::causal;
};

// The table of guesses is first counted in `guess_from`, lines in the target's language, which may
// be none. Raises `invalid_argument` for a decoder-only model, where no sentence is left, and for
// limits or guesses below 1.
DecodingLesson teach_decoding(const Translator& translator, std::span<const PhrasePair> sentences,
                              std::span<const std::string> guess_from,
                              const DecodingOptions& options = {});

}  // namespace tril
