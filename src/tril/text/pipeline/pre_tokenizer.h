// How text is cut into words, which the model never joins: the part "pre_tokenizer" of a
// tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tril/text/pipeline/component.h"

namespace tril::pipeline {

struct Word {
  std::string text{};     // never empty
  bool is_first = false;  // the text of a line begins with it
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;
  virtual ~PreTokenizer() = default;
  virtual std::vector<Word> apply(std::vector<Word> words) const = 0;
};

// ByteLevel, Metaspace, Split, WhitespaceSplit, Sequence; others raise `unsupported`.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(Component component);
// ByteLevel with GPT-2's pattern, for files without a tokenizer.json.
std::unique_ptr<const PreTokenizer> make_byte_level(bool add_prefix_space);

}  // namespace tril::pipeline
