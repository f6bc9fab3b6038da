// Lesson `decoding`: is the mask used in inference? And must inference make one call per token?
//
// Three ways to decode greedily with one model, one token chosen per step:
//   cached    each call reads the newest token; keys and values of the others are in the cache;
//   masked    each call reads START and all tokens again, under the mask;
//   unmasked  the same without the mask.
// All three are given the same tokens, those that the first one writes, and the logits that choose
// the next token are compared as bits. With a cache the mask hides nothing: tokens after the newest
// one do not exist. When everything is recomputed it is needed: without it earlier rows see later
// ones, so from the second layer on their keys and values differ. In the first layer these are made
// from embeddings alone, and the last row sees everything in any case; so a decoder of one layer,
// recomputed without the mask, chooses by the same bits. A copy of the model with only its first
// decoder layer shows that.
//
// Guess and check: a table of which token most often follows the last two, counted in a text and in
// what was written so far, guesses several tokens. One call reads them after the newest token,
// under the mask. The longest run of guesses that the model would itself have chosen is accepted,
// followed by the model's own next token; the rest is removed from the cache. Fewer calls, and the
// same bits. (Leviathan et al., arXiv 2211.17192, do this with a small model as the guesser.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/lesson/phrasebook.h"
#include "tril/tensor/context.h"
#include "tril/translate/translator.h"

namespace tril {

// One way to decode, over all sentences. Differences are relative to decoding with the cache.
struct DecodingWay {
  int64_t calls = 0;      // of forward(), counted in the model
  int64_t positions = 0;  // computed in these calls
  int64_t logits = 0, logits_differing = 0;
  int64_t tokens = 0, tokens_differing = 0;  // chosen
  int64_t translations_differing = 0;

  bool same_bits() const { return logits > 0 && logits_differing == 0 && tokens_differing == 0; }
};

// The recomputed keys and values of the tokens before the newest, in one decoder layer: how many
// numbers differ from those in the cache.
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
  std::string cached, unmasked;  // what each method writes on its own
};

struct DecodingLesson {
  int64_t sentences = 0;
  int64_t left_out = 0;  // longer, in the model's tokens, than the model can read
  int64_t cut = 0;       // translations that had not ended at the token limit
  int64_t decoder_layers = 0;

  DecodingWay cached, masked, unmasked;
  // search(), which translates, writes the same tokens as the first method.
  bool same_as_search = false;
  std::vector<DecodingLayer> layers{};      // of the decoder
  std::vector<DecodingExample> examples{};  // some sentences whose translations differ
  DecodingWay one_layer;  // recomputed without the mask, against the one-layer model's own cache
  std::vector<GuessRun> guessing{};
  GuessRun guessing_unmasked;  // like the last of these, without the mask

  // The lesson's claims, one by one.
  bool same_bits_cached_and_recomputed = false;
  bool same_bits_without_mask = false;
  bool one_layer_same_without_mask = false;
  bool same_bits_guessing = false;  // for every number of guesses
  bool same_bits_guessing_without_mask = false;
  int64_t calls_one_by_one = 0;
  int64_t calls_with_guessing = 0;  // the fewest

  // Cached and recomputed under the mask are equal; without it they differ from the second layer on
  // if the decoder has several layers, and are equal with one; guessing takes fewer calls, with the
  // same bits under the mask.
  bool holds = false;
};

struct DecodingOptions {
  int64_t sentences = 200;  // at most, spread evenly over the given ones
  int64_t max_tokens = 40;  // per translation; search()'s own limits apply too
  std::vector<int64_t> guesses = {1, 2, 4, 8};
  int threads = 0;
  // Faults for tests that must be able to fail: in all calls, and in those under the mask.
  TestHooks hooks{};
  Masking mask = Masking::causal;
};

// The table of guesses is first counted in `guess_from`, lines in the target's language, which may
// be empty. Raises `invalid_argument` for a decoder-only model, if no sentence is left, and for
// limits or guesses below 1.
DecodingLesson teach_decoding(const Translator& translator, std::span<const PhrasePair> sentences,
                              std::span<const std::string> guess_from,
                              const DecodingOptions& options = {});

}  // namespace tril
