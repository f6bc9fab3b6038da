// A GPU that searches a step ahead of the host: the beams it carries, against the hypotheses of the
// host, and what sessions go through.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>

#include "slow_search.h"
#include "support/models.h"
#include "support/property.h"
#include "tril/decode/hypotheses.h"
#include "tril/models/observer.h"
#include "tril/models/session_state.h"
#include "tril/ops/beam.h"

namespace tril::ahead_backend_test {
namespace {

using testing::Family;
using testing::run_search;
using testing::same;
using testing::sharp_model;
using testing::small_options;

constexpr int32_t kEnd = 3;

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.size()));
  copy(Device::cpu, values.data(), tensor.device(), tensor.raw(),
       tensor.size() * int64_t{sizeof(T)});
  return values;
}
template <class T>
Tensor filled(Arena& arena, const Shape& shape, DType type, const std::vector<T>& values) {
  const Tensor tensor(arena, shape, type);
  copy(tensor.device(), tensor.raw(), Device::cpu, values.data(),
       tensor.size() * int64_t{sizeof(T)});
  return tensor;
}

// A sentence as the host follows it, and as the rows of a group do.
struct Followed {
  Hypotheses hypotheses;
  std::vector<std::vector<int32_t>> paths;  // of the alive: the marks of the rows they passed
};

// Few different log-probabilities, so that there are ties; fewer than `count` now and then.
std::vector<Choice> random_choices(Random& random, int64_t count) {
  std::vector<Choice> choices;
  const bool few = random.below(8) == 0;
  const auto offered =
      few ? 1 + random.below(static_cast<uint32_t>(count)) : static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < offered; ++i) {
    const auto token = static_cast<int32_t>(2 + 3 * i + random.below(3));
    const float log_prob = -0.25f * static_cast<float>(random.below(9));
    choices.push_back({token, log_prob, log_prob});
  }
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
  });
  return choices;
}

// Groups of several widths at any rows, as the engine lays them out.
struct Groups {
  std::vector<ops::BeamGroup> list;
  int64_t rows = 0;
};
Groups random_groups() {
  Groups groups;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    groups.rows += *rc::gen::inRange<int64_t>(0, 3);  // rows of no sentence
    const int32_t width = *rc::gen::element(1, 1, 2, 3, 4, 8, 40);
    groups.list.push_back({static_cast<int32_t>(groups.rows), width, kEnd});
    groups.rows += width;
    if (*rc::gen::inRange(0, 4) == 0) groups.list.push_back({});  // none
  }
  groups.rows += *rc::gen::inRange<int64_t>(0, 3);
  return groups;
}

void follow_random_groups() {
  static Context context(1, testing::placement());
  context.reset();
  const Groups groups = random_groups();
  const int64_t rows = groups.rows;
  int64_t count = 1;
  for (const ops::BeamGroup& group : groups.list) count = std::max<int64_t>(count, 2 * group.width);
  const auto steps = *rc::gen::inRange<int32_t>(1, 12);
  const int64_t stride = 16;
  Random random(*rc::gen::arbitrary<uint64_t>());
  std::vector<std::unique_ptr<SearchOptions>> options;
  std::vector<double> scores(static_cast<size_t>(rows), -INFINITY);
  std::vector<Followed> sentences;
  for (const ops::BeamGroup& group : groups.list) {
    options.push_back(std::make_unique<SearchOptions>());
    options.back()->beam = std::max(group.width, 1);
    options.back()->end = kEnd;
    sentences.push_back({Hypotheses(*options.back(), steps + 1), {{}}});
    sentences.back().hypotheses.start({}, {}, 0);
    if (group.width > 0) scores[static_cast<size_t>(group.first_row)] = 0.0;
  }
  const std::vector<int32_t> zeros(static_cast<size_t>(rows), 0);
  const std::vector<int32_t> no_marks(static_cast<size_t>(rows * stride), -1);
  const ops::Beams beams{filled(context.arena, {rows}, DType::i32, zeros),
                         filled(context.arena, {rows}, DType::f64, scores),
                         filled(context.arena, {rows, stride}, DType::i32, no_marks)};
  for (int32_t step = 0; step < steps; ++step) {
    // Every row marks its place in the table, as its keys would be put there.
    auto table = values_of<int32_t>(beams.table);
    std::vector<int32_t> tokens(static_cast<size_t>(rows * count), -1);
    std::vector<float> log_probs(static_cast<size_t>(rows * count), -INFINITY);
    std::vector<std::vector<Choice>> offered(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<size_t>(row);
      table[static_cast<size_t>(row * stride + step)] = static_cast<int32_t>(row) + 1000 * step;
      offered[r] = random_choices(random, count);
      for (size_t i = 0; i < offered[r].size(); ++i) {
        tokens[r * static_cast<size_t>(count) + i] = offered[r][i].token;
        log_probs[r * static_cast<size_t>(count) + i] = offered[r][i].log_prob;
      }
    }
    copy(beams.table.device(), beams.table.raw(), Device::cpu, table.data(),
         beams.table.size() * int64_t{sizeof(int32_t)});
    ops::ChosenTokens chosen;
    chosen.tokens = filled(context.arena, {rows, count}, DType::i32, tokens);
    chosen.log_probs = filled(context.arena, {rows, count}, DType::f32, log_probs);
    const std::vector<int32_t> positions(static_cast<size_t>(rows), step);
    const int64_t numbers = rows * count;
    const Queue::Delivery delivery = context.queue.expect(2 * numbers * int64_t{sizeof(float)});
    ops::advance_beams(context, chosen, positions, groups.list, beams, delivery.to);
    context.queue.deliver(delivery.number);
    std::vector<float> delivered(static_cast<size_t>(2 * numbers));
    context.queue.fetched(delivery.number, delivered.data(), 2 * numbers * int64_t{sizeof(float)});

    const auto next_tokens = values_of<int32_t>(beams.tokens);
    const auto next_scores = values_of<double>(beams.scores);
    const auto next_table = values_of<int32_t>(beams.table);
    for (size_t g = 0; g < groups.list.size(); ++g) {
      const ops::BeamGroup& group = groups.list[g];
      const auto first = static_cast<size_t>(group.first_row);
      const auto width = static_cast<size_t>(group.width);
      for (size_t at = first * static_cast<size_t>(count);
           at < (first + width) * static_cast<size_t>(count); ++at) {
        RC_ASSERT(std::bit_cast<int32_t>(delivered[at]) == tokens[at]);
        RC_ASSERT(delivered[static_cast<size_t>(numbers) + at] == log_probs[at]);
      }
      Followed& sentence = sentences[g];
      const size_t alive_before = sentence.hypotheses.alive().size();
      if (alive_before == 0 || width == 0) continue;  // done: its rows are not used
      for (size_t i = 0; i < alive_before; ++i) {
        sentence.paths[i].push_back(static_cast<int32_t>(first + i) + 1000 * step);
      }
      sentence.hypotheses.advance({offered.data() + first, alive_before});
      const auto alive = sentence.hypotheses.alive();
      std::vector<std::vector<int32_t>> paths;
      for (size_t i = 0; i < alive.size(); ++i) {
        RC_ASSERT(next_tokens[first + i] == alive[i].token);
        RC_ASSERT(next_scores[first + i] == alive[i].score);
        paths.push_back(sentence.paths[alive[i].parent]);
        const auto* marks = next_table.data() + (first + i) * static_cast<size_t>(stride);
        RC_ASSERT(std::vector<int32_t>(marks, marks + step + 1) == paths.back());
      }
      for (size_t i = alive.size(); !alive.empty() && i < width; ++i) {
        RC_ASSERT(next_scores[first + i] == -INFINITY);
        RC_ASSERT(next_tokens[first + i] == 0);
      }
      sentence.paths = paths;
    }
  }
}

TEST(AdvanceBeams, FollowTheHypotheses) {
  if (testing::device() == Device::cpu) GTEST_SKIP() << "beams advance on CUDA only";
  EXPECT_TRUE(rc::check(follow_random_groups));
}

// The score that a sentence begins with is that of its prefix, added up as on the host.
TEST(BeginBeams, AddUpThePrefix) {
  if (testing::device() == Device::cpu) GTEST_SKIP() << "beams advance on CUDA only";
  Context context(1, testing::placement());
  Random random(7);
  const auto log_probs = testing::random_floats(random, 40);
  auto broken = log_probs;
  broken[33] = NAN;
  const ops::Beams beams{filled(context.arena, {6}, DType::i32, std::vector<int32_t>(6, 0)),
                         filled(context.arena, {6}, DType::f64, std::vector<double>(6, 1.0)),
                         filled(context.arena, {6, 4}, DType::i32, std::vector<int32_t>(24, 0))};
  const std::vector<ops::BeginningRow> rows = {
      {5, 9, 0, 0}, {0, 8, 3, 20}, {1, 8, 3, -1}, {3, 7, 30, 10}};
  ops::begin_beams(context, rows, filled(context.arena, {40}, DType::f32, broken), beams);
  const auto tokens = values_of<int32_t>(beams.tokens);
  const auto scores = values_of<double>(beams.scores);
  double expected = 0.0;
  for (size_t i = 3; i < 23; ++i) expected += double{log_probs[i]};
  EXPECT_EQ(tokens, (std::vector<int32_t>{8, 8, 0, 7, 0, 9}));
  EXPECT_EQ(scores, (std::vector<double>{expected, -INFINITY, 1.0, -INFINITY, 1.0, 0.0}));
}

// ---- sessions ---------------------------------------------------------------------------------

// One session, searched with repeatedly: wider beams, more slots, prefixes, and during a search, by
// a callback that receives a result.
TEST(Search, ASessionServesAgainAndWithin) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5);
  std::vector<SearchRequest> requests;
  for (int32_t i = 0; i < 9; ++i) {
    requests.push_back({i, {2 + i % 5, 3, 4 + i % 3}, {}});
    if (i % 3 == 1) requests.back().prefix = {2, 5};
  }
  const auto alone = [&](int64_t beam) {
    SearchOptions options = small_options();
    options.beam = options.n_best = beam;
    Session fresh(model, 1);
    return run_search(model, options, beam, requests, fresh);
  };
  Session session(model, 1);
  for (const int64_t beam : {1, 4, 2, 4, 1}) {
    SearchOptions options = small_options();
    options.beam = options.n_best = beam;
    SearchOptions inner_options = small_options();
    inner_options.beam = inner_options.n_best = 3;
    const auto expected = alone(beam), expected_inner = alone(3);
    size_t next = 0;
    std::vector<SearchResult> results(requests.size());
    search(
        model, options, 3 * beam,
        [&] { return next < requests.size() ? std::optional(requests[next++]) : std::nullopt; },
        [&](SearchResult&& result) {
          const auto inner = run_search(model, inner_options, 12, requests, session);
          for (size_t i = 0; i < inner.size(); ++i) {
            EXPECT_TRUE(same(inner[i].hypotheses, expected_inner[i].hypotheses)) << i;
          }
          results[static_cast<size_t>(result.number)] = std::move(result);
          return true;
        },
        session);
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same(results[i].hypotheses, expected[i].hypotheses)) << beam << ", " << i;
    }
    EXPECT_EQ(session->cache.block_count(), 0);
    // A search that ends early, or fails, leaves nothing behind.
    const auto interrupted = [&](const std::function<bool()>& done) {
      next = 0;
      search(
          model, options, 3 * beam,
          [&] { return next < requests.size() ? std::optional(requests[next++]) : std::nullopt; },
          [&](SearchResult&&) { return done(); }, session);
    };
    interrupted([] { return false; });
    EXPECT_EQ(session->cache.block_count(), 0);
    EXPECT_EQ(testing::raised_by([&] {
                interrupted([]() -> bool { fail(ErrorCode::io, "no room"); });
              }).text,
              "no room");
    EXPECT_EQ(session->cache.block_count(), 0);
  }
}

// More positions than a cache on CUDA begins with, so that its memory moves while a step is under
// way.
TEST(Search, TheCacheGrowsWhileSentencesAreDecoded) {
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5, 60);
  SearchOptions options = small_options();
  options.beam = options.n_best = 4;
  options.max_tokens = 50;
  options.forbidden = {0, options.end};  // all are cut: long ones
  std::vector<SearchRequest> requests;
  for (int32_t i = 0; i < 40; ++i) {
    requests.push_back({i, {2 + i % 5, 3, 4 + i % 3}, {}});
    requests.back().source.resize(static_cast<size_t>(12 + i % 7), 2 + i % 6);
  }
  Session together(model, 1), apart(model, 1);
  const auto found = run_search(model, options, 160, requests, together);
  const auto expected = run_search(model, options, 8, requests, apart);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(same(found[i].hypotheses, expected[i].hypotheses)) << i;
    EXPECT_EQ(found[i].hypotheses[0].tokens.size(), 50u);
  }
}

// An observer makes the host choose on a GPU, too; it draws the same tokens.
TEST(Search, SamplesDoNotDependOnAnObserver) {
  struct : Observer {
    void see(const Observation&) override {}
  } observer;
  const Transformer model = sharp_model(Family::encoder_decoder, 9, 5, 60);
  for (const int64_t top_k : {0, 3}) {
    for (const double top_p : {1.0, 0.8}) {
      SearchOptions options = small_options();
      options.sample = true;
      options.n_best = 4;
      options.temperature = 1.5;
      options.top_k = top_k;
      options.top_p = top_p;
      std::vector<SearchRequest> requests;
      for (int32_t i = 0; i < 20; ++i) requests.push_back({i, {2 + i % 5, 3, 4 + i % 3}, {}, i});
      Session session(model, 1);
      const auto expected = run_search(model, options, 40, requests, session);
      const ObserverScope scope(session, &observer);
      const auto found = run_search(model, options, 40, requests, session);
      for (size_t i = 0; i < requests.size(); ++i) {
        EXPECT_TRUE(same(found[i].hypotheses, expected[i].hypotheses)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tril::ahead_backend_test
