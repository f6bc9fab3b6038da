// Lesson `teacher-forcing`: a wrong word in training is corrected at the next step; in inference it
// is followed.
//
// Sentences go through a translator twice. As in training: START and the right words in one pass
// under the mask, with the likeliest next word at each step. As in inference: token by token, each
// step reading what the model itself wrote. Up to its first mistake both are the same function on
// the same words; what follows shows the difference.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tril/lesson/phrasebook.h"
#include "tril/translate/translator.h"

namespace tril {

// One step of one sentence, in both phases. Empty texts: that phase has no such step.
struct TeacherStep {
  std::string right;
  std::string fed_in_training, predicted_in_training;
  double right_probability = 0.0;  // training minimises minus its logarithm
  std::string fed_in_inference{}, predicted_in_inference{};
  bool mistake = false;  // in training: the prediction is wrong
};

struct TeacherExample {
  std::string english, hindi;
  std::string written;  // by the model in inference
  std::vector<TeacherStep> steps{};
  int64_t mistake = 0;  // the step of the first one
  // Steps after it that have a right word, and how many of them are right in each phase: at their
  // own place; and, where the mistake is followed, at any place in the right order (one word too
  // many shifts all that follow).
  int64_t following = 0, right_when_corrected = 0, right_when_followed = 0;
  int64_t followed_in_order = 0;
};

// The lecture's example: "I am fine" is मैं ठीक हूँ. Both passes read the sentence as training does,
// once with the right word and once with बढ़िया (great) in its place.
struct SwappedWord {
  std::string english, right, wrong;
  // Positions before the word is fed in, and from there on; how many of each have other logits.
  int64_t before = 0, before_changed = 0;
  int64_t after = 0, after_changed = 0;
  // What is predicted right after the word, and how likely, with each of the two.
  std::string next_after_right{}, next_after_wrong{};
  double probability_after_right = 0.0, probability_after_wrong = 0.0;
  // A word depends on the one fed in before it: everything from there on changes, nothing before.
  bool depends_on_previous() const {
    return after > 0 && after_changed == after && before_changed == 0;
  }
};

struct TeacherLesson {
  int64_t sentences = 0;
  int64_t left_out = 0;      // longer, in the model's tokens, than the model can read
  int64_t with_mistake = 0;  // sentences
  // Over all of these, as in TeacherExample.
  int64_t following = 0, right_when_corrected = 0, right_when_followed = 0;
  int64_t followed_in_order = 0;
  // Up to and including the first mistake, both phases predict the same words.
  bool same_until_mistake = false;
  TeacherExample example{};
  SwappedWord swapped{};
  // The example's mistake is the model's own. False: it made none that is followed by anything, and
  // its second choice for the first word was inserted instead.
  bool real = false;

  // A word depends on the one fed in before it (`swapped`). When corrected, more of the following
  // words are right than when followed, wherever they stand; over all sentences if the mistake is
  // real, in the example if it was inserted.
  bool holds = false;
};

// Raises `invalid_argument` for a decoder-only model and if no sentence is left.
TeacherLesson teach_teacher_forcing(const Translator& translator,
                                    std::span<const PhrasePair> sentences, int threads = 0);

}  // namespace tril
