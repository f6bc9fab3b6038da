// Translate with a model folder that `tril train` or `tril demo` has made.
#include <cstdio>

#include "tril/tril.h"

int main(int argc, char** argv) try {
  const tril::Translator translator = tril::Translator::load(argc > 1 ? argv[1] : "demo-model");
  for (const char* english : {"How are you?", "Congratulations", "Thank you", "I am fine"}) {
    std::printf("%s -> %s\n", english, translator.translate(english).c_str());
  }
} catch (const tril::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
