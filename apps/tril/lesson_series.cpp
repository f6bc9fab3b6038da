#include <fmt/core.h>

#include "lesson.h"

namespace tril::app {
namespace {

void print_example(const SeriesLesson& l) {
  print_heading("1  A week it has never seen. Wednesday 29, Thursday 30, Friday ?");
  print_table({{"", "Wed", "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"},
               [&] {
                 std::vector<std::string> row = {"price"};
                 for (const int64_t price : l.before) row.push_back(std::to_string(price));
                 row.insert(row.end(), {"29", "30", "?"});
                 return row;
               }()},
              Align::right);
  std::string chances;
  for (const PriceChance& chance : l.chances) {
    chances += fmt::format("{}{} ({:.0f}%)", chances.empty() ? "" : ", ", chance.price,
                           100.0 * chance.probability);
  }
  fmt::print(
      "  The likeliest prices: {}.\n  Forecast (half lies below, half above): {}. It was {}.\n",
      chances, l.forecast, l.friday);
  print_heading("2  Friday depends on both days before it. Expected on average with");
  print_table({{"Wednesday 29, Thursday 30", number(l.expected, 1)},
               {"Wednesday 31, Thursday 30", number(l.expected_other_wednesday, 1)},
               {"Wednesday 29, Thursday 28", number(l.expected_other_thursday, 1)}},
              Align::right);
  print_heading("3  Autoregressive: each forecast goes in as if it had come true.");
  std::vector<std::vector<std::string>> table = {{"", "Fri", "Sat", "Sun"}, {"forecast"}, {"was"}};
  for (size_t i = 0; i < l.ahead.size(); ++i) {
    table[1].push_back(std::to_string(l.ahead[i]));
    table[2].push_back(std::to_string(l.ahead_real[i]));
  }
  print_table(table, Align::right);
  fmt::print("  All 28 days in one call, or a day a call: of {} numbers {} differ in any bit.\n",
             l.logits, l.logits_differing);
}

}  // namespace

bool show_series(const LessonFlags& flags) {
  SeriesOptions options{.seed = flags.seed, .threads = flags.threads};
  const auto masked = learning_progress(options.updates, "with the mask");
  const auto unmasked = learning_progress(options.updates, "without the mask");
  options.progress = [&](Masking masking, int64_t update, double loss) {
    (masking == Masking::causal ? masked : unmasked)(update, loss);
  };
  const SeriesLesson l = teach_series(options);
  fmt::print(
      "Autoregressive without any language: prices by day, a decoder-only model.\n"
      "Learnt from {} days; asked about the next {}.\n",
      l.days_learnt, l.days_forecast);
  print_example(l);
  print_heading(fmt::format("4  The mean error over {} days it has never seen:", l.days_forecast));
  print_table({{"the model, with the mask", number(l.errors.model)},
               {"naive: as yesterday", number(l.errors.yesterday)},
               {"naive: as on this weekday last week", number(l.errors.last_week)},
               {"the formula itself, but for its noise", number(l.errors.formula)}},
              Align::right);
  print_heading("5  The same model learnt without the mask:");
  print_table({{"as it looks in training, each day seeing the next", number(l.unmasked_seeming)},
               {"when it must forecast", number(l.unmasked_forecasting)}},
              Align::right);
  return print_verdict(
      l.holds,
      fmt::format(
          "With the mask it forecasts unseen days with an error of {:.2f}; the naive forecasts\n"
          "         have {:.2f} and {:.2f}. Without the mask it seems near perfect and is worse "
          "({:.2f}).",
          l.errors.model, l.errors.yesterday, l.errors.last_week, l.unmasked_forecasting),
      "NOT as the lesson says: a naive forecast is as good, or Friday does not depend on both "
      "days.");
}

}  // namespace tril::app
