#include "tril/tensor/arena.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/testing.h"
#include "tril/tensor/tensor.h"

namespace tril::arena_test {
namespace {

using testing::raised_by;

TEST(Arena, RepeatsItsAddressesOnceWarm) {
  Arena arena;
  std::vector<const void*> addresses;
  for (int step = 0; step < 5; ++step) {
    const int64_t before = allocation_count();
    std::vector<const void*> now;
    for (const int64_t bytes : {100, 100000, 7, 3000000, 64}) now.push_back(arena.allocate(bytes));
    if (step >= 2) {
      EXPECT_EQ(allocation_count(), before);
      EXPECT_EQ(now, addresses);
    }
    addresses = now;
    arena.reset();
  }
}

TEST(Arena, AlignsAndKeepsBlocksApart) {
  Arena arena;
  auto* a = static_cast<char*>(arena.allocate(1));
  auto* b = static_cast<char*>(arena.allocate(65));
  auto* c = static_cast<char*>(arena.allocate(1));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % kMemoryAlignment, 0u);
  EXPECT_GE(b - a, 1);
  EXPECT_GE(c - b, 65);
}

TEST(Arena, AHoldKeepsWhatScopesTook) {
  Arena arena;
  void* taken = nullptr;
  {
    const Arena::Hold hold(arena);
    const Arena::Scope scope(arena);
    EXPECT_TRUE(arena.in_scope());
    taken = arena.allocate(64);
  }
  EXPECT_FALSE(arena.in_scope());
  EXPECT_NE(arena.allocate(64), taken);
}

TEST(Arena, AScopeGivesBackWhatItTook) {
  Arena arena;
  arena.allocate(1000);
  const int64_t used = arena.used_bytes();
  {
    const Arena::Scope scope(arena);
    arena.allocate(1 << 20);
    EXPECT_GT(arena.used_bytes(), used);
  }
  EXPECT_EQ(arena.used_bytes(), used);
  EXPECT_GE(arena.peak_bytes(), used + (1 << 20));
}

TEST(Tensor, IsStaleAfterAReset) {
  Arena arena;
  const Tensor tensor(arena, {2, 3});
  EXPECT_NO_THROW(tensor.data());
  arena.reset();
  EXPECT_EQ(raised_by([&] { tensor.data(); }).text,
            "tensor [2, 3] is stale: its arena was reset or destroyed since it was made");
}

TEST(Tensor, IsStaleAfterItsArenaIsGone) {
  auto arena = std::make_unique<Arena>();
  const Tensor tensor(*arena, {4});
  arena.reset();  // the pointer: the arena is destroyed
  const Arena another;
  EXPECT_THROW(tensor.data(), Error);
}

TEST(Tensor, ChecksTypeShapeAndBounds) {
  Arena arena;
  const Tensor tensor(arena, {4, 6});
  EXPECT_EQ(raised_by([&] { tensor.data<double>(); }).text, "a tensor of f32 was read as f64");
  EXPECT_THROW(tensor.reshaped({5, 5}), Error);
  EXPECT_THROW(tensor.slice(2, 5), Error);
  EXPECT_THROW(tensor.slice(-1, 2), Error);
  EXPECT_EQ(tensor.slice(1, 3).data(), tensor.data() + 6);
  EXPECT_EQ(tensor.slice(1, 3).shape(), (Shape{2, 6}));
  EXPECT_THROW(Tensor().data(), Error);
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), Error);
}

TEST(Tensor, ColumnsOfAMatrixAreTensorsWhoseRowsLieApart) {
  Arena arena;
  const Tensor whole(arena, {3, 6});
  for (int i = 0; i < 18; ++i) whole.data()[i] = static_cast<float>(i);
  const Tensor left = whole.column_slice(0, 2), right = whole.column_slice(2, 6);
  EXPECT_FALSE(right.dense());
  EXPECT_EQ(right.row_stride(), 6);
  EXPECT_EQ(right.part_of(), nullptr) << "it has a gradient of its own";
  EXPECT_EQ(to_floats(right), (std::vector<float>{2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17}));
  EXPECT_EQ(to_floats(right.slice(1, 2)), (std::vector<float>{8, 9, 10, 11}));
  const OnHost copy(left.reshaped({3, 1, 2}));
  EXPECT_EQ(std::vector<float>(copy.values().begin(), copy.values().end()),
            (std::vector<float>{0, 1, 6, 7, 12, 13}));
  const Tensor dense(arena, {3, 4});
  copy_into(right, dense);
  EXPECT_EQ(to_floats(dense), to_floats(right));
  EXPECT_TRUE(whole.column_slice(0, 6).dense());

  EXPECT_EQ(testing::raised_by([&] { right.data(); }).code, ErrorCode::internal);
  EXPECT_EQ(testing::raised_by([&] { right.reshaped({4, 3}); }).code, ErrorCode::unsupported);
  EXPECT_EQ(testing::raised_by([&] { whole.column_slice(4, 7); }).code,
            ErrorCode::invalid_argument);

  const Tensor again[] = {left.reshaped({3, 2, 1}), right};
  const Tensor joined = Tensor::joined(again);
  ASSERT_TRUE(joined.defined());
  EXPECT_EQ(joined.data(), whole.data());
  EXPECT_EQ(joined.shape(), whole.shape());
  const Tensor turned[] = {right, left};
  EXPECT_FALSE(Tensor::joined(turned).defined());
  EXPECT_FALSE(Tensor::joined(std::span(again).first(1)).defined()) << "not all of it";
  const Tensor other[] = {left, Tensor(arena, {3, 6}).column_slice(2, 6)};
  EXPECT_FALSE(Tensor::joined(other).defined());
  const Tensor missing[] = {left, Tensor()};
  EXPECT_FALSE(Tensor::joined(missing).defined());
}

TEST(Tensor, OutOfMemoryIsAnError) {
  Arena arena;
  for (const int64_t count : {int64_t{1} << 50, int64_t{1} << 61, INT64_MAX}) {
    EXPECT_EQ(raised_by([&] { Tensor(arena, {count}, DType::i8); }).code, ErrorCode::out_of_memory);
    EXPECT_EQ(raised_by([&] { arena.allocate_array<double>(count); }).code,
              ErrorCode::out_of_memory);
  }
}

}  // namespace
}  // namespace tril::arena_test
