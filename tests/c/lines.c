// Lines from stdin to stdout as `tril translate --scores` and `tril generate --scores` print them,
// by way of tril/c.h: the script beside this compares the two.
//   c_lines MODEL translate|generate [OPTION=VALUE]...
// Without arguments, the names of all options.
#include "check.h"

int main(int argc, char** argv) {
  static char lines[64][4096];
  const char* texts[64];
  int64_t count = 0;
  int numbers = 0;  // whether to print those of lines
  if (argc == 1) {
    for (int64_t i = 0; tril_option_name(i) != NULL; ++i) puts(tril_option_name(i));
    return 0;
  }
  if (argc < 3) return 2;
  for (; count < 64 && fgets(lines[count], sizeof lines[0], stdin) != NULL; ++count) {
    lines[count][strcspn(lines[count], "\n")] = '\0';
    texts[count] = lines[count];
  }
  tril_options* options = NULL;
  EXPECT(TRIL_OK, tril_options_new(&options));
  for (int i = 3; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (value == NULL) return 2;
    *value++ = '\0';
    EXPECT(TRIL_OK, tril_options_set(options, argv[i], value));
    numbers = numbers || strcmp(argv[i], "n_best") == 0;
  }
  tril_translator* translator = NULL;
  tril_result* result = NULL;
  EXPECT(TRIL_OK, tril_load(argv[1], NULL, &translator));
  if (strcmp(argv[2], "translate") == 0) {
    EXPECT(TRIL_OK, tril_translate_batch(translator, texts, NULL, count, options, &result));
  } else {
    EXPECT(TRIL_OK, tril_generate_batch(translator, texts, NULL, count, options, &result));
  }
  for (int64_t line = 0; line < count; ++line) {
    int64_t results = 0;
    EXPECT(TRIL_OK, tril_result_count(result, line, &results));
    for (int64_t i = 0; i < results; ++i) {
      const char* text = NULL;
      double score = 0;
      EXPECT(TRIL_OK, tril_result_text(result, line, i, &text, NULL));
      EXPECT(TRIL_OK, tril_result_score(result, line, i, &score));
      if (numbers) printf("%d\t", (int)line + 1);
      printf("%.17g\t%s\n", score, text);
    }
  }
  EXPECT(TRIL_OK, tril_options_free(options));
  EXPECT(TRIL_OK, tril_result_free(result));
  EXPECT(TRIL_OK, tril_translator_free(translator));
  return 0;
}
