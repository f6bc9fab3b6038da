// Lesson `series`: an autoregressive model without any language. A decoder-only Transformer reads
// one price per day and forecasts the next.
//
// The series is built in. With w the weekday, and noise e drawn by Philox,
//   x(t) = 1.5 x(t-1) - 0.75 x(t-2) + e(t),   price(t) = round(30 + season(w) + x(t)),
// so tomorrow depends on today, on yesterday, and on the day of the week. Four weeks make a line,
// Monday first; a price is a token. The model learns from the first weeks and forecasts the weeks
// after them, which it has never seen. Its forecast is the median of its probabilities.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tril/models/session.h"

namespace tril {

struct PriceChance {
  int64_t price = 0;
  double probability = 0.0;
};

// Mean absolute errors over the same days.
struct SeriesErrors {
  double model = 0.0;
  double yesterday = 0.0;  // the price stays as it is
  double last_week = 0.0;  // the price of the same weekday a week before
  double formula = 0.0;    // the formula itself, which knows everything except tomorrow's noise
};

struct SeriesLesson {
  int64_t days_learnt = 0;
  int64_t days_forecast = 0;
  SeriesErrors errors;
  // A model trained without the mask: its apparent error in training, where a day sees the next;
  // and its error when it must forecast.
  double unmasked_seeming = 0.0, unmasked_forecasting = 0.0;

  // An unseen week in which Wednesday is 29 and Thursday 30.
  std::vector<int64_t> before;  // the prices of the 7 days before that Wednesday
  int64_t friday = 0;           // the real price
  int64_t forecast = 0;
  std::vector<PriceChance> chances;  // the likeliest prices for Friday
  // The mean of its probabilities for Friday: as it was, if Wednesday had been 31, if Thursday had
  // been 28.
  double expected = 0.0, expected_other_wednesday = 0.0, expected_other_thursday = 0.0;
  // From that Thursday on, with each forecast fed back as if it were the price: Friday, Saturday,
  // Sunday.
  std::vector<int64_t> ahead, ahead_real;

  // That line in one call of forward(), and one day per call: logits compared, and how many differ
  // in any bit.
  int64_t logits = 0, logits_differing = 0;

  // The model's error is smaller than both naive ones; Friday depends on Wednesday and on Thursday,
  // each in the direction of the formula; parallel and stepwise are equal; without the mask it
  // seems perfect and forecasts worse than with it.
  bool holds = false;
};

struct SeriesOptions {
  int64_t updates = 800;
  uint64_t seed = 1;  // of the model; the series is always the same
  int threads = 0;
  std::function<void(Masking masking, int64_t update, double loss)> progress{};
};
SeriesLesson teach_series(const SeriesOptions& options = {});

// The prices of the first `days` days; day 0 is a Monday.
std::vector<int64_t> price_series(int64_t days);

}  // namespace tril
