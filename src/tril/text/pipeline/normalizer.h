// How text is changed before anything else: the part "normalizer" of a tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "tril/text/pipeline/component.h"

namespace tril::pipeline {

class Normalizer {
 public:
  Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;
  virtual ~Normalizer() = default;
  // Text is valid UTF-8, before and after.
  virtual std::string apply(std::string text) const = 0;
};

// Precompiled (a map of characters), Replace, Prepend, Strip, Sequence; others raise
// `unsupported`.
std::unique_ptr<const Normalizer> make_normalizer(Component component);

// Text with every match replaced. Used by decoders too.
class Replacement {
 public:
  explicit Replacement(Component& component);
  ~Replacement();
  std::string apply(std::string_view text) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace tril::pipeline
