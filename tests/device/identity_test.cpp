// What tells one launch from another, and one step from another: every value of every struct of
// arguments, and nothing else.
#include "tril/device/identity.h"

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "support/testing.h"
#include "tril/device/queue.h"
#include "tril/device/trace.h"
#include "tril/kernels/cuda/launches.h"

namespace tril::identity_test {
namespace {

template <class Args>
void launch_nothing(Stream, const Args&) {}
template <class Args>
void launch_nothing_else(Stream, const Args&) {
  static int calls = 0;  // so that it is no copy of the other one
  ++calls;
}

// How an identity is made: of all values, as Queue::launch() does it.
struct OfAllValues {
  template <class Args>
  Identity operator()(const Args& args) const {
    return identity_of<Args>(launch_nothing<Args>, args);
  }
};

// A struct of which a field would not be seen does not compile as arguments.
struct Plain {
  int a;
  std::array<float, 2> b;
  const char* c;
};
struct Reference {
  int& to;
};
struct ConstReference {
  int a;
  const int& to;
};
struct ReferenceInside {
  Reference inside;
};
struct Nothing {};
static_assert(fields::kIsPlain<Plain> && fields::kIsPlain<Nothing>);
static_assert(!fields::kIsPlain<Reference> && !fields::kIsPlain<ConstReference> &&
              !fields::kIsPlain<ReferenceInside>);

// The offsets of the bytes of a struct that hold a value, as the compiler that laid them out knows
// them: what fields.h sees of the struct has no part in it.
template <class Args>
std::set<size_t> bytes_with_values() {
  std::set<size_t> bytes;
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
  alignas(Args) unsigned char memory[sizeof(Args)];
  std::memset(memory, 0xFF, sizeof memory);
  auto* args = reinterpret_cast<Args*>(memory);
  __builtin_clear_padding(args);
  for (size_t i = 0; i < sizeof memory; ++i) {
    if (memory[i] != 0) bytes.insert(i);
  }
#endif
  return bytes;
}

// The bytes with values that the identity does not depend on: there should be none.
template <class Args, class MakeIdentity>
std::vector<size_t> bytes_left_out(const MakeIdentity& identity) {
  std::vector<size_t> left_out;
  Args args{};
  const Identity before = identity(args);
  for (const size_t at : bytes_with_values<Args>()) {
    auto* byte = reinterpret_cast<unsigned char*>(&args) + at;
    *byte ^= 1;  // the lowest bit, so that true and false stay what they are
    if (identity(args) == before) left_out.push_back(at);
    *byte ^= 1;
  }
  return left_out;
}

template <class F>
void for_each_launch(const F& f) {
  kernels::cuda::Launches::for_each(f);
  TypeList<Copy, CopyRows>::for_each(f);
}

template <class Args>
int64_t values_of(const Args& args) {
  int64_t count = 0;
  for_each_value(args, [&](const auto&) { ++count; });
  return count;
}

bool knows_padding() { return !bytes_with_values<Copy>().empty(); }

TEST(Identity, EveryByteOfEveryLaunchCounts) {
  if (!knows_padding()) GTEST_SKIP() << "this compiler does not tell where padding is";
  int64_t launches = 0, values = 0;
  for_each_launch([&]<class Args>(std::type_identity<Args>) {
    EXPECT_EQ(bytes_left_out<Args>(OfAllValues()), std::vector<size_t>{}) << "launch " << launches;
    ++launches;
    values += values_of(Args{});
  });
  EXPECT_GT(launches, 50);
  EXPECT_GT(values, 500);
}

// Each value of each struct is changed in its turn: every change is an identity of its own.
TEST(Identity, EveryValueOfEveryLaunchCounts) {
  for_each_launch([&]<class Args>(std::type_identity<Args>) {
    Args args{};
    std::set<Identity> seen = {OfAllValues()(args)};
    size_t changes = 0;
    for_each_value(args, [&]<class Value>(Value& value) {
      const Value before = value;
      if constexpr (std::is_pointer_v<Value>) {
        value = reinterpret_cast<Value>(uintptr_t{64});
      } else if constexpr (std::is_same_v<Value, bool>) {
        value = !value;
      } else if constexpr (std::is_enum_v<Value>) {
        value = static_cast<Value>(static_cast<int>(value) + 1);
      } else {
        value = static_cast<Value>(value + 1);
      }
      seen.insert(OfAllValues()(args));
      ++changes;
      value = before;
    });
    EXPECT_EQ(seen.size(), changes + 1);
  });
}

// The same arguments, written into memory that held something else: padding does not count.
TEST(Identity, EqualArgumentsAreEqual) {
  for_each_launch([]<class Args>(std::type_identity<Args>) {
    alignas(Args) unsigned char memory[2][sizeof(Args)];
    std::memset(memory[0], 0x00, sizeof memory[0]);
    std::memset(memory[1], 0xFF, sizeof memory[1]);
    const Args source{};
    Identity identities[2];
    for (int i = 0; i < 2; ++i) {
      auto* args = reinterpret_cast<Args*>(memory[i]);
      // Value by value, which leaves what is between them alone.
      std::vector<const void*> from;
      for_each_value(source, [&](const auto& value) { from.push_back(&value); });
      size_t next = 0;
      for_each_value(*args, [&](auto& value) { std::memcpy(&value, from[next++], sizeof value); });
      identities[i] = OfAllValues()(*args);
    }
    EXPECT_EQ(identities[0], identities[1]);
    EXPECT_EQ(identities[0], OfAllValues()(source));
  });
}

TEST(Identity, AnotherLauncherIsAnotherLaunch) {
  const Copy args{};
  EXPECT_EQ(identity_of<Copy>(launch_nothing<Copy>, args),
            identity_of<Copy>(launch_nothing<Copy>, args));
  EXPECT_NE(identity_of<Copy>(launch_nothing<Copy>, args),
            identity_of<Copy>(launch_nothing_else<Copy>, args));
}

// The check above can fail: an identity that leaves a field out, as one written by hand might, is
// found out by the bytes of that field.
TEST(Identity, AFieldThatIsLeftOutIsFound) {
  if (!knows_padding()) GTEST_SKIP() << "this compiler does not tell where padding is";
  const auto without_orientation = [](const kernels::cuda::Gemm& gemm) {
    kernels::cuda::Gemm seen = gemm;
    seen.orientation = {};
    return OfAllValues()(seen);
  };
  using kernels::cuda::Gemm;
  EXPECT_EQ(bytes_left_out<Gemm>(without_orientation), (std::vector<size_t>{0, 1, 2, 3}));
  const auto without_last = [](const CopyRows& copy) {
    Identity identity;
    int64_t left = values_of(copy);
    for_each_value(copy, [&](const auto& value) {
      if (--left > 0) identity.add_values(value);
    });
    return identity;
  };
  EXPECT_EQ(bytes_left_out<CopyRows>(without_last).size(), sizeof(int64_t));
  EXPECT_EQ(bytes_left_out<CopyRows>(without_last)[0], offsetof(CopyRows, rows));
}

struct Inner {
  bool flag = false;
  std::array<int32_t, 3> numbers{};
};
struct Outer {
  float number = 0.0f;
  Inner inner{};
  const void* pointer = nullptr;
};
TEST(Fields, StructsWithinStructsAreVisitedInOrder) {
  Outer outer{.number = 1.0f, .inner = {.flag = true, .numbers = {2, 3, 4}}};
  std::vector<int> seen;
  for_each_value(outer, [&]<class Value>(Value& value) {
    if constexpr (std::is_pointer_v<Value>) {
      EXPECT_EQ(value, nullptr);
    } else {
      seen.push_back(static_cast<int>(value));
      value = Value();
    }
  });
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 2, 3, 4}));
  EXPECT_EQ(outer.inner.numbers[2], 0);
}

// Both halves of an identity tell alone what differs in one value.
TEST(Identity, ManyThatAreAlikeDiffer) {
  std::set<Identity> seen;
  int64_t made = 0;
  for (int64_t from = 0; from < 30; ++from) {
    for (int64_t to = 0; to < 30; ++to) {
      for (int64_t bytes = 0; bytes < 30; ++bytes) {
        const Copy copy{reinterpret_cast<const void*>(from * 256),  // NOLINT: never read
                        reinterpret_cast<void*>(to * 256),          // NOLINT
                        bytes * 256};
        seen.insert(OfAllValues()(copy));
        ++made;
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), made);
}

// ---- steps --------------------------------------------------------------------------------------

TEST(Trace, TellsStepsApart) {
  const Identity first = OfAllValues()(Copy{.bytes = 1}), second = OfAllValues()(Copy{.bytes = 2});
  const int there[2] = {};
  using Step = std::function<void(Trace&)>;
  const auto launch = [](const Identity& which, Lane lane = Lane::first,
                         Begins begins = Begins::alone) {
    return Step([=](Trace& trace) { trace.launch(which, lane, begins); });
  };
  const auto upload = [&](int where, int64_t bytes, Lane lane = Lane::first) {
    return Step([=, &there](Trace& trace) { trace.upload(there + where, bytes, lane); });
  };
  const auto change = [](Lane lane) { return Step([=](Trace& trace) { trace.change(lane); }); };
  const auto join = [](Lane lane) { return Step([=](Trace& trace) { trace.join(lane); }); };
  const std::vector<std::vector<Step>> steps = {
      {},
      {launch(first)},
      {launch(second)},
      {launch(first), launch(second)},
      {launch(second), launch(first)},
      {launch(first), launch(first)},
      {launch(first, Lane::sums)},
      {launch(first, Lane::products)},
      {launch(first, Lane::first, Begins::in_chain)},
      {upload(0, 4)},
      {upload(1, 4)},
      {upload(0, 8)},
      {upload(0, 4, Lane::sums)},
      {upload(0, 4), launch(first)},
      {launch(first), upload(0, 4)},
      {change(Lane::sums)},
      {change(Lane::products)},
      {change(Lane::sums), launch(first, Lane::sums), change(Lane::first)},
      {join(Lane::first)},
      {join(Lane::sums)},
      {launch(first), join(Lane::first), launch(second)},
  };
  std::map<Trace, size_t> seen;
  for (size_t i = 0; i < steps.size(); ++i) {
    Trace trace, again;
    for (const Step& step : steps[i]) step(trace);
    for (const Step& step : steps[i]) step(again);
    EXPECT_EQ(trace, again) << "step " << i;
    const auto [at, is_new] = seen.emplace(trace, i);
    EXPECT_TRUE(is_new) << "steps " << at->second << " and " << i;
  }
}

}  // namespace
}  // namespace tril::identity_test
