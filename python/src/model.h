// A model folder that was loaded, as Python holds it.
#pragma once

#include <memory>
#include <string>

#include "gil.h"
#include "tril/translate/translator.h"

namespace tril::python {

// What a folder is loaded with: words of the program (`--device`, `--compute`), "auto" and
// "default" for its defaults.
struct Loading {
  std::string folder;
  std::string device = "auto";
  std::string compute = "default";
  int threads = 0;
};

struct Model {
  Loading loading;
  Held<Translator> translator;
  std::vector<std::string> notices;  // what the loader had to say
};

// Raises what Translator::load() raises. Without Python's lock.
Translator load(const Loading& loading, Purpose purpose, std::vector<std::string>* notices);

}  // namespace tril::python
