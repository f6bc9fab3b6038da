// Twenty questions to test oneself: most from the claims of the lecture, the rest about the
// reader's own model, so that the answers cannot be learnt by heart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tril/translate/translator.h"

namespace tril {

struct QuizQuestion {
  std::string question{};
  std::vector<std::string> choices{};
  size_t right = 0;       // index into choices
  std::string because{};  // why it is right
  std::string command{};  // the command that shows it, without the program's name
  int claim = 0;          // the claim it is about; 0: a question about the model
};

constexpr size_t kQuizQuestions = 20;

// The same seed and model give the same questions in the same order; the order of choices depends
// on the seed. Six of them are about the model. Raises `invalid_argument` for a decoder-only model.
std::vector<QuizQuestion> make_quiz(const Translator& translator, uint64_t seed = 1);

// The whole quiz as one page without network access: a click shows an answer and its reason.
std::string quiz_page(const std::vector<QuizQuestion>& questions, const std::string& program);

}  // namespace tril
