#include "tril/lesson/lesson_scale.h"

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/base/rng.h"

namespace tril {
namespace {

constexpr double kWithin = 0.05;  // of the theoretical value

// Sums over rows, turned into means at the end.
class Figures {
 public:
  void add(const std::vector<double>& scores) {
    const double top = *std::max_element(scores.begin(), scores.end());
    std::vector<double> weights;
    double sum = 0.0;
    for (const double score : scores) {
      weights.push_back(math::exp(score - top));
      sum += weights.back();
      squares_ += score * score;
    }
    double largest = 0.0, slope = 0.0;
    for (const double weight : weights) {
      largest = std::max(largest, weight / sum);
      slope += weight / sum * (1.0 - weight / sum);
      if (!std::isfinite(static_cast<float>(weight / sum))) ++not_finite_;
    }
    largest_ += largest;
    slope_ += slope;
    scores_ += std::ssize(scores);
    ++rows_;
  }
  SoftmaxFigures means() const {
    const auto rows = static_cast<double>(rows_);
    return {.spread = std::sqrt(squares_ / static_cast<double>(scores_)),
            .largest = largest_ / rows,
            .slope = slope_ / rows};
  }
  int64_t not_finite() const { return not_finite_; }

 private:
  double squares_ = 0.0, largest_ = 0.0, slope_ = 0.0;
  int64_t scores_ = 0, rows_ = 0, not_finite_ = 0;
};

std::vector<double> random_vector(Random& random, int64_t size) {
  std::vector<double> vector(static_cast<size_t>(size));
  for (double& value : vector) value = static_cast<double>(random.normal());
  return vector;
}

ScaleRow measure(const ScaleOptions& options, int64_t head_dim, int64_t& not_finite) {
  Random random(options.seed, static_cast<uint64_t>(head_dim));
  const double root =
      math::exp(options.power * math::log(std::sqrt(static_cast<double>(head_dim))));
  Figures undivided, divided;
  for (int64_t row = 0; row < options.rows; ++row) {
    const std::vector<double> query = random_vector(random, head_dim);
    std::vector<double> scores, scaled;
    for (int64_t key = 0; key < options.keys; ++key) {
      double score = 0.0;
      for (const double value : query) score += value * static_cast<double>(random.normal());
      scores.push_back(score);
      scaled.push_back(score / root);
    }
    undivided.add(scores);
    divided.add(scaled);
  }
  not_finite += undivided.not_finite() + divided.not_finite();
  return {.head_dim = head_dim, .undivided = undivided.means(), .divided = divided.means()};
}

bool near(double value, double expected) {
  return std::fabs(value - expected) <= kWithin * expected;
}

bool as_stated(const ScaleLesson& lesson) {
  if (lesson.not_finite > 0) return false;
  const ScaleRow& last = lesson.dims.back();
  for (size_t i = 0; i < lesson.dims.size(); ++i) {
    const ScaleRow& row = lesson.dims[i];
    if (!near(row.undivided.spread, std::sqrt(static_cast<double>(row.head_dim)))) return false;
    if (!near(row.divided.spread, 1.0) || !near(row.divided.slope, last.divided.slope))
      return false;
    if (i > 0 && row.undivided.slope >= lesson.dims[i - 1].undivided.slope) return false;
  }
  return last.undivided.slope < 0.2 * last.divided.slope;
}

}  // namespace

ScaleLesson teach_scale(const ScaleOptions& options) {
  require(!options.dims.empty() && options.dims.front() >= 1 &&
              std::ranges::is_sorted(options.dims) && options.rows >= 1 && options.keys >= 2,
          ErrorCode::invalid_argument,
          "lesson scale: it needs dimensions in ascending order, a row and two keys");
  ScaleLesson lesson{.rows = options.rows, .keys = options.keys};
  for (const int64_t head_dim : options.dims) {
    lesson.dims.push_back(measure(options, head_dim, lesson.not_finite));
  }
  lesson.holds = as_stated(lesson);
  return lesson;
}

}  // namespace tril
