#include <fmt/core.h>
#include <unistd.h>

#include <iostream>

#include "commands.h"
#include "lesson.h"
#include "output.h"
#include "tril/io/atomic_file.h"
#include "tril/lesson/phrasebook.h"
#include "tril/lesson/quiz.h"

namespace tril::app {
namespace {

std::string letter(size_t choice) { return std::string(1, static_cast<char>('a' + choice)); }

void print_question(const QuizQuestion& question, size_t number) {
  print_heading(fmt::format("{:>2}", number), question.question);
  for (size_t i = 0; i < question.choices.size(); ++i) {
    fmt::print("{}", set_text(question.choices[i], fmt::format("    {}  ", letter(i)), "       "));
  }
}

void print_reason(const QuizQuestion& question) {
  fmt::print("{}", set_text(fmt::format("{} See: {} {}", question.because, program_name(),
                                        question.command),
                            "    ", "    "));
}

// The choice the user typed; nothing at the end of the input.
std::optional<size_t> read_choice(size_t choices) {
  std::string line;
  for (;;) {
    fmt::print("    your answer: ");
    flush_output();
    if (!std::getline(std::cin, line)) return std::nullopt;
    const size_t at = line.find_first_not_of(" \t");
    if (at != std::string::npos) {
      const int chosen = std::tolower(static_cast<unsigned char>(line[at])) - 'a';
      if (chosen >= 0 && chosen < static_cast<int>(choices) &&
          line.find_first_not_of(" \t\r", at + 1) == std::string::npos) {
        return static_cast<size_t>(chosen);
      }
    }
    fmt::print("    please type a letter from a to {}\n", letter(choices - 1));
  }
}

}  // namespace

bool show_quiz(const LessonFlags& flags) {
  const Phrasebook phrasebook = make_phrasebook();
  const std::vector<QuizQuestion> questions =
      make_quiz(find_translator(flags, phrasebook).translator, flags.seed);
  if (!flags.page.empty()) {
    write_file_atomically(flags.page, quiz_page(questions, program_name()));
    fmt::print("{}: {} questions, to be opened in a browser\n", flags.page, questions.size());
    return true;
  }
  fmt::print("{}",
             set_text(fmt::format("{} questions on masked attention; six of them are about this "
                                  "model. Type the letter of your answer; Ctrl-D ends.",
                                  questions.size()),
                      "", ""));
  size_t right = 0, answered = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    const QuizQuestion& question = questions[i];
    print_question(question, i + 1);
    const std::optional<size_t> chosen = read_choice(question.choices.size());
    if (!chosen) {
      fmt::print("\n");
      break;
    }
    ++answered;
    const bool is_right = *chosen == question.right;
    right += is_right ? 1 : 0;
    fmt::print("    {}\n",
               is_right ? good("right")
                        : bad(fmt::format("wrong; the answer is {}", letter(question.right))));
    print_reason(question);
  }
  fmt::print("\n{} of {} right.\n", right, answered);
  return true;
}

}  // namespace tril::app
