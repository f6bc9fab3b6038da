#include "tril/lesson/lesson_series.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tril/base/error.h"
#include "tril/base/math.h"
#include "tril/base/rng.h"
#include "tril/models/session_state.h"
#include "tril/train/learn.h"

namespace tril {
namespace {

constexpr int64_t kWeek = 7;
constexpr int64_t kLine = 4 * kWeek;
constexpr int64_t kWeeksLearnt = 1000;
constexpr int64_t kWeeksForecast = 100;
constexpr int64_t kWednesday = 2, kThursday = 3, kFriday = 4;
// Tokens: prices from kLowest on, followed by START.
constexpr int64_t kLowest = 10, kHighest = 50;
constexpr auto kStart = static_cast<int32_t>(kHighest - kLowest + 1);
constexpr double kLevel = 30.0;
constexpr double kSeason[kWeek] = {1.0, 0.0, -1.0, 0.0, 1.0, 2.0, -3.0};

int32_t token_of(int64_t price) { return static_cast<int32_t>(price - kLowest); }
int64_t price_of(int32_t token) { return token + kLowest; }

struct Day {
  int64_t price = 0;
  double expected = 0.0;  // by the formula, before its noise
};

std::vector<Day> make_days(int64_t count) {
  Random random(29, 30);  // a stream of its own, whatever the model's seed
  std::vector<Day> days;
  double before = 0.0, last = 0.0;
  for (int64_t t = 0; t < count; ++t) {
    const double drift = 1.5 * last - 0.75 * before;
    const double x = drift + static_cast<double>(random.normal());
    const double season = kLevel + kSeason[t % kWeek];
    const auto price = static_cast<int64_t>(std::lround(season + x));
    days.push_back({std::clamp(price, kLowest, kHighest), season + drift});
    before = last;
    last = x;
  }
  return days;
}

using Line = std::vector<int32_t>;  // tokens of four weeks

Line line_from(const std::vector<Day>& days, int64_t monday) {
  Line line;
  for (int64_t t = monday; t < monday + kLine; ++t) {
    line.push_back(token_of(days[static_cast<size_t>(t)].price));
  }
  return line;
}

// What the decoder reads to forecast the days of a line: START and all days but the last.
Line read_for(const Line& line) {
  Line read = {kStart};
  read.insert(read.end(), line.begin(), line.end() - 1);
  return read;
}

// A forecast: the probabilities of the prices. START is not a price.
struct Outlook {
  explicit Outlook(const float* log_probs) {
    for (int32_t token = 0; token < kStart; ++token) {
      const double probability = math::exp(static_cast<double>(log_probs[token]));
      chances.push_back({price_of(token), probability});
      all += probability;
    }
  }
  // Half of the probability lies at or below it.
  int64_t median() const {
    double sum = 0.0;
    for (const PriceChance& chance : chances) {
      sum += chance.probability;
      if (sum >= 0.5 * all) return chance.price;
    }
    return kHighest;
  }
  double mean() const {
    double sum = 0.0;
    for (const PriceChance& chance : chances) {
      sum += chance.probability * static_cast<double>(chance.price);
    }
    return sum / all;
  }
  std::vector<PriceChance> chances{};
  double all = 0.0;
};

class Forecaster {
 public:
  Forecaster(const std::vector<Day>& days, Masking masking, const SeriesOptions& options)
      : model_(config(), options.seed), session_(model_, options.threads) {
    std::vector<LearnPair> lines;
    for (int64_t week = 0; week + 4 <= kWeeksLearnt; ++week) {
      lines.push_back({{}, line_from(days, week * kWeek)});
    }
    PairBatches batches(lines, kStart, 32 * kLine, options.seed);
    learn(
        model_, [&](Batch& batch) { batches.next(batch); },
        {.updates = options.updates,
         .average = {.type = AverageType::exponential, .decay = 0.98},
         .masking = masking,
         .seed = options.seed,
         .progress =
             [&](int64_t update, double loss) {
               if (options.progress) options.progress(masking, update, loss);
             }},
        session_);
  }

  // Log-probabilities [day, token] for the days read, all in one call.
  std::vector<float> in_parallel(const Line& read, Masking masking) {
    session_.reset();
    session_->masking = masking;
    Tape tape(session_);
    Rows rows;
    rows.add_sequence(read, {.slot = 0});
    const Tensor out = model_.log_probs(model_.forward(rows, {}, session_), session_);
    session_->masking = Masking::causal;
    return {out.data(), out.data() + out.size()};
  }

  // The same, one day per call, from an empty cache.
  std::vector<float> day_by_day(const Line& read) {
    const int32_t slot = session_->cache.open();
    std::vector<float> all;
    for (size_t day = 0; day < read.size(); ++day) {
      session_.reset();
      Rows row;
      row.add(read[day], {.slot = slot, .first = static_cast<int32_t>(day)});
      const Tensor out = model_.log_probs(model_.forward(row, {}, session_), session_);
      all.insert(all.end(), out.data(), out.data() + out.size());
    }
    session_->cache.release(slot);
    return all;
  }

  // For the day after those read.
  Outlook next_day(const Line& read) {
    const std::vector<float> all = in_parallel(read, Masking::causal);
    return Outlook(all.data() + all.size() - static_cast<size_t>(kVocab));
  }

  // The mean absolute error over the last week of each line that begins in the unseen weeks.
  double error(const std::vector<Day>& days, Masking masking) {
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t week = kWeeksLearnt; week + 4 <= kWeeksLearnt + kWeeksForecast; ++week) {
      const Line line = line_from(days, week * kWeek);
      const std::vector<float> all = in_parallel(read_for(line), masking);
      for (int64_t day = kLine - kWeek; day < kLine; ++day, ++count) {
        const int64_t price = price_of(line[static_cast<size_t>(day)]);
        sum += std::fabs(static_cast<double>(Outlook(all.data() + day * kVocab).median() - price));
      }
    }
    return sum / static_cast<double>(count);
  }

  static constexpr int64_t kVocab = kStart + 1;

 private:
  static TransformerConfig config() {
    TransformerConfig c;
    c.target_vocab = kVocab;
    c.model = 48;
    c.heads = 4;
    c.feed_forward = 96;
    c.encoder_layers = 0;
    c.decoder_layers = 2;
    c.norm_position = NormPosition::pre;
    c.max_length = kLine;
    c.dropout = 0.1;
    return c.completed();
  }

  Transformer model_;
  Session session_;
};

// The naive forecasts and the formula's, over the days of Forecaster::error().
void add_naive_errors(SeriesLesson& lesson, const std::vector<Day>& days) {
  const auto price = [&](int64_t t) {
    return static_cast<double>(days[static_cast<size_t>(t)].price);
  };
  SeriesErrors& sum = lesson.errors;
  for (int64_t t = (kWeeksLearnt + 3) * kWeek; t < (kWeeksLearnt + kWeeksForecast) * kWeek; ++t) {
    sum.yesterday += std::fabs(price(t) - price(t - 1));
    sum.last_week += std::fabs(price(t) - price(t - kWeek));
    sum.formula += std::fabs(price(t) - days[static_cast<size_t>(t)].expected);
    ++lesson.days_forecast;
  }
  for (double* each : {&sum.yesterday, &sum.last_week, &sum.formula}) {
    *each /= static_cast<double>(lesson.days_forecast);
  }
}

// The Monday of the line whose last week has Wednesday 29 and Thursday 30.
int64_t find_example(const std::vector<Day>& days) {
  for (int64_t week = kWeeksLearnt; week + 4 <= kWeeksLearnt + kWeeksForecast; ++week) {
    const int64_t last = (week + 3) * kWeek;
    if (days[static_cast<size_t>(last + kWednesday)].price == 29 &&
        days[static_cast<size_t>(last + kThursday)].price == 30) {
      return week * kWeek;
    }
  }
  fail(ErrorCode::internal, "lesson series: no unseen week has Wednesday 29 and Thursday 30");
}

void add_example(SeriesLesson& lesson, const std::vector<Day>& days, Forecaster& forecaster) {
  const Line line = line_from(days, find_example(days));
  const size_t last = kLine - kWeek;
  const size_t wednesday = last + kWednesday, thursday = last + kThursday, friday = last + kFriday;
  for (size_t day = wednesday - kWeek; day < wednesday; ++day) {
    lesson.before.push_back(price_of(line[day]));
  }
  lesson.friday = price_of(line[friday]);

  Line read = read_for(line);
  const std::vector<float> parallel = forecaster.in_parallel(read, Masking::causal);
  const std::vector<float> stepwise = forecaster.day_by_day(read);
  lesson.logits = static_cast<int64_t>(parallel.size());
  for (size_t i = 0; i < parallel.size(); ++i) {
    const bool same = std::bit_cast<uint32_t>(parallel[i]) == std::bit_cast<uint32_t>(stepwise[i]);
    if (!same) ++lesson.logits_differing;
  }

  read.resize(friday + 1);  // START and the days up to Thursday
  const Outlook outlook = forecaster.next_day(read);
  lesson.forecast = outlook.median();
  lesson.chances = outlook.chances;
  std::ranges::stable_sort(lesson.chances, std::ranges::greater{}, &PriceChance::probability);
  lesson.chances.resize(5);
  const auto changed = [&](size_t day, int64_t price) {
    Line other = read;
    other[day + 1] = token_of(price);
    return forecaster.next_day(other).mean();
  };
  lesson.expected = outlook.mean();
  lesson.expected_other_wednesday = changed(wednesday, 31);
  lesson.expected_other_thursday = changed(thursday, 28);
  for (size_t day = friday; day < static_cast<size_t>(kLine); ++day) {
    lesson.ahead.push_back(forecaster.next_day(read).median());
    lesson.ahead_real.push_back(price_of(line[day]));
    read.push_back(token_of(lesson.ahead.back()));
  }
}

}  // namespace

std::vector<int64_t> price_series(int64_t days) {
  require(days >= 0, ErrorCode::invalid_argument, "price series: ", days, " days");
  std::vector<int64_t> prices;
  for (const Day& day : make_days(days)) prices.push_back(day.price);
  return prices;
}

SeriesLesson teach_series(const SeriesOptions& options) {
  const std::vector<Day> days = make_days((kWeeksLearnt + kWeeksForecast) * kWeek);
  SeriesLesson lesson;
  lesson.days_learnt = kWeeksLearnt * kWeek;
  add_naive_errors(lesson, days);
  Forecaster forecaster(days, Masking::causal, options);
  lesson.errors.model = forecaster.error(days, Masking::causal);
  add_example(lesson, days, forecaster);
  Forecaster unmasked(days, Masking::none, options);
  lesson.unmasked_seeming = unmasked.error(days, Masking::none);
  lesson.unmasked_forecasting = unmasked.error(days, Masking::causal);

  const SeriesErrors& errors = lesson.errors;
  lesson.holds = errors.model < errors.yesterday && errors.model < errors.last_week &&
                 lesson.expected_other_wednesday < lesson.expected &&
                 lesson.expected_other_thursday < lesson.expected && lesson.logits_differing == 0 &&
                 lesson.unmasked_seeming < 0.5 * errors.model &&
                 lesson.unmasked_forecasting > errors.model;
  return lesson;
}

}  // namespace tril
