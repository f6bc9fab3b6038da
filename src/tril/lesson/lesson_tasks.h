// Lesson `tasks`: translation, summary and chat are the same class with the same mask.
//
// Three toy tasks (task_sentences.h) are learnt by three small models, all of them Transformers:
// two encoder–decoders and one decoder-only model, in which question and answer are one sequence.
// Each is examined in the same way: its answers to held-out examples; the mask of its decoder,
// observed while it runs, in the parallel pass of training and token by token; and whether both
// passes give the same logits, bit for bit (prove/agreement.h), with the mask and without it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tril/lesson/task_sentences.h"
#include "tril/prove/agreement.h"
#include "tril/tensor/mask.h"

namespace tril {

struct TaskFigures {
  std::string name;
  bool decoder_only = false;
  int64_t examples = 0, parameters = 0, updates = 0;
  double loss = 0.0;               // of training, per token, mean over the last tenth
  std::vector<TaskExample> shown;  // held-out examples, and what the model answers
  std::vector<std::string> written;
  int64_t held_out = 0, exact = 0;  // answers that are exactly right

  // The decoder's masked self-attention over the held-out examples: rows of all layers, in the
  // parallel pass and token by token, and those that saw exactly themselves and all before them.
  int64_t rows = 0, causal_rows = 0;
  // The mask of the first example shown in the parallel pass, and the tokens of its rows.
  Mask mask{};
  std::vector<std::string> words;
  // Parallel against token by token over the held-out examples, fed with the right answers: under
  // the mask, and without it, where rows of the parallel pass see tokens that do not exist yet when
  // the model writes.
  Agreement agreement{}, unmasked{};

  // The mask is causal in every row, and both passes agree; without the mask they do not. More than
  // nine in ten answers are right.
  bool holds() const;
};

struct TasksLesson {
  std::vector<TaskFigures> tasks;  // translation, summary, chat
  bool holds = false;              // of each of them
};

struct TasksOptions {
  int64_t updates = 300;  // of each of the three models
  uint64_t seed = 1;
  int threads = 0;
  TestHooks hooks{};  // deliberate faults while the model is examined, for tests
  // Called after each update, counted over all models; may be empty.
  std::function<void(int64_t update, int64_t updates, double loss)> progress{};
};
TasksLesson teach_tasks(const TasksOptions& options = {});

}  // namespace tril
