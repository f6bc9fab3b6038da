// Choices by their words (base/words.h): the program, its files and Python call them the same.
#pragma once

#include <iterator>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/base/words.h"

namespace tril::python {

// Raises `invalid_argument` for an unknown word, naming those that there are.
template <class Enum>
Enum from_word(std::string_view name, std::string_view text) {
  std::string all;
  for (size_t i = 0; i < std::size(Words<Enum>::kList); ++i) {
    if (Words<Enum>::kList[i] == text) return static_cast<Enum>(i);
    all += (i == 0 ? "" : ", ") + std::string(Words<Enum>::kList[i]);
  }
  fail(ErrorCode::invalid_argument, name, ": expected one of ", all, ", got '", text, "'");
}

}  // namespace tril::python
