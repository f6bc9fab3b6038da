// The experiments a ClaimLab has run so far. Each runs when its result is first needed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tril/lesson/claims.h"
#include "tril/lesson/lesson_attention.h"
#include "tril/lesson/lesson_context.h"
#include "tril/lesson/lesson_decoding.h"
#include "tril/lesson/lesson_forcing.h"
#include "tril/lesson/lesson_heads.h"
#include "tril/lesson/lesson_leakage.h"
#include "tril/lesson/lesson_masks.h"
#include "tril/lesson/lesson_scale.h"
#include "tril/lesson/lesson_sequential.h"
#include "tril/lesson/lesson_series.h"
#include "tril/lesson/lesson_tasks.h"
#include "tril/lesson/lesson_teacher_forcing.h"
#include "tril/lesson/lesson_work.h"
#include "tril/lesson/phrasebook.h"
#include "tril/lesson/quiz.h"
#include "tril/prove/proof.h"

namespace tril {

struct ClaimLab::Results {
  Results(const ClaimLabOptions& given, std::optional<Translator> with)
      : options(given), translator_(std::move(with)) {}

  const AttentionLesson& attention();
  const MaskLesson& masks();
  const ContextLesson& context();
  const SeriesLesson& series();
  const TeacherLesson& teacher();
  const LeakageLesson& leakage();
  const SequentialLesson& sequential();
  const ScaleLesson& scale();
  const WorkLesson& work();
  const DecodingLesson& decoding();
  const ForcingLesson& forcing();
  const HeadsLesson& heads();
  const TasksLesson& tasks();
  const ProofReport& proof();
  // The parts of each decoder layer of a running model, in the order in which they are computed:
  // "masked self-attention", "cross-attention", "feed-forward".
  const std::vector<std::vector<std::string>>& sublayers();

  const Translator& translator();
  const Phrasebook& phrasebook();

  const ClaimLabOptions options;

 private:
  void tell(std::string_view what, int64_t done = 0, int64_t all = 0) const {
    if (options.progress) options.progress(what, done, all);
  }

  std::optional<Translator> translator_;
  std::optional<Phrasebook> phrasebook_;
  std::optional<AttentionLesson> attention_;
  std::optional<MaskLesson> masks_;
  std::optional<ContextLesson> context_;
  std::optional<SeriesLesson> series_;
  std::optional<TeacherLesson> teacher_;
  std::optional<LeakageLesson> leakage_;
  std::optional<SequentialLesson> sequential_;
  std::optional<ScaleLesson> scale_;
  std::optional<WorkLesson> work_;
  std::optional<DecodingLesson> decoding_;
  std::optional<ForcingLesson> forcing_;
  std::optional<HeadsLesson> heads_;
  std::optional<TasksLesson> tasks_;
  std::optional<ProofReport> proof_;
  std::optional<std::vector<std::vector<std::string>>> sublayers_;
};

}  // namespace tril
