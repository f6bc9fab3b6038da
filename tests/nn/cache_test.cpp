#include "tril/nn/cache.h"

#include <map>
#include <numeric>

#include "support/property.h"
#include "support/scarce_memory.h"
#include "support/testing.h"

namespace tril::cache_test {
namespace {

using testing::activations_of;
using testing::floats_of;
using testing::placement;
using testing::raised_by;

constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 3;

// Appends one position whose key and value are all `mark` and `-mark`.
void append(Cache& cache, Context& context, int32_t slot, float mark) {
  const int32_t slots[] = {slot};
  const int32_t positions[] = {cache.length(slot)};
  cache.extend(slots, positions);
  const std::vector<float> key(kHeads * kDim, mark), value(kHeads * kDim, -mark);
  context.reset();
  cache.store(context, 0, cache.places(context, slots, positions),
              activations_of(context, {1, 6}, key), activations_of(context, {1, 6}, value));
}

// One element of a cache on CUDA.
float read_back(Context& context, const void* first, int64_t element) {
  const int64_t bytes = size_of(context.activations);
  const Tensor copy(context.arena, {1}, context.activations);
  tril::copy(context.device(), copy.raw(), context.device(),
             static_cast<const char*>(first) + element * bytes, bytes);
  return floats_of(copy)[0];
}

// The marks a slot holds, read back from its pages.
std::vector<float> marks(const Cache& cache, Context& context, int32_t slot) {
  const int32_t slots[] = {slot};
  const ops::PagedKeys view = cache.keys_of(cache.view(context, slots), 0);
  std::vector<float> result;
  if (context.device() != Device::cpu) {
    context.queue.wait();
    for (int32_t i = 0; i < view.lengths[0]; ++i) {
      const int64_t at = view.table[i] * view.entry_stride;
      const float key = read_back(context, view.keys, at);
      EXPECT_EQ(key, -read_back(context, view.values, at + kHeads * kDim - 1));
      result.push_back(key);
    }
    return result;
  }
  for (int32_t i = 0; i < view.lengths[0]; ++i) {
    const float* page = view.pages[0][i / 16];
    const float key = page[view.keys_offset + i % 16];
    const float value = page[view.values_offset + i % 16 * kDim];
    EXPECT_EQ(key, -value);
    result.push_back(key);
  }
  return result;
}

// Whatever is forked, truncated and released, every slot holds what a plain copy would.
RC_GTEST_PROP(Cache, BehavesLikePlainCopies, ()) {
  if (testing::passed_over_on_cuda(5)) return;
  Context context(1, placement());
  Cache cache(1, kHeads, kDim, placement());
  std::map<int32_t, std::vector<float>> model;
  model[cache.open()] = {};
  float mark = 1.0f;
  const auto any = [&] {
    auto it = model.begin();
    std::advance(it, *rc::gen::inRange<size_t>(0, model.size()));
    return it->first;
  };
  for (int step = 0; step < 120; ++step) {
    switch (*rc::gen::inRange(0, 9)) {
      case 0: {
        const int32_t from = any();
        const auto copy = model[from];
        model[cache.fork(from)] = copy;
        break;
      }
      case 1: model[cache.open()] = {}; break;
      case 2:
        if (model.size() > 1) {
          const int32_t slot = any();
          cache.release(slot);
          model.erase(slot);
          RC_ASSERT(!cache.is_open(slot));
        }
        break;
      case 3: {  // a step of a beam: every slot becomes a copy of some parent
        std::map<int32_t, std::vector<float>> next;
        for (size_t i = 0; i < model.size(); ++i) {
          const int32_t parent = any();
          next[cache.fork(parent)] = model[parent];
        }
        for (const auto& [slot, held] : model) cache.release(slot);
        model = next;
        break;
      }
      case 4: {
        const int32_t slot = any();
        const auto keep = *rc::gen::inRange<size_t>(0, model[slot].size() + 1);
        cache.truncate(slot, static_cast<int32_t>(keep));
        model[slot].resize(keep);
        break;
      }
      default: {
        const int32_t slot = any();
        for (int i = *rc::gen::inRange(1, 12); i > 0; --i) {
          append(cache, context, slot, mark);
          model[slot].push_back(mark);
          // Integers that bf16 has too: others follow, then the first again.
          mark = mark < 256.0f ? mark + 1.0f : 1.0f;
        }
      }
    }
  }
  for (const auto& [slot, held] : model) RC_ASSERT(marks(cache, context, slot) == held);
  cache.release_all();
  RC_ASSERT(cache.block_count() == 0);
}

TEST(Cache, SharesPagesUntilOneIsWritten) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "on CUDA a page is one position";
  Context context(1, placement());
  Cache cache(1, kHeads, kDim, placement());
  const int32_t slot = cache.open();
  for (int i = 0; i < 40; ++i) append(cache, context, slot, static_cast<float>(i));
  EXPECT_EQ(cache.block_count(), 3);
  const int32_t copy = cache.fork(slot);
  EXPECT_EQ(cache.block_count(), 3);
  append(cache, context, copy, 100.0f);
  EXPECT_EQ(cache.block_count(), 4);
  append(cache, context, slot, 200.0f);
  EXPECT_EQ(cache.block_count(), 4);
}

// Entries keep their numbers and contents when the pool grows.
TEST(Cache, GrowsWithoutForgetting) {
  Context context(1, placement());
  Cache cache(1, kHeads, kDim, placement());
  const int32_t first = cache.open();
  for (int i = 0; i < 5; ++i) append(cache, context, first, static_cast<float>(i));
  const int32_t other = cache.open();
  constexpr int32_t kMany = 5000;
  std::vector<int32_t> slots(kMany, other), positions(kMany);
  std::iota(positions.begin(), positions.end(), 0);
  cache.extend(slots, positions);
  append(cache, context, first, 5.0f);
  EXPECT_EQ(marks(cache, context, first), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Cache, SaysWhatIsWrongAndChangesNothing) {
  Context context(1, placement());
  Cache cache(1, kHeads, kDim, placement());
  const int32_t slot = cache.open();
  append(cache, context, slot, 1.0f);
  EXPECT_EQ(raised_by([&] { cache.fork(7); }).text, "cache: slot 7 is not open");
  EXPECT_EQ(raised_by([&] { cache.truncate(slot, 2); }).text,
            "cache: slot 0 holds 1 positions, it cannot be cut to 2");
  const int32_t slots[] = {slot, slot};
  const int32_t skipping[] = {1, 3};
  EXPECT_EQ(raised_by([&] { cache.extend(slots, skipping); }).text,
            "cache: row 1 of slot 0 is at position 3, the next is 2");
  const int32_t other = cache.open();
  const int32_t apart[] = {slot, other, slot};
  const int32_t positions[] = {1, 0, 2};
  EXPECT_EQ(raised_by([&] { cache.extend(apart, positions); }).text,
            "cache: the rows of slot 0 are not side by side");
  EXPECT_EQ(cache.length(slot), 1);
  EXPECT_EQ(cache.length(other), 0);
}

// Wherever memory runs out, nothing is lost, and releasing needs none.
TEST(Cache, LosesNothingWithoutMemory) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "host memory";
  bool was_enough = false;
  for (int64_t allocations = 0; !was_enough; ++allocations) {
    Cache cache(1, kHeads, kDim, placement());
    const std::vector<int32_t> slots(40, cache.open());
    std::vector<int32_t> positions(slots.size());
    std::iota(positions.begin(), positions.end(), 0);
    cache.extend(std::span(slots).first(30), std::span(positions).first(30));
    int32_t forks = 0;
    {
      const testing::ScarceMemory scarce(allocations);
      try {
        for (; forks < 40; ++forks) cache.fork(slots[0]);
        cache.extend(std::span(slots).subspan(30), std::span(positions).subspan(30));
        was_enough = scarce.was_enough();
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_FALSE(cache.is_open(forks + 1)) << "a fork that failed";
    {
      const testing::ScarceMemory none(0);
      cache.release_all();
    }
    EXPECT_EQ(cache.block_count(), 0) << allocations;
  }
}

}  // namespace
}  // namespace tril::cache_test
