// Everything that tril/c.h promises, in C99.
//   c_api TRANSLATOR GENERATOR
// folders that make_model has made: one translates, the other continues text.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define LINES 5
static const char* const kLines[LINES] = {"how are you", "I am fine, thank you",
                                          "where are they going?", "मैं ठीक हूँ", "the theory"};

static void nap(void) {
  const struct timespec time = {0, 1000000};
  nanosleep(&time, NULL);
}

static tril_translator* load(const char* folder) {
  tril_translator* translator = NULL;
  EXPECT(TRIL_OK, tril_load(folder, NULL, &translator));
  CHECK(translator != NULL);
  return translator;
}

static tril_options* options_with(const char* name, const char* value) {
  tril_options* options = NULL;
  EXPECT(TRIL_OK, tril_options_new(&options));
  EXPECT(TRIL_OK, tril_options_set(options, name, value));
  return options;
}

static const char* text_in(const tril_result* result, int64_t line, int64_t index) {
  const char* text = NULL;
  int64_t length = -1;
  EXPECT(TRIL_OK, tril_result_text(result, line, index, &text, &length));
  CHECK(text != NULL && length == (int64_t)strlen(text));
  return text;
}

// The translation of a line, to be freed.
static char* translate(tril_translator* translator, const char* line, const tril_options* options) {
  tril_result* result = NULL;
  EXPECT(TRIL_OK, tril_translate(translator, line, -1, options, &result));
  char* copy = strdup(text_in(result, 0, 0));
  CHECK(copy != NULL);
  EXPECT(TRIL_OK, tril_result_free(result));
  return copy;
}

static void test_versions(void) {
  CHECK(tril_abi_version() == TRIL_ABI_VERSION);
  CHECK(tril_version()[0] >= '0' && tril_version()[0] <= '9');
  for (int code = -1; code <= 11; ++code) CHECK(tril_errstr(code)[0] != '\0');
  CHECK(strcmp(tril_errstr(TRIL_MISUSE), tril_errstr(TRIL_INTERNAL)) != 0);
  const char* json = NULL;
  int64_t length = 0;
  EXPECT(TRIL_OK, tril_machine(&json, &length));
  CHECK(length == (int64_t)strlen(json) && strstr(json, "\"processor\"") != NULL);
}

static void test_options(void) {
  tril_options* options = NULL;
  EXPECT(TRIL_OK, tril_options_new(&options));
  int64_t known = 0;
  for (; tril_option_name(known) != NULL; ++known) CHECK(tril_option_help(known)[0] != '\0');
  CHECK(known > 20 && tril_option_help(known) == NULL && tril_option_name(-1) == NULL);
  EXPECT(TRIL_OK, tril_options_set(options, "beam", "4"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "beam", "0"));
  CHECK(strstr(tril_errmsg(options), "beam") != NULL);
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "beam", "four"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "beam", ""));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "beams", "4"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "", "4"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "top_p", "nan"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "cut", "never"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "sample", "perhaps"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "forbid", "17; x"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "device", "tpu"));
  EXPECT(TRIL_OK, tril_options_set(options, "beam", NULL));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, "beams", NULL));
  EXPECT(TRIL_MISUSE, tril_options_set(options, NULL, "4"));
  EXPECT(TRIL_OK, tril_options_free(options));
  EXPECT(TRIL_MISUSE, tril_options_set(options, "beam", "4"));
}

static void test_loading(const char* folder) {
  tril_translator* translator = (tril_translator*)(intptr_t)8;
  EXPECT(TRIL_IO, tril_load("/nonexistent", NULL, &translator));
  CHECK(translator == NULL && strstr(tril_errmsg(NULL), "/nonexistent") != NULL);
  EXPECT(TRIL_MISUSE, tril_load(NULL, NULL, &translator));
  EXPECT(TRIL_MISUSE, tril_load(folder, NULL, NULL));
  tril_options* options = options_with("beam", "4");
  EXPECT(TRIL_INVALID_ARGUMENT, tril_load(folder, options, &translator));
  EXPECT(TRIL_OK, tril_options_set(options, "beam", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "device", "cuda:99"));
  EXPECT(TRIL_DEVICE, tril_load(folder, options, &translator));
  CHECK(translator == NULL && tril_errmsg(options)[0] != '\0');
  EXPECT(TRIL_OK, tril_options_set(options, "device", "cpu"));
  EXPECT(TRIL_OK, tril_options_set(options, "compute", "int8"));
  EXPECT(TRIL_OK, tril_options_set(options, "threads", "1"));
  EXPECT(TRIL_OK, tril_load(folder, options, &translator));
  const char* json = NULL;
  EXPECT(TRIL_OK, tril_info(translator, &json, NULL));
  CHECK(strstr(json, "\"compute\": \"int8\"") != NULL);
  EXPECT(TRIL_OK, tril_options_free(options));
  EXPECT(TRIL_OK, tril_translator_free(translator));
}

static void check_result(const tril_result* result, int64_t line, int64_t index) {
  const int32_t* ids = NULL;
  const float* log_probs = NULL;
  int64_t count = 0;
  double score = 0, sum = 0;
  int ended = -1;
  EXPECT(TRIL_OK, tril_result_tokens(result, line, index, &ids, &log_probs, &count));
  EXPECT(TRIL_OK, tril_result_score(result, line, index, &score));
  EXPECT(TRIL_OK, tril_result_ended(result, line, index, &ended));
  CHECK(count > 0 && (ended == 0 || ended == 1));
  for (int64_t token = 0; token < count; ++token) {
    const char* piece = NULL;
    int64_t length = 0;
    EXPECT(TRIL_OK, tril_result_piece(result, line, index, token, &piece, &length));
    CHECK(length == (int64_t)strlen(piece) && length > 0 && ids[token] >= 0);
    sum += log_probs[token];
  }
  CHECK(sum == score);
}

static void test_translating(tril_translator* translator) {
  tril_options* options = options_with("beam", "4");
  EXPECT(TRIL_OK, tril_options_set(options, "n_best", "3"));
  EXPECT(TRIL_OK, tril_options_set(options, "alignments", "true"));
  tril_result* result = NULL;
  EXPECT(TRIL_OK, tril_translate(translator, "how are you??", 11, options, &result));
  int64_t count = 0, lines = 0;
  EXPECT(TRIL_OK, tril_result_lines(result, &lines));
  EXPECT(TRIL_OK, tril_result_count(result, 0, &count));
  CHECK(lines == 1 && count == 3);
  for (int64_t i = 0; i < count; ++i) {
    check_result(result, 0, i);
    const double* weights = NULL;
    int64_t targets = 0, sources = 0, words = 0, tokens = 0;
    EXPECT(TRIL_OK, tril_result_alignment(result, 0, i, &weights, &targets, &sources));
    EXPECT(TRIL_OK, tril_result_tokens(result, 0, i, NULL, NULL, &tokens));
    CHECK(targets == tokens && sources > 0);
    for (int64_t row = 0; row < targets; ++row) {
      double sum = 0;
      for (int64_t at = 0; at < sources; ++at) sum += weights[row * sources + at];
      CHECK(sum > 0.999 && sum < 1.001);
    }
    const int32_t* pairs = NULL;
    EXPECT(TRIL_OK, tril_result_links(result, 0, i, &pairs, &words));
    for (int64_t pair = 0; pair < words; ++pair) CHECK(pairs[2 * pair] >= 0 && pairs[2 * pair] < 3);
  }
  // The length counts: eleven bytes are "how are you".
  char* text = translate(translator, "how are you", options);
  CHECK(strcmp(text, text_in(result, 0, 0)) == 0);
  free(text);
  EXPECT(TRIL_OK, tril_result_free(result));

  EXPECT(TRIL_OK, tril_translate(translator, NULL, 0, NULL, &result));
  CHECK(text_in(result, 0, 0)[0] == '\0');
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "\xff", 1, NULL, &result));
  CHECK(result == NULL);
  char many[2001];
  memset(many, 'y', sizeof many - 1);
  many[sizeof many - 1] = '\0';
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, many, -1, NULL, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "forbid", "99999"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "forbid", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "n_best", "5"));  // more than the beam
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "n_best", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "temperature", "0.5"));  // without sampling
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "temperature", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "to_language", "de"));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "to_language", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "shortlist", "true"));
  EXPECT(TRIL_IO, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_set(options, "shortlist", NULL));
  EXPECT(TRIL_OK, tril_options_set(options, "split", "always"));  // of whole texts
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate(translator, "you", -1, options, &result));
  EXPECT(TRIL_OK, tril_options_free(options));

  // A translation begins with its prefix.
  options = options_with("prefix", "thank");
  text = translate(translator, "you", options);
  CHECK(strncmp(text, "thank", 5) == 0);
  free(text);
  EXPECT(TRIL_OK, tril_options_free(options));
}

static void test_batches(tril_translator* translator) {
  tril_result* result = NULL;
  EXPECT(TRIL_OK, tril_translate_batch(translator, kLines, NULL, LINES, NULL, &result));
  int64_t lines = 0;
  EXPECT(TRIL_OK, tril_result_lines(result, &lines));
  CHECK(lines == LINES);
  for (int64_t i = 0; i < lines; ++i) {
    char* alone = translate(translator, kLines[i], NULL);
    CHECK(strcmp(alone, text_in(result, i, 0)) == 0);
    free(alone);
    check_result(result, i, 0);
  }
  EXPECT(TRIL_OK, tril_result_free(result));

  const char* const bad[3] = {"you", "\xff\xfe", "thank you!"};
  const int64_t lengths[3] = {3, 2, 9};
  EXPECT(TRIL_INVALID_ARGUMENT, tril_translate_batch(translator, bad, lengths, 3, NULL, &result));
  CHECK(strstr(tril_errmsg(translator), "line 2") != NULL);
  tril_options* options = options_with("bad_lines", "skip");
  EXPECT(TRIL_OK, tril_translate_batch(translator, bad, lengths, 3, options, &result));
  const char* reason = NULL;
  EXPECT(TRIL_OK, tril_result_skipped(result, 1, &reason, NULL));
  CHECK(strstr(reason, "UTF-8") != NULL && text_in(result, 1, 0)[0] == '\0');
  EXPECT(TRIL_OK, tril_result_skipped(result, 2, &reason, NULL));
  CHECK(reason[0] == '\0');
  char* alone = translate(translator, "thank you", NULL);
  CHECK(strcmp(alone, text_in(result, 2, 0)) == 0);
  free(alone);
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_options_free(options));

  EXPECT(TRIL_OK, tril_translate_batch(translator, NULL, NULL, 0, NULL, &result));
  EXPECT(TRIL_OK, tril_result_lines(result, &lines));
  CHECK(lines == 0);
  EXPECT(TRIL_OK, tril_result_free(result));

  // Lines are kept, and what is around them.
  options = options_with("split", "always");
  EXPECT(TRIL_OK, tril_translate_text(translator, "you\r\n\n  thank you\n", -1, options, &result));
  const char* whole = text_in(result, 0, 0);
  CHECK(strstr(whole, "\r\n\n  ") != NULL && whole[strlen(whole) - 1] == '\n');
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_options_free(options));
}

static void test_generating(tril_translator* translator, tril_translator* generator) {
  tril_result *result = NULL, *again = NULL;
  EXPECT(TRIL_OK, tril_generate(generator, "how", -1, NULL, &result));
  CHECK(strncmp(text_in(result, 0, 0), "how", 3) == 0);
  check_result(result, 0, 0);
  EXPECT(TRIL_OK, tril_generate_batch(generator, kLines, NULL, LINES, NULL, &again));
  EXPECT(TRIL_OK, tril_result_free(again));
  tril_options* options = options_with("sample", "true");
  EXPECT(TRIL_OK, tril_options_set(options, "seed", "7"));
  EXPECT(TRIL_OK, tril_options_set(options, "n_best", "2"));
  EXPECT(TRIL_OK, tril_generate(generator, "how", -1, options, &again));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_generate(generator, "how", -1, options, &result));
  for (int64_t i = 0; i < 2; ++i) CHECK(strcmp(text_in(again, 0, i), text_in(result, 0, i)) == 0);
  EXPECT(TRIL_OK, tril_result_free(again));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_options_free(options));
  EXPECT(TRIL_UNSUPPORTED, tril_translate(generator, "how", -1, NULL, &result));
  EXPECT(TRIL_UNSUPPORTED, tril_translate_text(generator, "how", -1, NULL, &result));
  EXPECT(TRIL_UNSUPPORTED, tril_generate(translator, "how", -1, NULL, &result));

  double score = 1;
  EXPECT(TRIL_OK, tril_score(generator, NULL, 0, "how are you", -1, NULL, &result));
  EXPECT(TRIL_OK, tril_result_score(result, 0, 0, &score));
  CHECK(score < 0);
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_MISUSE, tril_score(generator, "you", -1, "how are you", -1, NULL, &result));
}

static void test_scores_and_tokens(tril_translator* translator) {
  tril_result* result = NULL;
  const char* const targets[2] = {"thank you", "they are"};
  const char* const sources[2] = {"how are you", "where"};
  EXPECT(TRIL_OK, tril_score_batch(translator, sources, NULL, targets, NULL, 2, NULL, &result));
  for (int64_t i = 0; i < 2; ++i) {
    check_result(result, i, 0);
    tril_result* alone = NULL;
    double together = 0, score = 1;
    EXPECT(TRIL_OK, tril_score(translator, sources[i], -1, targets[i], -1, NULL, &alone));
    EXPECT(TRIL_OK, tril_result_score(alone, 0, 0, &score));
    EXPECT(TRIL_OK, tril_result_score(result, i, 0, &together));
    CHECK(score == together && score < 0);
    EXPECT(TRIL_OK, tril_result_free(alone));
  }
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_MISUSE, tril_score(translator, NULL, -1, "thank you", -1, NULL, &result));

  tril_options* options = options_with("side", "target");
  EXPECT(TRIL_OK, tril_tokenize(translator, "thank you", -1, options, &result));
  const int32_t* ids = NULL;
  const float* log_probs = NULL;
  int64_t count = 0;
  EXPECT(TRIL_OK, tril_result_tokens(result, 0, 0, &ids, &log_probs, &count));
  CHECK(count > 1 && ids[count - 1] == 3 && log_probs == NULL);
  tril_result* text = NULL;
  EXPECT(TRIL_OK, tril_detokenize(translator, ids, count, &text));
  CHECK(strcmp(text_in(text, 0, 0), "thank you") == 0);
  EXPECT(TRIL_OK, tril_result_free(text));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_options_free(options));
  const int32_t wrong[2] = {5, 1000000};
  EXPECT(TRIL_INVALID_ARGUMENT, tril_detokenize(translator, wrong, 2, &text));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_tokenize(translator, "\xff", -1, NULL, &text));
}

// What callbacks were called with.
struct heard {
  pthread_mutex_t mutex;
  char text[4096];
  int64_t tokens;
  int ready, misuse, calls_after;
  tril_translator* translator;
  tril_pending* to_free;
};

static void on_tokens(void* user, int64_t sample, const int32_t* ids, const float* log_probs,
                      int64_t count, const char* text, int64_t length) {
  struct heard* heard = user;
  pthread_mutex_lock(&heard->mutex);
  CHECK(sample == 0 && count > 0 && ids[0] >= 0 && log_probs[0] <= 0);
  CHECK(length < (int64_t)sizeof heard->text && strlen(text) == (size_t)length);
  CHECK(strncmp(heard->text, text, strlen(heard->text)) == 0);  // it only grows
  memcpy(heard->text, text, (size_t)length + 1);
  heard->tokens += count;
  // What would wait for the thread that runs this is refused.
  tril_result* result = NULL;
  if (tril_translate(heard->translator, "you", -1, NULL, &result) == TRIL_MISUSE) ++heard->misuse;
  pthread_mutex_unlock(&heard->mutex);
}

static void on_ready(void* user) {
  struct heard* heard = user;
  pthread_mutex_lock(&heard->mutex);
  ++heard->ready;
  pthread_mutex_unlock(&heard->mutex);
}

static void test_submitting(tril_translator* translator) {
  struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER, .translator = translator};
  tril_pending* pending = NULL;
  EXPECT(TRIL_OK,
         tril_submit(translator, kLines[0], -1, NULL, on_tokens, on_ready, &heard, &pending));
  int is_done = 0;
  while (!is_done) EXPECT(TRIL_OK, tril_pending_wait(pending, 0.05, &is_done));
  is_done = 0;
  EXPECT(TRIL_OK, tril_pending_poll(pending, &is_done));
  CHECK(is_done == 1);
  tril_result* result = NULL;
  EXPECT(TRIL_OK, tril_pending_result(pending, &result));
  char* alone = translate(translator, kLines[0], NULL);
  CHECK(strcmp(alone, text_in(result, 0, 0)) == 0);
  // Callbacks have ended when it is freed.
  EXPECT(TRIL_OK, tril_pending_free(pending));
  int64_t count = 0;
  EXPECT(TRIL_OK, tril_result_tokens(result, 0, 0, NULL, NULL, &count));
  CHECK(heard.ready == 1 && heard.tokens == count && heard.misuse > 0);
  CHECK(strcmp(heard.text, alone) == 0);
  EXPECT(TRIL_OK, tril_result_free(result));
  free(alone);

  // In the wrong order, and once too often.
  EXPECT(TRIL_OK, tril_submit(translator, kLines[1], -1, NULL, NULL, NULL, NULL, &pending));
  EXPECT(TRIL_OK, tril_pending_result(pending, &result));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_INVALID_ARGUMENT, tril_pending_result(pending, &result));
  EXPECT(TRIL_OK, tril_pending_cancel(pending));
  EXPECT(TRIL_OK, tril_pending_free(pending));
  EXPECT(TRIL_MISUSE, tril_pending_cancel(pending));
  EXPECT(TRIL_MISUSE, tril_pending_result(pending, &result));
  EXPECT(TRIL_MISUSE, tril_submit(translator, "you", -1, NULL, NULL, NULL, NULL, NULL));

  // A line that cannot be used says so when its result is taken.
  EXPECT(TRIL_OK, tril_submit(translator, "\xff", 1, NULL, NULL, on_ready, &heard, &pending));
  CHECK(heard.ready == 2);
  EXPECT(TRIL_INVALID_ARGUMENT, tril_pending_result(pending, &result));
  EXPECT(TRIL_OK, tril_pending_free(pending));

  tril_options* options = options_with("timeout", "1e-9");
  EXPECT(TRIL_OK, tril_submit(translator, kLines[0], -1, options, NULL, NULL, NULL, &pending));
  EXPECT(TRIL_TIMED_OUT, tril_pending_result(pending, &result));
  EXPECT(TRIL_OK, tril_pending_free(pending));
  EXPECT(TRIL_OK, tril_options_free(options));
}

static void test_cancelling(tril_translator* translator) {
  enum { kMany = 100 };
  tril_pending* pending[kMany];
  tril_result* result = NULL;
  int cancelled = 0;
  for (int i = 0; i < kMany; ++i) {
    EXPECT(TRIL_OK,
           tril_submit(translator, kLines[i % LINES], -1, NULL, NULL, NULL, NULL, &pending[i]));
  }
  for (int i = kMany - 1; i >= 0; --i) EXPECT(TRIL_OK, tril_pending_cancel(pending[i]));
  for (int i = 0; i < kMany; ++i) {
    const int code = tril_pending_result(pending[i], &result);
    CHECK(code == TRIL_OK || code == TRIL_CANCELLED);
    cancelled += code == TRIL_CANCELLED;
    EXPECT(TRIL_OK, tril_result_free(result));
    EXPECT(TRIL_OK, tril_pending_free(pending[i]));
  }
  CHECK(cancelled > 0);
  // Those that are freed have no callback any more.
  struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER, .translator = translator};
  for (int i = 0; i < kMany; ++i) {
    EXPECT(TRIL_OK, tril_submit(translator, kLines[i % LINES], -1, NULL, NULL, on_ready, &heard,
                                &pending[i]));
  }
  for (int i = 0; i < kMany; ++i) EXPECT(TRIL_OK, tril_pending_free(pending[i]));
  const int ready = heard.ready;
  for (int i = 0; i < 20; ++i) nap();
  CHECK(heard.ready == ready && ready < kMany);
}

// A callback that frees its own line, and with it the last that keeps the model.
static void on_ready_free(void* user) {
  struct heard* heard = user;
  pthread_mutex_lock(&heard->mutex);
  EXPECT(TRIL_OK, tril_pending_free(heard->to_free));
  ++heard->ready;
  pthread_mutex_unlock(&heard->mutex);
}

static void test_freeing_in_callback(const char* folder) {
  struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  tril_translator* translator = load(folder);
  pthread_mutex_lock(&heard.mutex);  // until the handle is known
  EXPECT(TRIL_OK,
         tril_submit(translator, kLines[0], -1, NULL, NULL, on_ready_free, &heard, &heard.to_free));
  EXPECT(TRIL_OK, tril_translator_free(translator));
  pthread_mutex_unlock(&heard.mutex);
  for (int is_done = 0; !is_done; nap()) {
    pthread_mutex_lock(&heard.mutex);
    is_done = heard.ready;
    pthread_mutex_unlock(&heard.mutex);
  }
  EXPECT(TRIL_MISUSE, tril_pending_poll(heard.to_free, NULL));
}

// Eight threads, which share a model and compare with what one thread got.
struct work {
  tril_translator* translator;
  char* expected[LINES];
  int number;
};

static void* run_thread(void* user) {
  const struct work* work = user;
  for (int round = 0; round < 6; ++round) {
    const int line = (round + work->number) % LINES;
    if (round % 3 == 2) {
      tril_pending* pending = NULL;
      tril_result* result = NULL;
      EXPECT(TRIL_OK,
             tril_submit(work->translator, kLines[line], -1, NULL, NULL, NULL, NULL, &pending));
      EXPECT(TRIL_OK, tril_pending_result(pending, &result));
      CHECK(strcmp(work->expected[line], text_in(result, 0, 0)) == 0);
      EXPECT(TRIL_OK, tril_result_free(result));
      EXPECT(TRIL_OK, tril_pending_free(pending));
    } else {
      char* text = translate(work->translator, kLines[line], NULL);
      CHECK(strcmp(work->expected[line], text) == 0);
      free(text);
    }
    // Each thread has the message of its own failure.
    tril_result* result = NULL;
    char bad[32];
    snprintf(bad, sizeof bad, "option%d", work->number);
    tril_options* options = NULL;
    EXPECT(TRIL_OK, tril_options_new(&options));
    EXPECT(TRIL_INVALID_ARGUMENT, tril_options_set(options, bad, "1"));
    EXPECT(TRIL_MISUSE, tril_translate(work->translator, NULL, 5, options, &result));
    CHECK(strstr(tril_errmsg(options), bad) != NULL);
    CHECK(strstr(tril_errmsg(work->translator), "NULL") != NULL);
    EXPECT(TRIL_OK, tril_options_free(options));
  }
  return NULL;
}

static void test_threads(tril_translator* translator) {
  enum { kThreads = 8 };
  pthread_t threads[kThreads];
  struct work works[kThreads];
  char* expected[LINES];
  for (int i = 0; i < LINES; ++i) expected[i] = translate(translator, kLines[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    works[i].translator = translator;
    works[i].number = i;
    memcpy(works[i].expected, expected, sizeof expected);
    CHECK(pthread_create(&threads[i], NULL, run_thread, &works[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < LINES; ++i) free(expected[i]);
}

// Translates until the model is freed by another thread.
static void* run_until_freed(void* user) {
  tril_translator* translator = user;
  for (int code = TRIL_OK; code == TRIL_OK;) {
    tril_result* result = NULL;
    code = tril_translate(translator, "you", -1, NULL, &result);
    CHECK(code == TRIL_OK || code == TRIL_MISUSE);
    if (code == TRIL_OK) (void)text_in(result, 0, 0);
    EXPECT(TRIL_OK, tril_result_free(result));
  }
  return NULL;
}

static void test_freeing_while_used(const char* folder) {
  tril_translator* translator = load(folder);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, run_until_freed, translator) == 0);
  }
  for (int i = 0; i < 5; ++i) nap();
  EXPECT(TRIL_OK, tril_translator_free(translator));
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

// Every function with every handle that is none.
static void check_misuse(const void* bad) {
  void* place = NULL;
  const char* text = NULL;
  const int32_t* ids = NULL;
  const double* numbers = NULL;
  int64_t count = 0;
  double score = 0;
  int flag = 0;
  tril_options* options = (tril_options*)(intptr_t)bad;
  tril_translator* translator = (tril_translator*)(intptr_t)bad;
  tril_result *result = (tril_result*)(intptr_t)bad, *made = NULL;
  tril_pending *pending = (tril_pending*)(intptr_t)bad, *submitted = NULL;
  const int freeing = bad == NULL ? TRIL_OK : TRIL_MISUSE;
  EXPECT(TRIL_MISUSE, tril_options_set(options, "beam", "4"));
  EXPECT(freeing, tril_options_free(options));
  EXPECT(freeing, tril_translator_free(translator));
  EXPECT(freeing, tril_result_free(result));
  EXPECT(freeing, tril_pending_free(pending));
  EXPECT(TRIL_MISUSE, tril_info(translator, &text, &count));
  EXPECT(TRIL_MISUSE, tril_translate(translator, "you", -1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_translate_batch(translator, kLines, NULL, LINES, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_translate_text(translator, "you", -1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_generate(translator, "you", -1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_generate_batch(translator, kLines, NULL, LINES, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_score(translator, "you", -1, "you", -1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_score_batch(translator, kLines, NULL, kLines, NULL, 1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_tokenize(translator, "you", -1, NULL, &made));
  EXPECT(TRIL_MISUSE, tril_detokenize(translator, NULL, 0, &made));
  EXPECT(TRIL_MISUSE, tril_submit(translator, "you", -1, NULL, NULL, NULL, NULL, &submitted));
  EXPECT(TRIL_MISUSE, tril_result_lines(result, &count));
  EXPECT(TRIL_MISUSE, tril_result_count(result, 0, &count));
  EXPECT(TRIL_MISUSE, tril_result_skipped(result, 0, &text, &count));
  EXPECT(TRIL_MISUSE, tril_result_text(result, 0, 0, &text, &count));
  EXPECT(TRIL_MISUSE, tril_result_score(result, 0, 0, &score));
  EXPECT(TRIL_MISUSE, tril_result_ended(result, 0, 0, &flag));
  EXPECT(TRIL_MISUSE, tril_result_tokens(result, 0, 0, &ids, NULL, &count));
  EXPECT(TRIL_MISUSE, tril_result_piece(result, 0, 0, 0, &text, &count));
  EXPECT(TRIL_MISUSE, tril_result_alignment(result, 0, 0, &numbers, &count, NULL));
  EXPECT(TRIL_MISUSE, tril_result_links(result, 0, 0, &ids, &count));
  EXPECT(TRIL_MISUSE, tril_pending_poll(pending, &flag));
  EXPECT(TRIL_MISUSE, tril_pending_wait(pending, 0, &flag));
  EXPECT(TRIL_MISUSE, tril_pending_cancel(pending));
  EXPECT(TRIL_MISUSE, tril_pending_result(pending, &made));
  CHECK(made == NULL && submitted == NULL && text == NULL && ids == NULL && numbers == NULL);
  CHECK(count == 0 && place == NULL);
}

// Handles that are good, for other calls.
static void check_misuse_of_kind(tril_options* options, tril_translator* translator) {
  tril_result* result = NULL;
  int64_t lines = 0;
  EXPECT(TRIL_MISUSE, tril_result_lines((tril_result*)(intptr_t)(void*)options, &lines));
  EXPECT(TRIL_MISUSE, tril_options_set((tril_options*)(intptr_t)(void*)translator, "beam", "4"));
  EXPECT(TRIL_MISUSE,
         tril_translate((tril_translator*)(intptr_t)(void*)options, "you", -1, NULL, &result));
  EXPECT(TRIL_MISUSE, tril_translate(translator, "you", -1,
                                     (tril_options*)(intptr_t)(void*)translator, &result));
  EXPECT(TRIL_MISUSE, tril_pending_cancel((tril_pending*)(intptr_t)(void*)translator));
}

static void test_misuse(tril_translator* translator) {
  int here = 0;
  check_misuse(NULL);
  check_misuse(&here);
  check_misuse((const void*)(intptr_t)1);
  check_misuse((const void*)(intptr_t)-1);
  for (intptr_t number = 0x7fffffff0; number < 0x7fffffff8; ++number) {
    check_misuse((const void*)number);
  }
  // Of another kind: a message says which.
  tril_options* options = options_with("beam", "2");
  EXPECT(TRIL_MISUSE, tril_result_free((tril_result*)(intptr_t)(void*)options));
  CHECK(strstr(tril_errmsg(options), "options") != NULL);
  EXPECT(TRIL_MISUSE, tril_options_free((tril_options*)(intptr_t)(void*)translator));
  check_misuse_of_kind(options, translator);

  tril_result* result = NULL;
  const int64_t lies[] = {-2, INT64_MIN, INT64_MAX, (int64_t)1 << 40};
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; ++i) {
    EXPECT(TRIL_MISUSE, tril_translate(translator, "you", lies[i], options, &result));
    EXPECT(TRIL_MISUSE, tril_tokenize(translator, "you", lies[i], NULL, &result));
    EXPECT(TRIL_MISUSE, tril_score(translator, "you", -1, "you", lies[i], NULL, &result));
    EXPECT(TRIL_MISUSE, tril_translate_batch(translator, kLines, lies, 4, NULL, &result));
    if (lies[i] > (int64_t)1 << 31 || lies[i] < 0) {
      EXPECT(TRIL_MISUSE, tril_translate_batch(translator, kLines, NULL, lies[i], NULL, &result));
      EXPECT(TRIL_MISUSE, tril_detokenize(translator, NULL, lies[i], &result));
    }
  }
  EXPECT(TRIL_MISUSE, tril_translate(translator, NULL, -1, NULL, &result));
  EXPECT(TRIL_MISUSE, tril_translate(translator, NULL, 3, NULL, &result));
  EXPECT(TRIL_MISUSE, tril_translate_batch(translator, NULL, NULL, 2, NULL, &result));
  const char* const holes[2] = {"you", NULL};
  EXPECT(TRIL_MISUSE, tril_translate_batch(translator, holes, NULL, 2, NULL, &result));
  EXPECT(TRIL_MISUSE, tril_translate(translator, "you", -1, NULL, NULL));
  EXPECT(TRIL_MISUSE, tril_detokenize(translator, NULL, 2, &result));
  EXPECT(TRIL_MISUSE, tril_options_new(NULL));

  EXPECT(TRIL_OK, tril_translate(translator, "you", -1, options, &result));
  const char* text = NULL;
  EXPECT(TRIL_MISUSE, tril_result_text(result, 1, 0, &text, NULL));
  EXPECT(TRIL_MISUSE, tril_result_text(result, 0, 1, &text, NULL));
  EXPECT(TRIL_MISUSE, tril_result_text(result, -1, 0, &text, NULL));
  EXPECT(TRIL_MISUSE, tril_result_text(result, 0, INT64_MIN, &text, NULL));
  EXPECT(TRIL_MISUSE, tril_result_piece(result, 0, 0, 100000, &text, NULL));
  EXPECT(TRIL_MISUSE, tril_result_links(result, 0, 7, NULL, NULL));
  EXPECT(TRIL_OK, tril_result_text(result, 0, 0, NULL, NULL));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_MISUSE, tril_result_free(result));
  EXPECT(TRIL_OK, tril_options_free(options));
}

// A forked process cannot use its parent's handles, but can load its own. Tools that look for leaks
// take for one what only the threads of the parent held.
#ifndef TRIL_NO_FORK
static void test_fork(tril_translator* translator, const char* folder) {
  char* expected = translate(translator, kLines[0], NULL);
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    tril_result* result = NULL;
    EXPECT(TRIL_MISUSE, tril_translate(translator, kLines[0], -1, NULL, &result));
    CHECK(strstr(tril_errmsg(NULL), "fork") != NULL && tril_open_handles() == 0);
    tril_translator* own = load(folder);
    char* text = translate(own, kLines[0], NULL);
    CHECK(strcmp(text, expected) == 0);
    exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  free(expected);
}
#endif

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int64_t before = tril_open_handles();
  CHECK(before == 0);
  tril_translator* translator = load(argv[1]);
  tril_translator* generator = load(argv[2]);
  test_versions();
  test_options();
  test_loading(argv[1]);
  test_translating(translator);
  test_batches(translator);
  test_generating(translator, generator);
  test_scores_and_tokens(translator);
  test_submitting(translator);
  test_cancelling(translator);
  test_freeing_in_callback(argv[1]);
  test_threads(translator);
  test_freeing_while_used(argv[1]);
  test_misuse(translator);
#ifndef TRIL_NO_FORK
  test_fork(translator, argv[1]);
#endif
  EXPECT(TRIL_OK, tril_translator_free(translator));
  EXPECT(TRIL_OK, tril_translator_free(generator));
  CHECK(tril_open_handles() == 0);
  // Lines that are being decoded when the program ends: nothing waits for them, and nothing breaks.
  translator = load(argv[1]);
  static struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  for (int i = 0; i < 50; ++i) {
    tril_pending* pending = NULL;
    EXPECT(TRIL_OK,
           tril_submit(translator, kLines[i % LINES], -1, NULL, NULL, on_ready, &heard, &pending));
  }
  puts("ok");
  return 0;
}
