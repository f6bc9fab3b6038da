// The three toy tasks, and lesson `tasks` with few updates. The whole run is tests/e2e/lesson.sh's.
#include "tril/lesson/lesson_tasks.h"

#include <gtest/gtest.h>

#include <set>

#include "support/testing.h"
#include "tril/lesson/pictures.h"
#include "tril/text/unicode.h"

namespace tril::lesson_tasks_test {
namespace {

using testing::raised_by;

std::set<std::string, std::less<>> words_of(const std::vector<TaskExample>& examples) {
  std::set<std::string, std::less<>> words;
  for (const TaskExample& example : examples) {
    for (const auto* text : {&example.given, &example.answer}) {
      for (const std::string_view word : split_words(*text)) words.emplace(word);
    }
  }
  return words;
}

TEST(TaskSentences, AQuestionHasOneAnswerAndHeldOutOnesAreComposed) {
  for (const TaskSentences& task :
       {make_translation_task(), make_summary_task(), make_chat_task()}) {
    std::set<std::string> questions;
    for (const auto* part : {&task.train, &task.held_out}) {
      for (const TaskExample& example : *part) {
        EXPECT_TRUE(questions.insert(example.given).second) << example.given;
      }
    }
    EXPECT_GE(task.held_out.size(), 32u);
    EXPECT_GT(task.train.size(), 5 * task.held_out.size());
    const auto learnt = words_of(task.train);
    for (const std::string& word : words_of(task.held_out)) {
      EXPECT_TRUE(learnt.contains(word)) << word;
    }
  }
}

// The name and the thing of a held-out example are nowhere together in the training part.
TEST(TaskSentences, HeldOutPairsAreNew) {
  const std::set<std::string, std::less<>> names = {"asha",  "ravi",  "meera", "arjun",
                                                    "leela", "kiran", "sita",  "mohan"};
  const std::set<std::string, std::less<>> things = {
      "book", "pen",    "lamp", "kite",  "bag",   "cup",   "map",  "ball",
      "tea",  "coffee", "milk", "juice", "water", "lassi", "soup", "cocoa"};
  for (const TaskSentences& task : {make_summary_task(), make_chat_task()}) {
    const auto pairs = [&](const std::vector<TaskExample>& examples) {
      std::set<std::pair<std::string, std::string>> result;
      for (const TaskExample& example : examples) {
        const auto words = words_of({example});
        for (const std::string& name : names) {
          for (const std::string& thing : things) {
            if (words.contains(name) && words.contains(thing)) result.emplace(name, thing);
          }
        }
      }
      return result;
    };
    const auto learnt = pairs(task.train), held_out = pairs(task.held_out);
    EXPECT_EQ(learnt.size(), 56u);
    EXPECT_EQ(held_out.size(), 8u);
    for (const auto& pair : held_out) EXPECT_FALSE(learnt.contains(pair)) << pair.first;
  }
  const TaskExample summary = make_summary_task().held_out.front();
  EXPECT_EQ(summary.given, "it was hot . asha went to the market . she bought a book .");
  EXPECT_EQ(summary.answer, "asha bought a book");
}

TEST(LessonTasks, OneClassAndOneMask) {
  const TasksLesson l = teach_tasks({.updates = 30, .threads = 1});
  ASSERT_EQ(l.tasks.size(), 3u);
  EXPECT_FALSE(l.tasks[0].decoder_only);
  EXPECT_FALSE(l.tasks[1].decoder_only);
  EXPECT_TRUE(l.tasks[2].decoder_only);
  for (const TaskFigures& task : l.tasks) {
    EXPECT_GT(task.rows, 0);
    EXPECT_EQ(task.causal_rows, task.rows);
    EXPECT_TRUE(task.agreement.same());
    EXPECT_GT(task.unmasked.differing, 0);
    EXPECT_EQ(task.shown.size(), 3u);
    EXPECT_EQ(task.written.size(), 3u);
    ASSERT_EQ(task.mask.rows().size(), task.words.size());
    EXPECT_EQ(task.words.front(), "START");
    for (int64_t row = 0; row < std::ssize(task.words); ++row) {
      for (int64_t key = 0; key < std::ssize(task.words); ++key) {
        EXPECT_EQ(task.mask.sees(row, key), key <= row);
      }
    }
    // Its verdict needs answers that are right, and all the rest.
    TaskFigures learnt = task;
    learnt.exact = task.held_out;
    EXPECT_TRUE(learnt.holds());
    --learnt.causal_rows;
    EXPECT_FALSE(learnt.holds());
    learnt.causal_rows = learnt.rows;
    learnt.unmasked.differing = 0;
    EXPECT_FALSE(learnt.holds());
  }
  EXPECT_FALSE(l.holds);  // chat takes longer
  const TasksLesson two = teach_tasks({.updates = 30, .threads = 2});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(l.tasks[i].loss, two.tasks[i].loss);
    EXPECT_EQ(l.tasks[i].exact, two.tasks[i].exact);
  }
  EXPECT_EQ(l.tasks[0].words, (std::vector<std::string>{"START", "बड़ी", "किताब", "यहाँ", "है"}));
  const std::string svg = draw_tasks(l);
  EXPECT_EQ(svg, draw_tasks(two));
  for (const char* name : {">translation<", ">summary<", ">chat<", ">START<"}) {
    EXPECT_NE(svg.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(raised_by([] { teach_tasks({.updates = 0}); }).code, ErrorCode::invalid_argument);
}

TEST(LessonTasks, AWrongMaskIsNoticed) {
  for (const TaskFigures& task : teach_tasks({.updates = 2, .hooks = {.widen_head = 0}}).tasks) {
    EXPECT_FALSE(task.agreement.same()) << task.name;
  }
  // A mask that hides a word from itself: both passes agree, on the wrong function.
  for (const TaskFigures& task :
       teach_tasks({.updates = 2, .hooks = {.narrow_position = 1}}).tasks) {
    EXPECT_TRUE(task.agreement.same()) << task.name;
    EXPECT_LT(task.causal_rows, task.rows) << task.name;
  }
}

}  // namespace
}  // namespace tril::lesson_tasks_test
