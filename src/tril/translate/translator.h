// Translator: text in, text out.
//
//   const Translator translator = Translator::load("model");
//   std::string hindi = translator.translate("How are you?");
//
// It holds a model and its tokenizer. An encoder–decoder translates lines; a decoder-only model
// continues them. A source is read as its pieces followed by END, a target as START, its pieces and
// END: training must lay them out the same way. Imported models may have another layout, which
// their tokenizer knows.
//
// A Translator is a handle to something that never changes: copies are cheap, and any number of
// threads may call one at the same time. Lines of all callers are decoded together, so many threads
// that translate one line each are about as fast as one call with all the lines. The translation of
// a line depends on the model, the line, its number and the options alone, whatever other calls do.
//
//   PendingTranslation pending = translator.submit({"How are you?"});
//   ... pending.cancel() abandons it ...
//   std::string hindi = pending.get().text();
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function.h"
#include "tril/base/moment.h"
#include "tril/base/shared.h"
#include "tril/decode/alignment.h"
#include "tril/decode/generation.h"
#include "tril/decode/shortlist.h"
#include "tril/models/transformer.h"
#include "tril/text/tokenizer.h"
#include "tril/translate/words.h"

namespace tril {

// How to treat a line that is not UTF-8, longer than the model's max_length, or comes with a fault.
// No line is ever cut.
//   error: lines before it are finished, then `invalid_argument` names it.
//   skip:  it gets an empty translation that says why.
enum class BadLine { error, skip };

struct TranslateOptions {
  // What is not named here is as the model's generation.json says, and what that does not name as
  // SearchRule says, with a beam of 5. Naming a field to nullopt again leaves it to the model.
  SearchSettings search{};
  // Also forbidden, besides what the model's settings forbid: tokens, or sequences of them.
  std::vector<std::vector<int32_t>> forbidden{};
  // Whether a translation that reaches its limit is ended there with END; absent: as the model's
  // settings say. Otherwise it is cut.
  std::optional<bool> force_end{};
  // Hypotheses decoded at a time, at least the beam (or samples). All callers share one engine: it
  // decodes as many as the largest number among the lines in flight.
  int64_t slots = 64;
  bool alignments = false;  // one more parallel pass per hypothesis; encoder–decoders only
  BadLine bad_lines = BadLine::error;
  // The most lines taken before the first of them is done: when one long sentence holds up the
  // order, no more are read.
  int64_t window = 1024;
  // The number of the first line of a call that translates several: for a part of a text whose
  // lines are to be numbered, and their samples to be drawn, as in the whole.
  int64_t first_number = 0;
  // Shortlist::load() of the same folder: each line may use only the pieces of its own shortlist,
  // which is faster; encoder–decoders only.
  std::optional<Shortlist> shortlist{};
  // For models of several languages, by the codes of Translator::languages(). Empty: the defaults
  // of the model, where it has any.
  LanguagePair languages{};
};

// The languages of a model.
struct ModelLanguages {
  // By their codes, in the order of the model's tokens; empty for a model of one direction.
  std::vector<std::string> codes{};
  // What a call that names none gets; of a model of one direction, that direction. Empty: not
  // known.
  LanguagePair usual{};
};

// One line, and the text its translation must begin with ("": none). For a decoder-only model the
// line is to be continued, and there is no prefix.
struct TextRequest {
  std::string line;
  std::string prefix{};
  // Why the line cannot be used, if its reader already knows; empty: it can.
  std::string fault{};
};

struct TextHypothesis {
  std::string text;
  std::vector<int32_t> tokens;      // as search emitted them: prefix and END included
  std::vector<std::string> pieces;  // of each token
  std::vector<float> log_probs;     // of each token
  double score = 0.0;               // their sum, ascending, in double
  double rank = 0.0;
  bool ended = false;       // false: cut at a limit, so the text is incomplete
  bool end_forced = false;  // likewise incomplete, but with an END that the model's settings force
  // If requested: weights between source tokens (END last) and target tokens, and links between
  // words.
  Alignment alignment{};
  std::vector<WordLink> links{};
};

struct Translation {
  int64_t number = 0;  // of the line, from 0
  // At least one, best first (samples in the order drawn). A line without a word gets an empty
  // translation without the model, with no tokens and a score of 0; so does a skipped line.
  std::vector<TextHypothesis> hypotheses;
  std::string skipped{};  // why it was skipped; empty: it was not

  const std::string& text() const { return hypotheses.front().text; }
};

// A target to be scored: a text, to which END is added, or tokens as given. A decoder-only model
// has no source.
struct ScoreTextRequest {
  std::string source;
  std::string target{};
  std::optional<std::vector<int32_t>> target_tokens{};
  std::string fault{};   // as in TextRequest
  std::string prefix{};  // the forced prefix of the translation, if it had one
};

struct ScoreTextOptions {
  BadLine bad_lines = BadLine::error;
  std::optional<Shortlist> shortlist{};  // as in TranslateOptions
  LanguagePair languages{};              // likewise
};

struct TextScore {
  int64_t number = 0;
  std::vector<int32_t> tokens;
  std::vector<std::string> pieces;
  std::vector<float> log_probs;  // of each token; -infinity outside a shortlist's set
  double score = 0.0;            // their sum, ascending, in double
  std::string skipped{};         // why nothing was scored; empty: it was scored
};

// Returning nothing means that no line is available now: it is called again while lines are being
// processed; when none are, it is the end.
using NextText = Function<std::optional<TextRequest>()>;
using NextScoreText = Function<std::optional<ScoreTextRequest>()>;
// Called in the order of the lines, as soon as each is ready; returning false stops.
using TranslationDone = Function<bool(Translation&&)>;
using TextScoreDone = Function<bool(TextScore&&)>;

// The part of a translation that is already certain: in a beam, what all hypotheses agree on.
// `text` is all of the text so far; it only grows.
struct StreamedText {
  int64_t sample = 0;
  std::span<const int32_t> tokens;   // new since the last call
  std::span<const float> log_probs;  // of each token
  std::string_view text;
};

// Options of one submitted line.
struct SubmitOptions {
  int64_t number = 0;   // returned; samples are drawn from this stream of the seed's random numbers
  uint64_t client = 0;  // lines of different clients are decoded in turns
  std::optional<Moment> deadline{};  // it times out then
  // Called while the line is decoded, on one of the translator's threads: it should return quickly,
  // and must neither throw nor wait for a translation.
  Function<void(const StreamedText&)> stream{};
  // Called once, when get() would no longer wait, whatever the outcome: on one of the translator's
  // threads, or before submit() returns. The same rules apply.
  Function<void()> ready{};
};

struct SearchOptions;    // decode/search.h
struct TranslatorState;  // translate/state.h

// A submitted line. Copies are handles to the same line, and any threads may use them at the same
// time. Destroying them does not abandon the line; cancel() does. One that no line was submitted
// for raises `invalid_argument` in every call.
class PendingTranslation {
 public:
  bool ready() const;
  void wait() const;
  // False if the time passed first.
  bool wait_until(Moment time) const;
  // Waits. Raises what went wrong: `cancelled`, `timed_out`, `invalid_argument` for a line that
  // cannot be used, or what the model raised. The result can be taken once, by one of the copies:
  // after that, `invalid_argument`.
  Translation get() const;
  // Of the source, or of the text to continue; 0 for a line that cannot be used.
  int64_t tokens_read() const;
  // The line leaves within a step or two, unless it is done before.
  void cancel() const;
  // The same for many lines, which costs far less than one by one.
  static void cancel(std::span<const PendingTranslation> lines);

 private:
  friend class Translator;
  struct State;
  State& submitted() const;
  Shared<State> state_;
};

class Translator {
 public:
  // A model folder: config.json, weights and tokenizer.model, as Transformer::load() reads it: by
  // default for inference on the CPU; and generation.json, if there is one. Raises what loading
  // these raises, and `bad_format` where
  // tokenizer and model do not fit. `threads` compute one step for all callers together; 0: as many
  // as there are cores.
  static Translator load(const std::string& folder, const LoadOptions& options = {},
                         int threads = 0);
  Translator(Transformer model, Tokenizer tokenizer, int threads = 0,
             GenerationSettings settings = {});

  const Transformer& model() const;
  const Tokenizer& tokenizer() const;
  // The folder's generation.json; empty where it has none.
  const GenerationSettings& generation() const;
  ModelLanguages languages() const;
  // The languages of a call that names these, to be passed to the tokenizer. Raises
  // `invalid_argument` for one that the model does not have, naming those it has.
  LanguagePair languages_for(const LanguagePair& named) const;
  // What a search for these options is given (decode/search.h).
  SearchOptions search_options(const TranslateOptions& options = {}) const;
  // The tokens that every target in these languages begins with.
  std::vector<int32_t> forced_first(const LanguagePair& named = {}) const;

  // Starts translating a line and returns at once. `bad_lines` and `window` do not apply. Raises
  // `invalid_argument` for options that cannot be used.
  PendingTranslation submit(TextRequest request, const TranslateOptions& options = {},
                            const SubmitOptions& submit = {}) const;

  // One line, by beam search with default options.
  std::string translate(std::string_view line) const;
  std::vector<Translation> translate(std::span<const std::string> lines,
                                     const TranslateOptions& options = {}) const;
  // Any number of lines in bounded memory. Callbacks run on the calling thread.
  void translate(const NextText& next, const TranslationDone& done,
                 const TranslateOptions& options = {}) const;

  // Log-probabilities of given targets, in the order of the lines.
  void score(const NextScoreText& next, const TextScoreDone& done,
             const ScoreTextOptions& options = {}) const;

 private:
  friend std::string doubt_about(const Translator& translator, std::string_view line,
                                 const LanguagePair& languages);  // translate/doubt.h
  Shared<TranslatorState> state_;
};

}  // namespace tril
