#include "tril/lesson/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "tril/base/error.h"
#include "tril/base/plot.h"

namespace tril {
namespace {

using plot::axes;
using plot::decimals;
using plot::line;
using plot::number;
using plot::Panel;
using plot::panel_for;
using plot::picture;
using plot::Point;
using plot::text;

constexpr double kWidth = 720;
constexpr std::string_view kCells =
    ".box{fill:none;stroke:#bbb}.cell{fill:#0072b2}.no{fill:#888;fill-opacity:.14}\n"
    "text.value{text-anchor:middle;fill:#111}text.name{text-anchor:middle}\n"
    "text.value.strong{fill:#fff}\n"
    "@media(prefers-color-scheme:dark){.box{stroke:#555}.cell{fill:#56b4e9}"
    "text.value{fill:#eee}text.value.strong{fill:#111}}\n";

struct Cell {
  double strength = 0.0;  // 0 to 1: depth of the colour
  std::string words{};
  bool forbidden = false;
};

struct Grid {
  double left = 0.0, top = 0.0, size = 0.0;  // of a cell
  int64_t rows = 0, columns = 0;
};

std::string rectangle(double x, double y, double size, std::string_view attributes) {
  return concat("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(size),
                "\" height=\"", number(size), "\" ", attributes, "/>\n");
}

std::string draw_grid(const Grid& grid, const std::function<Cell(int64_t, int64_t)>& cell_at) {
  std::string svg;
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      const Cell cell = cell_at(row, column);
      const double x = grid.left + static_cast<double>(column) * grid.size;
      const double y = grid.top + static_cast<double>(row) * grid.size;
      if (cell.forbidden) {
        svg += rectangle(x, y, grid.size, "class=\"no\"");
      } else if (cell.strength > 0.0) {
        svg += rectangle(x, y, grid.size,
                         concat("class=\"cell\" fill-opacity=\"", number(cell.strength), "\""));
      }
      svg += rectangle(x, y, grid.size, "class=\"box\"");
      if (!cell.words.empty()) {
        svg += text(x + grid.size / 2, y + grid.size / 2 + 4,
                    cell.strength > 0.6 ? "class=\"value strong\"" : "class=\"value\"", cell.words);
      }
    }
  }
  return svg;
}

// A matrix with words for its rows and columns.
std::string draw_matrix(const Grid& grid, std::string_view title,
                        const std::vector<std::string>& words,
                        const std::function<Cell(int64_t, int64_t)>& cell_at) {
  std::string svg = text(grid.left, grid.top - 28, "class=\"title\"", title);
  for (int64_t i = 0; i < grid.rows; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * grid.size;
    const std::string& word = words[static_cast<size_t>(i)];
    svg += text(grid.left + middle, grid.top - 8, "class=\"name\"", word);
    svg += text(grid.left - 6, grid.top + middle + 4, "text-anchor=\"end\"", word);
  }
  return svg + draw_grid(grid, cell_at);
}

}  // namespace

std::string draw_attention(const AttentionLesson& l) {
  constexpr double kSize = 44, kStep = 174;
  constexpr std::string_view kForbidden = "−∞";
  const auto score = [&](int64_t row, int64_t key) {
    return Cell{0.0, decimals(l.scores.at(row, key), 1)};
  };
  const auto masked = [&](int64_t row, int64_t key) {
    return l.masked.mask.sees(row, key) ? score(row, key)
                                        : Cell{0.0, std::string(kForbidden), true};
  };
  const auto weights = [](const Attended& of) {
    return [&of](int64_t row, int64_t key) {
      const double weight = of.weights.at(row, key);
      const bool sees = of.mask.sees(row, key);
      return Cell{sees ? weight : 0.0, sees ? decimals(weight, 2) : concat(weight), !sees};
    };
  };
  const auto grid = [&](int64_t place) {
    return Grid{44 + kStep * static_cast<double>(place), 56, kSize, l.scores.rows,
                l.scores.columns};
  };
  std::string body = draw_matrix(grid(0), "scores, divided by √d", l.words, score);
  body += draw_matrix(grid(1), "with the mask added", l.words, masked);
  body += draw_matrix(grid(2), "softmax: weights", l.words, weights(l.masked));
  body += draw_matrix(grid(3), "without the mask", l.words, weights(l.unmasked));
  body +=
      text(44, 56 + 3 * kSize + 24, "",
           "A row is a word that looks, a column a word it looks at. Rows of weights sum to 1.");
  return picture(kWidth, 56 + 3 * kSize + 40, body, kCells);
}

std::string draw_masks(const MaskLesson& l) {
  constexpr double kSize = 24, kStep = 140;
  std::string body;
  for (size_t i = 0; i < l.kinds.size(); ++i) {
    const NamedMask& named = l.kinds[i];
    const Grid grid{20 + kStep * static_cast<double>(i), 34, kSize,
                    static_cast<int64_t>(named.mask.rows().size()), named.keys};
    body += text(grid.left, grid.top - 12, "class=\"title\"", named.name);
    body += draw_grid(grid, [&](int64_t row, int64_t key) {
      const bool sees = named.mask.sees(row, key);
      return Cell{sees ? 0.75 : 0.0, sees ? "0" : "−∞", !sees};
    });
  }
  body +=
      text(20, 34 + 4 * kSize + 26, "",
           "A row sees the keys in colour: always one interval. Combining masks is intersecting "
           "intervals.");
  return picture(kWidth, 34 + 4 * kSize + 42, body, kCells);
}

std::string draw_context(const ContextLesson& l) {
  std::vector<Point> other, same;
  for (const ContextLayer& layer : l.layers) {
    const auto x = static_cast<double>(layer.layer);
    other.push_back({x, layer.other_sense.distance});
    same.push_back({x, layer.same_sense.distance});
  }
  const Panel panel = panel_for(40, other.back().x, {other, same});
  std::string body = axes(panel, "distance between two vectors of \"bank\"", "layer");
  body += line(panel, other, "valid") + line(panel, same, "train");
  const auto says = [&](const std::vector<Point>& of, std::string_view kind, std::string_view how) {
    return text(panel.left + 250, panel.y(of.back().y) + 24, concat("class=\"", kind, "\""), how);
  };
  body += says(other, "valid", "two meanings: river bank, money bank");
  body += says(same, "train", "one meaning: river bank, lake bank");
  return picture(kWidth, 300, body);
}

std::string draw_series(const SeriesLesson& l) {
  constexpr double kLeft = 40, kTop = 50, kHeight = 150, kStep = 54;
  constexpr std::array<std::string_view, 7> kDays = {"Wed", "Thu", "Fri", "Sat",
                                                     "Sun", "Mon", "Tue"};
  // The week before, Wednesday 29 and Thursday 30, and the real prices; next to them the forecast.
  std::vector<int64_t> real = l.before;
  real.insert(real.end(), {29, 30});
  const size_t known = real.size();
  real.insert(real.end(), l.ahead_real.begin(), l.ahead_real.end());
  std::vector<int64_t> forecast = {real[known - 1]};
  forecast.insert(forecast.end(), l.ahead.begin(), l.ahead.end());
  const auto [low, high] = std::minmax_element(real.begin(), real.end());
  const auto least = static_cast<double>(std::min(*low, *std::ranges::min_element(forecast)));
  const auto most = static_cast<double>(std::max(*high, *std::ranges::max_element(forecast)));
  // Panels begin at 0; prices here at the lowest of them.
  const Panel panel{kLeft,
                    kTop,
                    kStep * static_cast<double>(real.size() - 1),
                    kHeight,
                    static_cast<double>(real.size() - 1),
                    most - least};
  std::string body = text(kLeft, 20, "class=\"title\"", "prices by day, a week it has never seen");
  const auto draw = [&](const std::vector<int64_t>& prices, size_t first, std::string_view kind,
                        double label) {
    std::vector<Point> points;
    for (size_t i = 0; i < prices.size(); ++i) {
      const Point point{static_cast<double>(first + i), static_cast<double>(prices[i]) - least};
      points.push_back(point);
      if (first > 0 && i == 0) continue;  // where the forecast begins
      body += text(panel.x(point.x) - 7, panel.y(point.y) + label, concat("class=\"", kind, "\""),
                   concat(prices[i]));
    }
    body += line(panel, points, kind);
  };
  draw(real, 0, "train", -8);
  draw(forecast, known - 1, "valid", 18);
  for (size_t i = 0; i < real.size(); ++i) {
    body += text(panel.x(static_cast<double>(i)) - 12, kTop + kHeight + 40, "", kDays[i % 7]);
  }
  body += text(kLeft, kTop + kHeight + 66, "class=\"train\"", "as it was");
  body += text(kLeft + 90, kTop + kHeight + 66, "class=\"valid\"",
               "forecast: each one is fed back as if it had come true");
  return picture(kWidth, kTop + kHeight + 82, body);
}

std::string draw_teacher_forcing(const TeacherLesson& l) {
  constexpr double kTop = 34, kRow = 26, kNames = 120, kColumn = 96;
  constexpr int64_t kMost = 6;  // steps
  const TeacherExample& example = l.example;
  const auto shown = std::min(kMost, std::ssize(example.steps));
  std::string body = text(4, 18, "class=\"title\"", concat(example.english, " → ", example.hindi));
  const auto row = [&](int64_t place, std::string_view name, auto word, auto kind) {
    const double y = kTop + static_cast<double>(place) * kRow + 18;
    body += text(4, y, "", name);
    for (int64_t i = 0; i < shown; ++i) {
      const TeacherStep& step = example.steps[static_cast<size_t>(i)];
      const std::string words = word(step);
      if (words.empty()) continue;  // it had ended
      body += text(kNames + (static_cast<double>(i) + 0.5) * kColumn, y,
                   concat("text-anchor=\"middle\" class=\"", kind(i, step), "\""), words);
    }
  };
  const auto plain = [](int64_t, const TeacherStep&) { return ""; };
  const auto judged = [](int64_t, const TeacherStep& step) {
    return step.mistake ? "valid" : "train";
  };
  // After a mistake in inference, what is fed in is the mistake or its consequences.
  const auto followed = [&](int64_t i, const TeacherStep&) {
    return i > example.mistake ? "valid" : "";
  };
  const auto own = [](int64_t, const TeacherStep& step) {
    return step.predicted_in_inference == step.right ? "train" : "valid";
  };
  row(
      0, "training: fed", [](const TeacherStep& s) { return s.fed_in_training; }, plain);
  row(
      1, "predicted", [](const TeacherStep& s) { return s.predicted_in_training; }, judged);
  row(
      3, "inference: fed", [](const TeacherStep& s) { return s.fed_in_inference; }, followed);
  row(
      4, "predicted", [](const TeacherStep& s) { return s.predicted_in_inference; }, own);
  row(
      6, "right", [](const TeacherStep& s) { return s.right; }, plain);
  const double below = kTop + 7 * kRow + 22;
  body += text(4, below, "",
               concat(l.following, " tokens follow a mistake: ", l.right_when_corrected,
                      " are right if it is corrected, ", l.right_when_followed,
                      " (in the same position) if it is fed back."));
  return picture(kWidth, below + 16, body, kCells);
}

std::string draw_decoding(const DecodingLesson& l) {
  constexpr double kTop = 44, kRow = 26, kNames = 250, kBar = 300;
  struct Bar {
    std::string name;
    const DecodingWay* way;
  };
  std::vector<Bar> bars = {{"with a cache", &l.cached},
                           {"recomputed, under the mask", &l.masked},
                           {"recomputed, without the mask", &l.unmasked}};
  for (const GuessRun& run : l.guessing) {
    bars.push_back({concat("up to ", run.guesses, run.guesses == 1 ? " guess" : " guesses",
                           ", checked in one call"),
                    &run.way});
  }
  int64_t most = 1;
  for (const Bar& bar : bars) most = std::max(most, bar.way->calls);
  std::string body = text(4, 20, "class=\"title\"",
                          concat("calls of forward() to translate ", l.sentences, " sentences"));
  for (size_t i = 0; i < bars.size(); ++i) {
    const DecodingWay& way = *bars[i].way;
    const double y = kTop + static_cast<double>(i) * kRow;
    const double width = kBar * static_cast<double>(way.calls) / static_cast<double>(most);
    const bool same = i == 0 || way.same_bits();
    body += text(kNames - 8, y + 15, "text-anchor=\"end\"", bars[i].name);
    body +=
        concat("<rect x=\"", number(kNames), "\" y=\"", number(y + 3), "\" width=\"", number(width),
               "\" height=\"", number(kRow - 9), "\" class=\"", same ? "cell" : "no", "\"/>\n");
    body += text(kNames + width + 8, y + 15, same ? "class=\"train\"" : "class=\"valid\"",
                 concat(way.calls, same ? ", the same bits" : ", other bits"));
  }
  return picture(kWidth, kTop + static_cast<double>(bars.size()) * kRow + 10, body, kCells);
}

std::string draw_heads(const HeadsLesson& l) {
  constexpr double kSize = 32, kTop = 104, kName = 30, kWords = 78;
  std::string body;
  double left = 4, bottom = 0;
  const auto draw = [&](AttentionKind kind, std::string_view title) {
    std::vector<size_t> relations;
    for (size_t i = 0; i < kHeadRelations; ++i) {
      if (l.even[static_cast<size_t>(kind)][i]) relations.push_back(i);
    }
    std::vector<const HeadFigures*> heads;
    for (const HeadFigures& head : l.heads) {
      if (head.kind == kind) heads.push_back(&head);
    }
    const Grid grid{left + kName, kTop, kSize, std::ssize(heads), std::ssize(relations)};
    body += text(left, 20, "class=\"title\"", title);
    for (size_t i = 0; i < relations.size(); ++i) {
      const double x = grid.left + (static_cast<double>(i) + 0.6) * kSize, y = kTop - 8;
      body += text(x, y, concat("transform=\"rotate(-50 ", number(x), " ", number(y), ")\""),
                   word_for(static_cast<HeadRelation>(relations[i])));
    }
    for (size_t i = 0; i < heads.size(); ++i) {
      const double y = kTop + (static_cast<double>(i) + 0.5) * kSize + 4;
      body += text(grid.left - 6, y, "text-anchor=\"end\"",
                   concat(heads[i]->layer + 1, ".", heads[i]->head + 1));
      body += text(grid.left + static_cast<double>(relations.size()) * kSize + 6, y, "",
                   heads[i]->description());
    }
    body += draw_grid(grid, [&](int64_t row, int64_t column) {
      const double share =
          heads[static_cast<size_t>(row)]->shares[relations[static_cast<size_t>(column)]].value_or(
              0.0);
      return Cell{share, decimals(share, 2)};
    });
    left = grid.left + static_cast<double>(relations.size()) * kSize + kWords;
    bottom = std::max(bottom, kTop + static_cast<double>(heads.size()) * kSize);
  };
  draw(AttentionKind::encoder, "encoder");
  draw(AttentionKind::decoder, "decoder, masked");
  draw(AttentionKind::cross, "cross-attention");
  body += text(4, bottom + 24, "",
               "A row is a head (layer.head), a column what it looks at: the mean weight it puts "
               "there.");
  bottom += 24;
  if (!l.counts.empty()) {
    std::string losses;
    for (const HeadCount& count : l.counts) {
      losses +=
          concat(losses.empty() ? "" : ", ", decimals(count.mean().loss, 2), " with ", count.heads);
    }
    body += text(
        4, bottom + 18, "",
        concat("Loss per token by number of heads, the total width being the same: ", losses, "."));
    bottom += 18;
  }
  return picture(kWidth, bottom + 16, body, kCells);
}

std::string draw_leakage(const LeakageLesson& l) {
  const auto points = [&](const LeakageRun& run) {
    std::vector<Point> result;
    const auto count = static_cast<double>(run.curve.size());
    for (size_t i = 0; i < run.curve.size(); ++i) {
      // The middle of the updates that the mean is over.
      result.push_back(
          {(static_cast<double>(i) + 0.5) * static_cast<double>(l.updates) / count, run.curve[i]});
    }
    return result;
  };
  const auto with = points(l.masked), without = points(l.unmasked);
  const Panel panel = panel_for(40, static_cast<double>(l.updates), {with, without});
  std::string body = axes(panel, "training loss per token", "updates");
  body += line(panel, with, "train") + line(panel, without, "valid");
  const auto writes = [&](double y, std::string_view kind, const LeakageRun& run,
                          std::string_view how) {
    return text(panel.left + 250, panel.top + y, concat("class=\"", kind, "\""),
                concat(how, ": writes ", run.exact, " of ", l.held_out, " unseen sentences right"));
  };
  body += writes(40, "train", l.masked, "with the mask");
  body += writes(60, "valid", l.unmasked, "without it");
  return picture(kWidth, 300, body);
}

std::string draw_forcing(const ForcingLesson& l) {
  const auto points = [&](const ForcingRun& run) {
    std::vector<Point> result;
    for (size_t i = 0; i < run.norms.size(); ++i) {
      result.push_back({static_cast<double>(i + 1), run.norms[i]});
    }
    return result;
  };
  const auto forcing = points(l.forcing_masked), own = points(l.own_masked);
  const Panel panel = panel_for(40, static_cast<double>(l.updates), {forcing, own});
  std::string body = axes(panel, "norm of the gradient, under the mask", "updates");
  body += line(panel, forcing, "train") + line(panel, own, "valid");
  double y = panel.top + 20;
  const auto says = [&](std::string_view kind, const ForcingRun& run, std::string_view how) {
    body += text(panel.left + 180, y, concat("class=\"", kind, "\""),
                 concat(how, ": ", run.inputs_known() ? "inputs known" : "inputs to be written",
                        ", one call = inference: ", run.same_bits() ? "yes" : "no", "; ", run.exact,
                        " of ", l.held_out, " right"));
    y += 18;
  };
  says("train", l.forcing_masked, "forcing, mask");
  says("valid", l.own_masked, "own predictions, mask");
  says("", l.forcing_unmasked, "forcing, no mask");
  says("", l.own_unmasked, "own predictions, no mask");
  return picture(kWidth, 300, body);
}

std::string draw_sequential(const SequentialLesson& l) {
  constexpr double kSize = 34, kTop = 56, kLeft = 66, kOther = 420;
  const SequentialRow& row = l.rows.front();
  const SequentialComparison::Cost& one_by_one = row.figures.sequential;
  const SequentialComparison::Cost& at_once = row.figures.parallel;
  const int64_t n = row.words + 1;
  require(row.rows == 1 && n <= 8 && one_by_one.calls == n && one_by_one.rows == n * (n + 1) / 2 &&
              at_once.calls == 1 && at_once.rows == n,
          ErrorCode::invalid_argument,
          "draw sequential: the first row must be a short target, counted as the two ways have it");
  const auto calls = [&](double left, int64_t count) {
    std::string svg;
    for (int64_t i = 0; i < count; ++i) {
      svg += text(left - 8, kTop + (static_cast<double>(i) + 0.5) * kSize + 4,
                  "text-anchor=\"end\"", concat("call ", i + 1));
    }
    for (int64_t i = 0; i < n; ++i) {
      svg += text(left + (static_cast<double>(i) + 0.5) * kSize, kTop - 8, "class=\"name\"",
                  i == 0 ? "START" : concat("w", i));
    }
    return svg;
  };
  std::string body = text(
      kLeft, 22, "class=\"title\"",
      concat("prefix by prefix: ", one_by_one.calls, " calls read ", one_by_one.rows, " rows"));
  body += calls(kLeft, n);
  body += draw_grid({kLeft, kTop, kSize, n, n}, [](int64_t call, int64_t position) {
    if (position > call) return Cell{0.0, "", true};
    return position == call ? Cell{0.85, "loss"} : Cell{0.25, ""};
  });
  body += text(kOther, 22, "class=\"title\"",
               concat("all at once: ", at_once.calls, " call reads ", at_once.rows, " rows"));
  body += calls(kOther, 1);
  body += draw_grid({kOther, kTop, kSize, 1, n}, [](int64_t, int64_t) {
    return Cell{0.85, "loss"};
  });
  const SequentialRow& last = l.rows.back();
  const double below = kTop + static_cast<double>(n) * kSize + 26;
  body += text(kLeft, below, "",
               concat("Pale: computed again. ", last.rows, " rows of ", last.words, " words take ",
                      last.figures.sequential.calls, " calls and ", last.figures.sequential.rows,
                      " rows; at once, ", last.figures.parallel.calls, " call and ",
                      last.figures.parallel.rows, "."));
  return picture(kWidth, below + 16, body, kCells);
}

std::string draw_scale(const ScaleLesson& l) {
  std::vector<Point> raw, divided;
  for (const ScaleRow& row : l.dims) {
    const double root = std::sqrt(static_cast<double>(row.head_dim));
    raw.push_back({root, row.undivided.slope});
    divided.push_back({root, row.divided.slope});
  }
  const Panel panel = panel_for(40, raw.back().x, {raw, divided});
  std::string body = axes(panel, "slope of the softmax", "√d_k");
  body += line(panel, divided, "train") + line(panel, raw, "valid");
  body += text(panel.left + 200, panel.y(divided.back().y) + 24, "class=\"train\"",
               "scores divided by √d_k: the same for every d_k");
  body += text(panel.left + 270, panel.y(raw.back().y) - 40, "class=\"valid\"",
               "undivided: the softmax saturates, gradients vanish");
  return picture(kWidth, 300, body);
}

std::string draw_tasks(const TasksLesson& l) {
  constexpr double kTop = 48, kNames = 62, kGap = 16;
  std::string body;
  double left = 4, bottom = 0;
  for (const TaskFigures& task : l.tasks) {
    const auto rows = std::ssize(task.words);
    const double size = rows <= 8 ? 24 : 10;
    const Grid grid{left + kNames, kTop, size, rows, rows};
    body += text(left, 18, "class=\"title\"", task.name);
    body += text(left, 34, "", task.decoder_only ? "decoder only" : "encoder and decoder");
    for (int64_t row = 0; row < rows; ++row) {
      body +=
          text(grid.left - 6, kTop + (static_cast<double>(row) + 0.5) * size + 4,
               rows <= 8 ? "text-anchor=\"end\"" : "text-anchor=\"end\" style=\"font-size:10px\"",
               task.words[static_cast<size_t>(row)]);
    }
    body += draw_grid(grid, [&](int64_t row, int64_t key) {
      const bool sees = task.mask.sees(row, key);
      return Cell{sees ? 0.75 : 0.0, "", !sees};
    });
    const double below = kTop + static_cast<double>(rows) * size;
    body += text(left, below + 20, "", concat(task.exact, " of ", task.held_out, " answers right"));
    bottom = std::max(bottom, below + 20);
    left = grid.left + static_cast<double>(rows) * size + kGap;
  }
  body += text(4, bottom + 22, "",
               "What the decoder reads, and the mask it ran under: a row sees the words in colour, "
               "itself and all before it.");
  return picture(kWidth, bottom + 38, body, kCells);
}

}  // namespace tril
