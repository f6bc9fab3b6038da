// The examples of docs/reference. Each is a function whose source stands between two lines that
// name it; check.sh compares it, and what it prints, with the pages.
#pragma once

#include <string>

namespace reference {

// A model that knows the twenty sentences of examples/phrases.en by heart, and a folder for
// results.
struct Folders {
  std::string model, scratch;
};

void run_translating(const Folders& folders);
void run_models(const Folders& folders);
void run_training(const Folders& folders);

// Begins the output of an example.
void begin(const char* name);

}  // namespace reference
