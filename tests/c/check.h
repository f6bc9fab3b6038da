// What the C programs of the tests share.
#ifndef TRIL_TESTS_C_CHECK_H
#define TRIL_TESTS_C_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tril/c.h"

// Ends the program, naming the place, where a condition does not hold.
#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, tril_errmsg(NULL)); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

// The same for a call that must give a code, with a message where that is not TRIL_OK.
#define EXPECT(code, call)                                                           \
  do {                                                                               \
    const int got = (call);                                                          \
    if (got != (code) || (got != TRIL_OK && tril_errmsg(NULL)[0] == '\0')) {         \
      fprintf(stderr, "%s:%d: %s: got %s, not %s (%s)\n", __FILE__, __LINE__, #call, \
              tril_errstr(got), tril_errstr(code), tril_errmsg(NULL));               \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

#endif
