// tril from C, and from every language that can call C: translate, continue text, score, tokenize.
//
//   tril_translator *translator = NULL;
//   tril_result *result = NULL;
//   const char *text = NULL;
//   if (tril_load("my-model", NULL, &translator) != TRIL_OK ||
//       tril_translate(translator, "How are you?", -1, NULL, &result) != TRIL_OK ||
//       tril_result_text(result, 0, 0, &text, NULL) != TRIL_OK) {
//     fprintf(stderr, "%s\n", tril_errmsg(NULL));
//   } else {
//     puts(text);
//   }
//   tril_result_free(result);
//   tril_translator_free(translator);
//
// Calls return TRIL_OK or the code of what went wrong; tril_errmsg() says it in a line. A call that
// fails changes nothing, and gives its results as NULL or 0.
//
// Handles (tril_options, tril_translator, tril_result, tril_pending) are opaque: they are not
// addresses, and are only given back to tril. Each is freed once, by its own function; freeing NULL
// does nothing. A call that is given NULL, a handle of another kind or one that was freed fails
// with TRIL_MISUSE.
//
// Text is UTF-8, a pointer and a length in bytes; a length of -1 says that the text ends with a
// zero byte. Names and values of options, and folders, always end with one. Text that tril returns
// ends with a zero byte that its length does not count. It belongs to the handle it was taken from
// and lasts until that is freed. Wherever a call writes a result through a pointer, NULL means that
// it is not wanted, unless it is a handle.
//
// Any thread may call anything, and threads may share all handles; a handle may be freed while
// others use it, who then finish what they have begun. Lines of all threads are decoded together,
// yet each gets the result that it would get alone: a function of model, line and options.
//
// A process that was forked cannot use the handles of its parent (TRIL_MISUSE): load in the child.
#ifndef TRIL_C_H
#define TRIL_C_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define TRIL_API __attribute__((visibility("default")))
#else
#define TRIL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// What this header declares. It grows by one whenever something is added; what is here does not
// change as long as the library is called libtril.so.0.
#define TRIL_ABI_VERSION 1
// That of the library at hand: a program needs one that is not lower than its own TRIL_ABI_VERSION.
TRIL_API int tril_abi_version(void);
// "0.1.0". Never freed.
TRIL_API const char* tril_version(void);

// What calls return: an int with one of these values.
enum tril_code {
  TRIL_OK = 0,
  TRIL_MISUSE = 1,  // not a handle, a null pointer, a length that cannot be, a call that may
                    // not be made here
  TRIL_INVALID_ARGUMENT = 2,  // an option, or a line that cannot be used
  TRIL_UNSUPPORTED = 3,       // by this model, device or processor
  TRIL_IO = 4,
  TRIL_BAD_FORMAT = 5,  // a file is damaged, or is no such file
  TRIL_OUT_OF_MEMORY = 6,
  TRIL_DEVICE = 7,  // a GPU that is missing, or that failed
  TRIL_CANCELLED = 8,
  TRIL_TIMED_OUT = 9,
  TRIL_INTERNAL = 10
};
// A code in a few words, "invalid argument"; "unknown" for any other number. Never freed.
TRIL_API const char* tril_errstr(int code);
// What went wrong, in one line, in the last call of this thread that failed and was given this
// handle; NULL: in the last that failed at all, which is how to ask about tril_load(). "" where
// none has failed; a thread remembers eight handles. Lasts until this thread's next call that
// fails.
TRIL_API const char* tril_errmsg(const void* handle);

// How many handles of this process are not freed yet: for tests that look for leaks.
TRIL_API int64_t tril_open_handles(void);

// Options, by name. One set may serve any number of calls; an option that does not concern a call
// is an error there. Where options are a parameter, NULL means none. Calls read them before they
// return.
typedef struct tril_options tril_options;

TRIL_API int tril_options_new(tril_options** options);
// tril_options_set(options, "beam", "4"). A value of NULL forgets what was set.
TRIL_API int tril_options_set(tril_options* options, const char* name, const char* value);
TRIL_API int tril_options_free(tril_options* options);
// The name of each option there is, counted from 0, and what it does and takes; NULL at the end.
// Never freed.
TRIL_API const char* tril_option_name(int64_t index);
TRIL_API const char* tril_option_help(int64_t index);

// A model with its tokenizer, ready to be used.
typedef struct tril_translator tril_translator;

// From a model folder. Options: device, compute, threads, trust.
TRIL_API int tril_load(const char* folder, const tril_options* options,
                       tril_translator** translator);
// Lines that were submitted go on.
TRIL_API int tril_translator_free(tril_translator* translator);
// JSON: version, device, compute, number of parameters, configuration, languages, and notices that
// loading gave, such as that a folder is not sealed.
TRIL_API int tril_info(const tril_translator* translator, const char** json, int64_t* length);
// JSON: the processor and the GPUs of this machine, and why none can be used. Never freed.
TRIL_API int tril_machine(const char** json, int64_t* length);

// Results of lines, counted from 0. Each line has one or more results ("n_best"), best first, also
// counted from 0; results have tokens.
typedef struct tril_result tril_result;

TRIL_API int tril_result_free(tril_result* result);
TRIL_API int tril_result_lines(const tril_result* result, int64_t* lines);
// Results of a line: at least one. A line that was skipped has an empty one.
TRIL_API int tril_result_count(const tril_result* result, int64_t line, int64_t* count);
// Why a line was skipped; "" where it was not.
TRIL_API int tril_result_skipped(const tril_result* result, int64_t line, const char** reason,
                                 int64_t* length);
TRIL_API int tril_result_text(const tril_result* result, int64_t line, int64_t index,
                              const char** text, int64_t* length);
// The sum of the tokens' natural log-probabilities.
TRIL_API int tril_result_score(const tril_result* result, int64_t line, int64_t index,
                               double* score);
// Whether it came to its end: 0 if it was cut at a limit, so that its text is not complete.
TRIL_API int tril_result_ended(const tril_result* result, int64_t line, int64_t index, int* ended);
// `count` ids, and the log-probability of each; those are NULL where the result was not searched or
// scored.
TRIL_API int tril_result_tokens(const tril_result* result, int64_t line, int64_t index,
                                const int32_t** ids, const float** log_probs, int64_t* count);
// A token as its vocabulary writes it: "▁the".
TRIL_API int tril_result_piece(const tril_result* result, int64_t line, int64_t index,
                               int64_t token, const char** piece, int64_t* length);
// With the option "alignments". Weights between tokens: target_tokens rows of source_tokens numbers
// that add up to 1.
TRIL_API int tril_result_alignment(const tril_result* result, int64_t line, int64_t index,
                                   const double** weights, int64_t* target_tokens,
                                   int64_t* source_tokens);
// Likewise; links between words, counted from 0: `count` pairs, a source word and a target word.
TRIL_API int tril_result_links(const tril_result* result, int64_t line, int64_t index,
                               const int32_t** pairs, int64_t* count);

// Translate: for models that do. Options: those of searches ("beam", "n_best", "sample" …),
// "prefix", "alignments", languages, "shortlist", "batch" and, for many lines, "bad_lines".
TRIL_API int tril_translate(tril_translator* translator, const char* text, int64_t length,
                            const tril_options* options, tril_result** result);
// `count` lines. `lengths` may be NULL: every text then ends with a zero byte. Draws of sampling
// depend on a line's number.
TRIL_API int tril_translate_batch(tril_translator* translator, const char* const* texts,
                                  const int64_t* lengths, int64_t count,
                                  const tril_options* options, tril_result** result);
// A whole text, whose lines and white space are kept; the result is one line that holds all of the
// text, without tokens. Option "split" says which lines are cut into sentences.
TRIL_API int tril_translate_text(tril_translator* translator, const char* text, int64_t length,
                                 const tril_options* options, tril_result** result);

// Continue text: for decoder-only models. The text is part of the result.
TRIL_API int tril_generate(tril_translator* translator, const char* text, int64_t length,
                           const tril_options* options, tril_result** result);
TRIL_API int tril_generate_batch(tril_translator* translator, const char* const* texts,
                                 const int64_t* lengths, int64_t count, const tril_options* options,
                                 tril_result** result);

// Log-probabilities of given translations, token by token. For a decoder-only model, source is
// NULL. Options: languages, "shortlist", "prefix" and, for many lines, "bad_lines".
TRIL_API int tril_score(tril_translator* translator, const char* source, int64_t source_length,
                        const char* target, int64_t target_length, const tril_options* options,
                        tril_result** result);
// `count` pairs. Lengths may be NULL, as in tril_translate_batch().
TRIL_API int tril_score_batch(tril_translator* translator, const char* const* sources,
                              const int64_t* source_lengths, const char* const* targets,
                              const int64_t* target_lengths, int64_t count,
                              const tril_options* options, tril_result** result);

// The tokens of a text, as the model reads it (END and languages included) or, with the option
// "side" set to "target", writes it. Options: "side", languages.
TRIL_API int tril_tokenize(tril_translator* translator, const char* text, int64_t length,
                           const tril_options* options, tril_result** result);
// The text of `count` tokens.
TRIL_API int tril_detokenize(tril_translator* translator, const int32_t* ids, int64_t count,
                             tril_result** result);

// A line that was submitted, to be translated or continued while the caller does something else.
typedef struct tril_pending tril_pending;

// Called as tokens become certain: those that are new, and all of the text so far. `sample` counts
// the draws of sampling. Pointers are valid during the call alone.
typedef void (*tril_token_callback)(void* user, int64_t sample, const int32_t* ids,
                                    const float* log_probs, int64_t count, const char* text,
                                    int64_t length);
// Called once, when the line is done, whatever the outcome: for a line that needs no decoding, such
// as an empty one or one that cannot be used, on the caller's thread before tril_submit() returns.
// So hold no lock there that the callback takes.
typedef void (*tril_ready_callback)(void* user);

// Callbacks may be NULL. They are called on a thread of tril's (but see above), should return
// quickly, and may not wait: in them, calls that would (translate, generate, score, load, wait and
// the result of a line that is not done) fail with TRIL_MISUSE. C++ exceptions that leave a
// callback are dropped. Options: those of tril_translate() or tril_generate(), and "number",
// "client", "timeout".
TRIL_API int tril_submit(tril_translator* translator, const char* text, int64_t length,
                         const tril_options* options, tril_token_callback on_tokens,
                         tril_ready_callback on_ready, void* user, tril_pending** pending);
// Whether it is done: 1 or 0.
TRIL_API int tril_pending_poll(const tril_pending* pending, int* is_done);
// Waits until it is done, but no longer than so many seconds; a negative number: however long it
// takes. Time that passes is no error: `is_done` is 0 then.
TRIL_API int tril_pending_wait(const tril_pending* pending, double seconds, int* is_done);
// The line leaves within a step or two, unless it is done before.
TRIL_API int tril_pending_cancel(tril_pending* pending);
// Waits. The result can be taken once. Fails with what went wrong: TRIL_CANCELLED, TRIL_TIMED_OUT …
TRIL_API int tril_pending_result(tril_pending* pending, tril_result** result);
// Cancels a line that is not done. When this returns, no callback is running, and none will be
// called any more; in a callback of the same line, it is the last. So do not hold a lock that a
// callback takes.
TRIL_API int tril_pending_free(tril_pending* pending);

#ifdef __cplusplus
}
#endif

#endif
