// Three toy tasks in words, written for the lesson `tasks`.
//
//   translation  the big book is here → बड़ी किताब यहाँ है
//   summary      it was hot . asha went to the market . she bought a pen . → asha bought a pen
//   chat         user I am asha bot hello asha user I like tea bot tea is nice
//                user who am I bot → you are asha
//
// Whole combinations are held out: their words and patterns are all in the training part. In the
// summary and in the chat the name and the thing of a held-out example never occur together there,
// so an answer that uses both, or the right one of the two, was not remembered.
#pragma once

#include <string>
#include <vector>

namespace tril {

struct TaskExample {
  std::string given, answer;
};

struct TaskSentences {
  std::vector<TaskExample> train, held_out;
};

// The same every time.
TaskSentences make_translation_task();
TaskSentences make_summary_task();
TaskSentences make_chat_task();

}  // namespace tril
