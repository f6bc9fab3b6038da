// What tril_result stands for. Internal to c/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/c/handles.h"
#include "tril/translate/translator.h"

namespace tril::c {

struct ResultLine {
  std::vector<TextHypothesis> hypotheses{};  // at least one
  std::string skipped{};
  // Of each hypothesis: source word, target word, source word …
  std::vector<std::vector<int32_t>> links{};
};

// It does not change once it was given out.
struct Results {
  std::vector<ResultLine> lines;

  void add(Translation&& translation);
  void add(TextScore&& score, std::string_view target);
};

template <>
struct Behind<tril_result> {
  using Object = Results;
  static constexpr Kind kKind = Kind::result;
};

}  // namespace tril::c
