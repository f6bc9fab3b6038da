/* Eight threads share a model: each translates every line, and all must get the same. Prints the
   translations.
     threads MODEL LINE... */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tril/c.h>

enum { kThreads = 8 };

struct work {
  tril_translator* translator;
  const char* const* lines;
  int count;
  tril_result* result;
  int code;
};

static void* translate(void* user) {
  struct work* work = user;
  work->code =
      tril_translate_batch(work->translator, work->lines, NULL, work->count, NULL, &work->result);
  if (work->code != TRIL_OK) fprintf(stderr, "%s\n", tril_errmsg(work->translator));
  return NULL;
}

static const char* text_of(const tril_result* result, int line) {
  const char* text = "";
  if (tril_result_text(result, line, 0, &text, NULL) != TRIL_OK) {
    fprintf(stderr, "%s\n", tril_errmsg(NULL));
  }
  return text;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  struct work works[kThreads];
  tril_translator* translator = NULL;
  int bad = 0, i = 0, line = 0;
  if (argc < 3) return 2;
  if (tril_abi_version() < TRIL_ABI_VERSION || tril_load(argv[1], NULL, &translator) != TRIL_OK) {
    fprintf(stderr, "%s\n", tril_errmsg(NULL));
    return 1;
  }
  for (i = 0; i < kThreads; ++i) {
    const struct work work = {translator, (const char* const*)argv + 2, argc - 2, NULL, TRIL_OK};
    works[i] = work;
    if (pthread_create(&threads[i], NULL, translate, &works[i]) != 0) return 1;
  }
  for (i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    bad = bad || works[i].code != TRIL_OK;
  }
  for (line = 0; !bad && line < argc - 2; ++line) {
    puts(text_of(works[0].result, line));
    for (i = 1; i < kThreads; ++i) {
      bad = bad || strcmp(text_of(works[0].result, line), text_of(works[i].result, line)) != 0;
    }
  }
  for (i = 0; i < kThreads; ++i) tril_result_free(works[i].result);
  tril_translator_free(translator);
  return bad || tril_open_handles() != 0;
}
