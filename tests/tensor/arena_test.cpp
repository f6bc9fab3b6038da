#include "tril/tensor/arena.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/testing.h"
#include "tril/tensor/tensor.h"

namespace tril {
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

TEST(Tensor, OutOfMemoryIsAnError) {
  Arena arena;
  for (const int64_t count : {int64_t{1} << 50, int64_t{1} << 61, INT64_MAX}) {
    EXPECT_EQ(raised_by([&] { Tensor(arena, {count}, DType::i8); }).code, ErrorCode::out_of_memory);
    EXPECT_EQ(raised_by([&] { arena.allocate_array<double>(count); }).code,
              ErrorCode::out_of_memory);
  }
}

}  // namespace
}  // namespace tril
