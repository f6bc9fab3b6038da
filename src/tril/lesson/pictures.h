// Pictures of lessons as SVG, drawn from the computed figures. Every figure in them is the same on
// every machine, and so is every byte.
#pragma once

#include <string>

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

namespace tril {

std::string draw_attention(const AttentionLesson& lesson);      // scores, mask, weights as matrices
std::string draw_masks(const MaskLesson& lesson);               // the kinds of mask
std::string draw_context(const ContextLesson& lesson);          // meanings moving apart by layer
std::string draw_series(const SeriesLesson& lesson);            // prices, and the forecast
std::string draw_teacher_forcing(const TeacherLesson& lesson);  // a mistake corrected, and followed
std::string draw_decoding(const DecodingLesson& lesson);        // calls, by way to decode
std::string draw_heads(const HeadsLesson& lesson);              // where each head puts its weight
std::string draw_leakage(const LeakageLesson& lesson);          // the two losses
std::string draw_forcing(const ForcingLesson& lesson);          // gradient norms, four combinations
std::string draw_sequential(const SequentialLesson& lesson);    // the calls for the shortest target
std::string draw_scale(const ScaleLesson& lesson);              // the slope with and without √d_k
std::string draw_tasks(const TasksLesson& lesson);              // the mask of each task

}  // namespace tril
