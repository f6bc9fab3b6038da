#include "tril/kernels/embedding.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/kernels/reference/embedding.h"
#include "tril/ops/rows.h"

namespace tril::embedding_test {
namespace {

using testing::context_here;
using testing::doubles_of;
using testing::gamma;
using testing::here;
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
    dout = here(random_floats(random, rows * columns));
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(entries))));
      position_ids.push_back(static_cast<int32_t>(random.below(static_cast<uint32_t>(places))));
    }
  }
  reference::EmbeddingCase<double> reference() const {
    return {columns, static_cast<double>(scale), ids,
            positions ? std::span<const int32_t>(position_ids) : std::span<const int32_t>()};
  }
};

std::vector<float> forward(Context& context, const Case& c,
                           const ops::LinearWeight* packed = nullptr) {
  ops::Lookup lookup;
  lookup.ids = c.ids;
  lookup.scale = c.scale;
  lookup.table = testing::tensor_of(context.arena, {c.entries, c.columns}, c.table);
  lookup.packed = packed;
  if (c.positions) {
    lookup.position_ids = c.position_ids;
    lookup.positions = testing::tensor_of(context.arena, {c.places, c.columns}, c.position_table);
  }
  testing::mark_memory(context, 4 * c.rows * c.columns);
  return testing::taken(ops::embedding(context, lookup));
}
std::vector<float> forward(const Case& c) { return forward(context_here(), c); }

struct Sorted {
  std::vector<int32_t> order, starts;
};
Sorted sort_by_id(std::span<const int32_t> ids, int64_t entries) {
  const auto rows = static_cast<int64_t>(ids.size());
  Sorted sorted{std::vector<int32_t>(ids.size()), std::vector<int32_t>(entries + 1)};
  if constexpr (kCudaBuilt) {
    if (testing::device().type == DeviceType::cuda) {
      Context& context = context_here();
      const int32_t* keys = context.uploaded(ids);
      const Tensor order(context.arena, {rows}, DType::i32);
      const Tensor starts(context.arena, {entries + 1}, DType::i32);
      void* workspace = context.arena.allocate(kernels::cuda::sort_by_id_workspace(rows));
      context.launch(kernels::cuda::sort_by_id, {.ids = keys,
                                                 .rows = rows,
                                                 .entries = entries,
                                                 .order = order.on_device<int32_t>(),
                                                 .starts = starts.on_device<int32_t>(),
                                                 .workspace = workspace});
      context.queue.download(order.raw(), 4 * rows, sorted.order.data());
      context.queue.download(starts.raw(), 4 * (entries + 1), sorted.starts.data());
      return sorted;
    }
  }
  kernels::sort_by_id(ids.data(), rows, entries, sorted.order.data(), sorted.starts.data());
  return sorted;
}

std::vector<float> backward(Context& context, const std::vector<int32_t>& ids, int64_t entries,
                            const Case& c, float scale) {
  const Tensor dout = testing::activations_of(context, {c.rows, c.columns}, c.dout);
  testing::mark_memory(context, 4 * entries * c.columns);
  return testing::taken(ops::embedding_gradient(context, ids, entries, scale, dout));
}
std::vector<float> backward(const std::vector<int32_t>& ids, int64_t entries, const Case& c,
                            float scale) {
  return backward(context_here(), ids, entries, c, scale);
}

// One chain over the rows that looked an entry up, ascending, times scale. On CUDA a chain for each
// 64 rows, added ascending.
std::vector<float> scalar_backward(std::span<const int32_t> ids, int64_t entries, const Case& c,
                                   float scale) {
  const int64_t slice =
      testing::device() == Device::cpu ? c.rows + 1 : kernels::cuda::kEmbeddingSlice;
  std::vector<float> dtable(entries * c.columns), sums(entries * c.columns);
  std::vector<int64_t> seen(entries);
  for (int64_t row = 0; row < c.rows; ++row) {
    const int64_t entry = ids[row];
    const bool begins = seen[entry]++ % slice == 0;
    for (int64_t i = entry * c.columns, from = row * c.columns; i < (entry + 1) * c.columns; ++i) {
      if (begins) dtable[i] = dtable[i] + std::exchange(sums[i], 0.0f);
      sums[i] = sums[i] + c.dout[from++];
    }
  }
  for (size_t i = 0; i < dtable.size(); ++i) dtable[i] = (dtable[i] + sums[i]) * scale;
  return dtable;
}

Case any_case(Random& random) {
  const auto columns =
      *rc::gen::oneOf(rc::gen::inRange<int64_t>(1, 100), rc::gen::element<int64_t>(8, 64, 264));
  Case c(random, *rc::gen::inRange<int64_t>(0, 150), columns, *rc::gen::inRange<int64_t>(1, 40),
         *rc::gen::inRange<int64_t>(1, 40));
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

// One rounding forward. Backward, a sum with one term per row that looked the entry up, and a
// product.
RC_GTEST_PROP(Embedding, IsTheReferenceWithinRounding, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const std::vector<double> expected = reference::embedding<double>(
      c.reference(), doubles_of(here(c.table)), doubles_of(c.position_table));
  std::vector<double> bound;
  for (const double value : expected) bound.push_back(kUnit * std::fabs(value));
  TRIL_HOLDS(testing::within(forward(c), expected, testing::stored(expected, bound)));

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
  TRIL_HOLDS(testing::within(backward(c.ids, c.entries, c, c.scale), dtable, bound));
}

RC_GTEST_PROP(Embedding, FollowsItsOrderBitForBit, ()) {
  Random random = testing::seeded();
  const Case c = any_case(random);
  const std::vector<float> table = here(c.table);
  std::vector<float> expected;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t i = 0; i < c.columns; ++i) {
      const float value = table[c.ids[row] * c.columns + i];
      expected.push_back(
          c.positions
              ? std::fma(value, c.scale, c.position_table[c.position_ids[row] * c.columns + i])
              : value * c.scale);
    }
  }
  TRIL_HOLDS(same_bits(forward(c), here(expected)));
  TRIL_HOLDS(same_bits(backward(c.ids, c.entries, c, c.scale),
                       scalar_backward(c.ids, c.entries, c, c.scale)));
  TRIL_HOLDS(same_bits(backward(c.position_ids, c.places, c, 1.0f),
                       scalar_backward(c.position_ids, c.places, c, 1.0f)));
}

::testing::AssertionResult sorts_stably(const std::vector<int32_t>& ids, int32_t entries) {
  const Sorted sorted = sort_by_id(ids, entries);
  std::vector<int32_t> order(ids.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
  for (size_t i = 0; i < order.size(); ++i) {
    if (sorted.order[i] == order[i]) continue;
    return ::testing::AssertionFailure() << "place " << i << " of " << order.size() << " has row "
                                         << sorted.order[i] << ", expected " << order[i];
  }
  std::vector<int32_t> below(static_cast<size_t>(entries) + 1);  // ids below each entry
  for (const int32_t id : ids) ++below[static_cast<size_t>(id) + 1];
  for (size_t entry = 0; entry < static_cast<size_t>(entries); ++entry) {
    below[entry + 1] += below[entry];
  }
  for (size_t entry = 0; entry < below.size(); ++entry) {
    if (sorted.starts[entry] == below[entry]) continue;
    return ::testing::AssertionFailure() << "entry " << entry << " starts at "
                                         << sorted.starts[entry] << ", expected " << below[entry];
  }
  return ::testing::AssertionSuccess();
}

RC_GTEST_PROP(SortById, IsStable, ()) {
  const auto entries = *rc::gen::inRange<int32_t>(1, 30);
  const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, entries));
  TRIL_HOLDS(sorts_stably(ids, entries));
}

// Many tiles of rows, and one, two and three digits.
TEST(SortById, IsStableForManyRowsAndEntries) {
  Random random(3);
  for (const int64_t rows : {1, 1023, 1024, 1025, 25000}) {
    for (const int32_t entries : {1, 256, 257, 32000, 65536, 65537, 300000}) {
      std::vector<int32_t> ids;
      for (int64_t row = 0; row < rows; ++row) {
        const uint32_t below = random.below(3) == 0 ? 1 : static_cast<uint32_t>(entries);
        ids.push_back(static_cast<int32_t>(random.below(below)));
      }
      EXPECT_TRUE(sorts_stably(ids, entries)) << rows << " rows, " << entries << " entries";
    }
  }
}

// One entry with thousands of rows, some with a few hundred, many with none: slices that begin
// anywhere.
TEST(Embedding, GradientOfFrequentEntriesFollowsItsOrder) {
  Random random(4);
  for (const int64_t columns : {64, 67}) {
    Case c(random, 3001, columns, 97, 5);
    for (int32_t& id : c.ids) {
      const uint32_t kind = random.below(10);
      if (kind < 5) id = 41;
      if (kind >= 5 && kind < 8) id = 3 + 7 * static_cast<int32_t>(random.below(3));
      if (kind == 8) id = 96;
    }
    EXPECT_TRUE(same_bits(backward(c.ids, c.entries, c, c.scale),
                          scalar_backward(c.ids, c.entries, c, c.scale)))
        << columns << " columns";
    EXPECT_TRUE(same_bits(backward(c.position_ids, c.places, c, 1.0f),
                          scalar_backward(c.position_ids, c.places, c, 1.0f)))
        << columns << " columns";
  }
}

// On CUDA in bf16 rows come from the rounded and padded weight; they are those of the table.
TEST(Embedding, ReadsTheRoundedWeight) {
  if (testing::activations() != DType::bf16) GTEST_SKIP() << "activations are not rounded";
  Random random(5);
  for (const int64_t columns : {64, 100}) {
    const Case c(random, 50, columns, 19, 7);
    Context& context = context_here();
    Arena arena;
    const Tensor table = testing::tensor_of(arena, {c.entries, columns}, c.table);
    const ops::LinearWeight weight = ops::packed_for(context, table, Compute::bf16, context.arena);
    const std::vector<float> rounded = forward(context, c, &weight);
    EXPECT_TRUE(same_bits(rounded, forward(c)));
  }
}

TEST(Embedding, ThreadsAndTargetsChangeNothing) {
  Random random(1);
  // More entries and rows than one task takes.
  for (const auto& [rows, entries] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1300, 17}, {150, 1400}}) {
    const Case c(random, rows, 67, entries, 29);
    EXPECT_TRUE(testing::same_again([&](Context& context) { return forward(context, c); }));
    EXPECT_TRUE(testing::same_again(
        [&](Context& context) { return backward(context, c.ids, c.entries, c, c.scale); }));
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
  TRIL_HOLDS(same_bits(forward(context_here(1), alone), rows_of(forward(c), c.columns, row, 1)));
}

TEST(Embedding, EntriesNeverLookedUpHaveGradientZeroAndNanStaysAway) {
  Random random(2);
  Case c(random, 6, 37, 9, 4);
  c.ids = {3, 8, 3, 0, 8, 3};
  const std::vector<float> clean = backward(c.ids, c.entries, c, c.scale);
  c.dout[1 * c.columns + 36] = NAN;  // row 1 looked up entry 8
  const std::vector<float> dtable = backward(c.ids, c.entries, c, c.scale);
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

// Accumulated, with the order made beforehand or when it is needed.
TEST(Embedding, GradientsAreAddedToWhatIsThere) {
  Random random(14);
  for (const int64_t rows : {0, 1, 40, 700}) {
    constexpr int64_t kEntries = 9;
    const Case c(random, rows, 24, kEntries, 4);
    std::vector<int32_t> ids;
    for (int64_t row = 0; row < rows; ++row) {
      ids.push_back(static_cast<int32_t>(random.below(kEntries - 1)));
    }
    Context& context = context_here();
    const Tensor dout = testing::activations_of(context, {rows, 24}, c.dout);
    const std::vector<float> before = testing::random_floats(random, kEntries * 24);
    std::vector<float> expected =
        testing::floats_of(ops::embedding_gradient(context, ids, kEntries, 3.0f, dout));
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = before[i] + expected[i];
    for (const auto& order : {ops::LookupOrder{}, ops::lookup_order(context, ids, kEntries)}) {
      const Tensor dtable = testing::tensor_of(context.arena, {kEntries, 24}, before);
      ops::add_embedding_gradient(context, ids, 3.0f, dout, order, dtable);
      EXPECT_TRUE(testing::same_bits(testing::floats_of(dtable), expected)) << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace tril::embedding_test
