#include "tril/lesson/lesson_series.h"

#include <fmt/core.h>

#include "lesson.h"
#include "tril/lesson/pictures.h"

namespace tril::app {
namespace {

void print_example(const SeriesLesson& l) {
  print_heading("1", "A week it has never seen: Wednesday 29, Thursday 30, Friday ?");
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
  print_text(
      fmt::format("The likeliest prices: {}. Forecast (the median): {}. The real price was {}.",
                  chances, l.forecast, l.friday));
  print_heading("2", "Friday depends on both days before it. Expected price on Friday after");
  print_table({{"Wednesday 29, Thursday 30", number(l.expected, 1)},
               {"Wednesday 31, Thursday 30", number(l.expected_other_wednesday, 1)},
               {"Wednesday 29, Thursday 28", number(l.expected_other_thursday, 1)}},
              Align::right);
  print_heading("3", "Autoregressive: each forecast is fed back as if it had come true.");
  Table table = {{"", "Fri", "Sat", "Sun"}, {"forecast"}, {"real"}};
  for (size_t i = 0; i < l.ahead.size(); ++i) {
    table[1].push_back(std::to_string(l.ahead[i]));
    table[2].push_back(std::to_string(l.ahead_real[i]));
  }
  print_table(table, Align::right);
  print_text(fmt::format(
      "All 28 days in one call, or one day per call: of {} logits {} differ in any bit.", l.logits,
      l.logits_differing));
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
  write_picture(flags, draw_series(l));
  fmt::print("{}", set_text(fmt::format("Autoregressive without any language: a decoder-only model "
                                        "of daily prices. Learnt from {} days, tested on the next "
                                        "{}.",
                                        l.days_learnt, l.days_forecast),
                            "", ""));
  print_example(l);
  print_heading("4",
                fmt::format("The mean error over {} days it has never seen:", l.days_forecast));
  print_table({{"the model, with the mask", number(l.errors.model)},
               {"naive: the price of yesterday", number(l.errors.yesterday)},
               {"naive: the price of this weekday last week", number(l.errors.last_week)},
               {"the formula behind the prices, without its noise", number(l.errors.formula)}},
              Align::right);
  print_heading("5", "The same model learnt without the mask:");
  print_table({{"error in training, where each day sees the next", number(l.unmasked_seeming)},
               {"error when it must forecast", number(l.unmasked_forecasting)}},
              Align::right);
  return print_verdict(
      l.holds,
      fmt::format(
          "With the mask it forecasts unseen days with an error of {:.2f}; the naive forecasts "
          "have "
          "{:.2f} and {:.2f}. Without the mask it looks nearly perfect in training and forecasts "
          "worse ({:.2f}).",
          l.errors.model, l.errors.yesterday, l.errors.last_week, l.unmasked_forecasting),
      "a naive forecast is as good, or Friday does not depend on both days.");
}

}  // namespace tril::app
