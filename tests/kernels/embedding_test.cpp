#include "tril/kernels/embedding.h"

#include "kernels/gradient_check.h"
#include "kernels/kernel_support.h"
#include "tril/kernels/reference/embedding.h"

namespace tril {
namespace {

using testing::doubles_of;
using testing::gamma;
using testing::Guarded;
using testing::kUnit;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Case {
  int64_t rows = 0, columns = 0, entries = 0, places = 0;
  float scale = 1.0f;
  bool positions = true;
  std::vector<int32_t> ids, position_ids;
  std::vector<float> table, position_table, dout;

  Case(Random& random, int64_t row_count, int64_t column_count, int64_t entry_count,
       int64_t place_count)
      : rows(row_count), columns(column_count), entries(entry_count), places(place_count) {
    scale = random.uniform(0.5f, 30.0f);
    table = random_floats(random, entries * columns);
    position_table = random_floats(random, places * columns);
    dout = random_floats(random, rows * columns);
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(entries))));
      position_ids.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(places))));
    }
  }
  kernels::Embedding args() const {
    return {.rows = rows,
            .columns = columns,
            .scale = scale,
            .ids = ids.data(),
            .table = table.data(),
            .position_ids = positions ? position_ids.data() : nullptr,
            .position_table = positions ? position_table.data() : nullptr};
  }
  reference::EmbeddingCase<double> reference() const {
    return {columns, static_cast<double>(scale), ids,
            positions ? std::span<const int32_t>(position_ids) : std::span<const int32_t>()};
  }
};

std::vector<float> forward(const Parallel& parallel, const Case& c) {
  Guarded out(c.rows * c.columns);
  kernels::embedding_forward(parallel, c.args(), out.data());
  return out.take();
}

struct Sorted {
  std::vector<int32_t> order, starts;
};
Sorted sort_by_id(std::span<const int32_t> ids, int64_t entries) {
  Sorted sorted{std::vector<int32_t>(ids.size()), std::vector<int32_t>(entries + 1)};
  kernels::sort_by_id(ids.data(), static_cast<int64_t>(ids.size()), entries, sorted.order.data(),
                      sorted.starts.data());
  return sorted;
}

std::vector<float> backward(const Parallel& parallel, std::span<const int32_t> ids, int64_t entries,
                            const Case& c, float scale) {
  const Sorted sorted = sort_by_id(ids, entries);
  Guarded dtable(entries * c.columns);
  kernels::embedding_backward(parallel, sorted.order.data(), sorted.starts.data(), c.dout.data(),
                              scale, entries, c.columns, dtable.data());
  return dtable.take();
}

// One chain over the rows that looked an entry up, ascending, times scale.
std::vector<float> scalar_backward(std::span<const int32_t> ids, int64_t entries, const Case& c,
                                   float scale) {
  std::vector<float> dtable(entries * c.columns);
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t i = 0; i < c.columns; ++i) {
      float& sum = dtable[ids[row] * c.columns + i];
      sum = sum + c.dout[row * c.columns + i];
    }
  }
  for (float& value : dtable) value = value * scale;
  return dtable;
}

Case any_case(Random& random) {
  Case c(random, *rc::gen::inRange<int64_t>(0, 150), *rc::gen::inRange<int64_t>(1, 100),
         *rc::gen::inRange<int64_t>(1, 40), *rc::gen::inRange<int64_t>(1, 40));
  c.positions = *rc::gen::arbitrary<bool>();
  return c;
}

RC_GTEST_PROP(EmbeddingReference, GradientsAreThoseOfFiniteDifferences, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(0, 7), *rc::gen::inRange<int64_t>(1, 4),
               *rc::gen::inRange<int64_t>(1, 5), *rc::gen::inRange<int64_t>(1, 4));
  const std::vector<double> table = doubles_of(c.table);
  const std::vector<double> positions = doubles_of(c.position_table);
  const std::vector<double> dout = doubles_of(c.dout);
  const auto scale = static_cast<double>(c.scale);
  // Entries are below 1, so a product and a sum stay below scale + 1.
  const double noise = testing::rounding_noise(dout, scale + 1.0, 2);
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) {
        return testing::weighted_sum(reference::embedding<double>(c.reference(), at, positions),
                                     dout);
      },
      table, reference::embedding_gradient<double>(c.columns, scale, c.ids, c.entries, dout),
      noise));
  TRIL_HOLDS(testing::gradient_matches(
      [&](const auto& at) {
        return testing::weighted_sum(reference::embedding<double>(c.reference(), table, at), dout);
      },
      positions,
      reference::embedding_gradient<double>(c.columns, 1.0, c.position_ids, c.places, dout),
      noise));
}

// One rounding forward. Backward a sum of as many terms as rows looked the entry up, and a product.
RC_GTEST_PROP(Embedding, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const std::vector<double> expected = reference::embedding<double>(
      c.reference(), doubles_of(c.table), doubles_of(c.position_table));
  std::vector<double> bound;
  for (const double value : expected) bound.push_back(kUnit * std::fabs(value));
  TRIL_HOLDS(testing::within(forward(Parallel(2), c), expected, bound));

  std::vector<double> magnitude = doubles_of(c.dout);
  for (double& value : magnitude) value = std::fabs(value);
  const auto scale = static_cast<double>(c.scale);
  const std::vector<double> dtable =
      reference::embedding_gradient<double>(c.columns, scale, c.ids, c.entries, doubles_of(c.dout));
  bound = reference::embedding_gradient<double>(c.columns, scale, c.ids, c.entries, magnitude);
  for (size_t i = 0; i < bound.size(); ++i) {
    const auto entry = static_cast<int32_t>(static_cast<int64_t>(i) / c.columns);
    bound[i] *= gamma(std::count(c.ids.begin(), c.ids.end(), entry));
  }
  TRIL_HOLDS(testing::within(backward(Parallel(2), c.ids, c.entries, c, c.scale), dtable, bound));
}

RC_GTEST_PROP(Embedding, FollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  std::vector<float> expected;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t i = 0; i < c.columns; ++i) {
      const float value = c.table[c.ids[row] * c.columns + i];
      expected.push_back(
          c.positions
              ? std::fma(value, c.scale, c.position_table[c.position_ids[row] * c.columns + i])
              : value * c.scale);
    }
  }
  TRIL_HOLDS(same_bits(forward(Parallel(2), c), expected));
  TRIL_HOLDS(same_bits(backward(Parallel(2), c.ids, c.entries, c, c.scale),
                       scalar_backward(c.ids, c.entries, c, c.scale)));
  TRIL_HOLDS(same_bits(backward(Parallel(2), c.position_ids, c.places, c, 1.0f),
                       scalar_backward(c.position_ids, c.places, c, 1.0f)));
}

RC_GTEST_PROP(SortById, IsStable, ()) {
  const auto entries = *rc::gen::inRange<int32_t>(1, 30);
  const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, entries));
  const Sorted sorted = sort_by_id(ids, entries);
  std::vector<int32_t> order(ids.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
  RC_ASSERT(sorted.order == order);
  for (int32_t entry = 0; entry <= entries; ++entry) {
    RC_ASSERT(sorted.starts[entry] ==
              std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return id < entry; }));
  }
}

TEST(Embedding, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  // More entries and rows than one task takes.
  for (const auto& [rows, entries] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1300, 17}, {150, 1400}}) {
    const Case c(random, rows, 67, entries, 29);
    EXPECT_TRUE(
        testing::same_everywhere([&](const Parallel& parallel) { return forward(parallel, c); }));
    EXPECT_TRUE(testing::same_everywhere([&](const Parallel& parallel) {
      return backward(parallel, c.ids, c.entries, c, c.scale);
    }));
  }
}

RC_GTEST_PROP(Embedding, ARowDependsOnThatRowOnly, ()) {
  Random random = testing::seeded();
  const Case c(random, *rc::gen::inRange<int64_t>(1, 60), *rc::gen::inRange<int64_t>(1, 100), 13,
               9);
  const auto row = *rc::gen::inRange<int64_t>(0, c.rows);
  Case alone = c;
  alone.rows = 1;
  alone.ids = {c.ids[row]};
  alone.position_ids = {c.position_ids[row]};
  TRIL_HOLDS(
      same_bits(forward(Parallel(1), alone), rows_of(forward(Parallel(2), c), c.columns, row, 1)));
}

TEST(Embedding, EntriesNeverLookedUpHaveGradientZeroAndNanStaysAway) {
  Random random(2);
  Case c(random, 6, 37, 9, 4);
  c.ids = {3, 8, 3, 0, 8, 3};
  const std::vector<float> clean = backward(Parallel(1), c.ids, c.entries, c, c.scale);
  c.dout[1 * c.columns + 36] = NAN;  // row 1 looked up entry 8
  const std::vector<float> dtable = backward(Parallel(1), c.ids, c.entries, c, c.scale);
  for (int64_t entry = 0; entry < c.entries; ++entry) {
    const std::vector<float> row = rows_of(dtable, c.columns, entry, 1);
    if (entry == 8) {
      EXPECT_TRUE(std::isnan(row[36]));
    } else {
      EXPECT_TRUE(same_bits(row, rows_of(clean, c.columns, entry, 1)));
    }
    if (entry != 0 && entry != 3 && entry != 8) {
      EXPECT_TRUE(same_bits(row, std::vector<float>(c.columns)));
    }
  }
}

}  // namespace
}  // namespace tril
