// The GEMM kernels on CUDA against each other: which one is chosen must not show in any bit.
#include <cstdlib>

#include "kernels/kernel_support.h"
#include "tril/base/build.h"
#include "tril/kernels/cuda/launches.h"
#include "tril/ops/linear.h"

namespace tril::cuda_gemm_test {
namespace {

using kernels::cuda::Blas;
using kernels::cuda::Gemm;
using kernels::cuda::Orientation;
using kernels::cuda::TermsAre;
using kernels::cuda::TrialSide;

constexpr Orientation kOrientations[] = {Orientation::forward, Orientation::input_gradient,
                                         Orientation::weight_gradient};
constexpr const char* name_of(Orientation o) {
  return o == Orientation::forward          ? "forward"
         : o == Orientation::input_gradient ? "input gradient"
                                            : "weight gradient";
}
constexpr const char* kOnCuda = "products on CUDA";

// The layout of matrices: rows this many elements longer than necessary, the first this many after
// an aligned address.
struct Layout {
  int64_t room = 0;
  int64_t shift = 0;
};

// Operands on the device, and a c surrounded by memory that must not be written.
class Product {
 public:
  Gemm gemm;

  Product(Context& context, Orientation orientation, int64_t m, int64_t n, int64_t k, DType c_type,
          const Layout& layout = {})
      : context_(context), layout_(layout) {
    gemm.orientation = orientation;
    gemm.m = m;
    gemm.n = n;
    gemm.k = k;
    gemm.type = context.activations;
    gemm.c_type = c_type;
    const bool a_by_terms = kernels::cuda::terms_of_a(orientation) == TermsAre::columns;
    const bool b_by_terms = kernels::cuda::terms_of_b(orientation) == TermsAre::columns;
    a_rows = a_by_terms ? m : k;
    b_rows = b_by_terms ? n : k;
    gemm.a_stride = (a_by_terms ? k : m) + layout.room;
    gemm.b_stride = (b_by_terms ? k : n) + layout.room;
    gemm.c_stride = n + layout.room;
    c_ = context.arena.allocate_array<char>(c_bytes() + 2 * kGuard);
    gemm.c = c_ + kGuard;
  }

  // Whole numbers small enough that every sum is exact.
  void fill_with_integers(Random& random) {
    const auto integers = [&](int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) value = std::floor(random.uniform(-4.0f, 5.0f));
      return values;
    };
    a = integers(a_rows * gemm.a_stride);
    b = integers(b_rows * gemm.b_stride);
    bias = integers(gemm.n);
    gemm.a = uploaded(a);
    gemm.b = uploaded(b);
    gemm.bias = gemm.orientation == Orientation::forward ? uploaded(bias) : nullptr;
  }
  void fill_for_trial() {
    const auto filled = [&](TrialSide side, TermsAre terms, int64_t rows, int64_t stride) {
      auto* to = context_.arena.allocate_array<BFloat16>(rows * stride + layout_.shift);
      context_.launch(kernels::cuda::fill_trial, {.side = side,
                                                  .terms = terms,
                                                  .rows = rows,
                                                  .columns = stride,
                                                  .to = to + layout_.shift});
      return to + layout_.shift;
    };
    gemm.a =
        filled(TrialSide::a, kernels::cuda::terms_of_a(gemm.orientation), a_rows, gemm.a_stride);
    gemm.b =
        filled(TrialSide::b, kernels::cuda::terms_of_b(gemm.orientation), b_rows, gemm.b_stride);
    if (gemm.orientation == Orientation::forward) {
      gemm.bias = filled(TrialSide::b, TermsAre::rows, 1, gemm.n);
    }
  }

  // c as our own kernels leave it.
  std::vector<uint32_t> own_result() {
    return result([&] { context_.launch(kernels::cuda::gemm_own, gemm); });
  }
  // c as what `multiply` launches leaves it, as bits, after checking the memory around it.
  template <class F>
  std::vector<uint32_t> result(const F& multiply) {
    std::vector<char> bytes(static_cast<size_t>(c_bytes() + 2 * kGuard), kMark);
    copy(Device::cuda(), c_, Device::cpu, bytes.data(), std::ssize(bytes));
    multiply();
    context_.queue.wait();
    copy(Device::cpu, bytes.data(), Device::cuda(), c_, std::ssize(bytes));
    for (int64_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(bytes[i], kMark) << "written before c";
      EXPECT_EQ(bytes[bytes.size() - 1 - i], kMark) << "written behind c";
    }
    std::vector<uint32_t> bits;
    for (int64_t row = 0; row < gemm.m; ++row) {
      for (int64_t column = 0; column < gemm.c_stride; ++column) {
        uint32_t value = 0;
        const int64_t size = size_of(gemm.c_type);
        std::memcpy(&value, bytes.data() + kGuard + (row * gemm.c_stride + column) * size, size);
        if (column < gemm.n) {
          bits.push_back(value);
        } else {
          EXPECT_EQ(value, size == 4 ? 0xa5a5a5a5u : 0xa5a5u) << "written behind row " << row;
        }
      }
    }
    return bits;
  }

  int64_t a_rows = 0, b_rows = 0;
  std::vector<float> a, b, bias;

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr char kMark = static_cast<char>(0xa5);

  int64_t c_bytes() const { return gemm.m * gemm.c_stride * size_of(gemm.c_type); }
  const void* uploaded(const std::vector<float>& values) {
    std::vector<float> shifted(static_cast<size_t>(layout_.shift));
    shifted.insert(shifted.end(), values.begin(), values.end());
    const Tensor tensor = testing::activations_of(context_, {std::ssize(shifted)}, shifted);
    return static_cast<const char*>(tensor.raw()) + layout_.shift * size_of(context_.activations);
  }

  Context& context_;
  Layout layout_;
  char* c_ = nullptr;
};

// The first that differs, by row and column; two that are not numbers are equal.
::testing::AssertionResult same(const Gemm& p, std::span<const uint32_t> actual,
                                std::span<const uint32_t> expected) {
  const uint32_t infinity = p.c_type == DType::f32 ? 0x7f800000u : 0x7f80u;
  const uint32_t sign = p.c_type == DType::f32 ? 0x80000000u : 0x8000u;
  int64_t differing = 0;
  std::string first;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool no_numbers = (actual[i] & ~sign) > infinity && (expected[i] & ~sign) > infinity;
    if (actual[i] == expected[i] || no_numbers) continue;
    if (differing++ == 0) {
      first =
          concat("row ", static_cast<int64_t>(i) / p.n, ", column ", static_cast<int64_t>(i) % p.n,
                 ": bits ", uint64_t{actual[i]}, ", expected ", uint64_t{expected[i]});
    }
  }
  if (differing == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << differing << " of " << expected.size() << " differ, the first at " << first;
}

std::vector<uint32_t> exact(const Product& p) {
  const Gemm& g = p.gemm;
  std::vector<uint32_t> bits;
  for (int64_t row = 0; row < g.m; ++row) {
    for (int64_t column = 0; column < g.n; ++column) {
      float sum = 0.0f;
      for (int64_t i = 0; i < g.k; ++i) {
        sum += (g.orientation == Orientation::weight_gradient ? p.a[i * g.a_stride + row]
                                                              : p.a[row * g.a_stride + i]) *
               (g.orientation == Orientation::forward ? p.b[column * g.b_stride + i]
                                                      : p.b[i * g.b_stride + column]);
      }
      if (g.bias != nullptr) sum += p.bias[column];
      bits.push_back(g.c_type == DType::f32 ? std::bit_cast<uint32_t>(sum + 0.0f)
                                            : uint32_t{to_bf16(sum + 0.0f).bits});
    }
  }
  return bits;
}

// Whole numbers, whose sums are exact in every order: a fault of indexes, and nothing else, shows.
// Sizes on both sides of every tile, aligned and not.
TEST(CudaGemm, SumsOfWholeNumbersAreExact) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if constexpr (kCudaBuilt) {
    Random random(1);
    Context context(1, Placement(Device::cuda(), testing::activations()));
    struct Sizes {
      int64_t m, n, k;
    };
    for (const auto& [m, n, k] :
         {Sizes{1, 1, 1}, Sizes{1, 512, 512}, Sizes{4, 2048, 520}, Sizes{8, 48, 1096},
          Sizes{17, 100, 16}, Sizes{33, 17, 200}, Sizes{64, 64, 64}, Sizes{64, 200, 72},
          Sizes{65, 64, 80}, Sizes{70, 130, 200}, Sizes{129, 127, 264}, Sizes{5, 9, 0},
          Sizes{40, 8600, 24}, Sizes{1, 8600, 24}, Sizes{1500, 1500, 40}, Sizes{300, 33, 37}}) {
      for (const Orientation orientation : kOrientations) {
        for (const Layout& layout : {Layout{}, Layout{8, 0}, Layout{3, 1}}) {
          for (const DType c_type : {testing::activations(), DType::f32}) {
            context.reset();
            Product p(context, orientation, m, n, k, c_type, layout);
            p.fill_with_integers(random);
            ASSERT_TRUE(same(p.gemm, p.own_result(), exact(p)))
                << name_of(orientation) << " " << m << " x " << n << " x " << k << ", room "
                << layout.room << ", shift " << layout.shift << ", c of " << to_string(c_type);
          }
        }
      }
    }
  }
}

// fp32 is the chain that the contract names, one std::fma after the other.
TEST(CudaGemm, IsOneAscendingChainInFp32) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if (testing::activations() != DType::f32) GTEST_SKIP() << "of fp32";
  if constexpr (kCudaBuilt) {
    Random random(2);
    Context context(1, Placement(Device::cuda(), DType::f32));
    for (const Orientation orientation : kOrientations) {
      context.reset();
      Product p(context, orientation, 70, 67, 150, DType::f32);
      p.a = testing::random_floats(random, p.a_rows * p.gemm.a_stride);
      p.b = testing::random_floats(random, p.b_rows * p.gemm.b_stride);
      p.gemm.a = testing::activations_of(context, {std::ssize(p.a)}, p.a).raw();
      p.gemm.b = testing::activations_of(context, {std::ssize(p.b)}, p.b).raw();
      std::vector<uint32_t> expected;
      for (int64_t i = 0; i < p.gemm.m * p.gemm.n; ++i) {
        const int64_t row = i / p.gemm.n, column = i % p.gemm.n;
        float sum = 0.0f;
        for (int64_t t = 0; t < p.gemm.k; ++t) {
          const bool a_down = orientation == Orientation::weight_gradient;
          const bool b_down = orientation != Orientation::forward;
          sum = std::fma(p.a[a_down ? t * p.gemm.a_stride + row : row * p.gemm.a_stride + t],
                         p.b[b_down ? t * p.gemm.b_stride + column : column * p.gemm.b_stride + t],
                         sum);
        }
        if (orientation == Orientation::weight_gradient) sum += 0.0f;
        expected.push_back(std::bit_cast<uint32_t>(sum));
      }
      EXPECT_TRUE(same(p.gemm, p.own_result(), expected)) << name_of(orientation);
    }
  }
}

// On numbers on which different orders give different sums: few rows, tiles, and rows read element
// by element; the outputs of a layer, and those of a vocabulary.
TEST(CudaGemm, OurKernelsAgreeOnAdversarialNumbers) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if (testing::activations() != DType::bf16) GTEST_SKIP() << "of bf16";
  if constexpr (kCudaBuilt) {
    Context context(1, Placement(Device::cuda(), DType::bf16));
    struct Sizes {
      int64_t n, k;
    };
    for (const auto c_type : {DType::bf16, DType::f32}) {
      for (const auto& [n, k] :
           {Sizes{264, 64}, Sizes{264, 200}, Sizes{264, 512}, Sizes{264, 2048}, Sizes{16384, 64},
            Sizes{20008, 200}, Sizes{16411, 512}, Sizes{17000, 1024}}) {
        context.reset();
        Product whole(context, Orientation::forward, 300, n, k, c_type);  // tiles
        whole.fill_for_trial();
        const auto expected = whole.own_result();
        for (const int64_t rows : {1, 7, 8, 9, 16, 17, 32, 33, 63, 64}) {  // few rows
          Product few(context, Orientation::forward, rows, n, k, c_type);
          few.gemm.a = static_cast<const BFloat16*>(whole.gemm.a) + 100 * k;
          few.gemm.b = whole.gemm.b;
          few.gemm.bias = whole.gemm.bias;
          ASSERT_TRUE(
              same(few.gemm, few.own_result(), std::span(expected).subspan(100 * n, rows * n)))
              << rows << " rows, n " << n << ", k " << k;
        }
        Product shifted(context, Orientation::forward, 300, n, k, c_type, {0, 1});
        shifted.fill_for_trial();  // element by element, the same numbers
        shifted.gemm.bias = whole.gemm.bias;
        EXPECT_TRUE(same(shifted.gemm, shifted.own_result(), expected)) << "k " << k;
      }
    }
  }
}

// A product and its transpose have the same bits: the operands are treated equally.
TEST(CudaGemm, OperandsAreInterchangeable) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if (testing::activations() != DType::bf16) GTEST_SKIP() << "of bf16";
  if constexpr (kCudaBuilt) {
    Context context(1, Placement(Device::cuda(), DType::bf16));
    Product p(context, Orientation::forward, 200, 136, 520, DType::f32);
    p.fill_for_trial();
    p.gemm.bias = nullptr;
    const auto c = p.own_result();
    Product q(context, Orientation::forward, 136, 200, 520, DType::f32);
    q.gemm.a = p.gemm.b;
    q.gemm.b = p.gemm.a;
    const auto turned = q.own_result();
    std::vector<uint32_t> back;
    for (int64_t row = 0; row < 200; ++row) {
      for (int64_t column = 0; column < 136; ++column) back.push_back(turned[column * 200 + row]);
    }
    EXPECT_TRUE(same(p.gemm, back, c));
  }
}

// The numbers distinguish orders: if k were split in two, they would not agree.
TEST(CudaGemm, AdversarialNumbersTellSplitSumsApart) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if (testing::activations() != DType::bf16) GTEST_SKIP() << "of bf16";
  if constexpr (kCudaBuilt) {
    Context context(1, Placement(Device::cuda(), DType::bf16));
    Product p(context, Orientation::forward, 128, 128, 512, DType::f32);
    p.fill_for_trial();
    p.gemm.bias = nullptr;
    const auto whole = p.own_result();
    const auto split = p.result([&] {
      Gemm half = p.gemm;
      half.k = 256;
      context.launch(kernels::cuda::gemm_own, half);
      half.a = static_cast<const BFloat16*>(half.a) + 256;
      half.b = static_cast<const BFloat16*>(half.b) + 256;
      half.adds = true;
      context.launch(kernels::cuda::gemm_own, half);
    });
    EXPECT_FALSE(same(p.gemm, split, whole));
    int64_t numbers = 0, differing = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      numbers += (whole[i] & 0x7fffffffu) <= 0x7f800000u;
      differing += whole[i] != split[i];
    }
    EXPECT_GT(numbers, std::ssize(whole) / 2);
    EXPECT_GT(differing, std::ssize(whole) / 10);
  }
}

// cuBLASLt is only used where it gives our bits: on the shapes of models, around the numbers of
// rows at which tiles end, with and without a bias, for both types of c.
TEST(CudaGemm, WhatIsChosenGivesOurBits) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if (testing::activations() != DType::bf16) GTEST_SKIP() << "of bf16";
  if constexpr (kCudaBuilt) {
    Context context(1, Placement(Device::cuda(), DType::bf16));
    Blas blas;
    struct Sizes {
      int64_t n, k;
    };
    enum class Last { nothing, something };  // done to a sum: ReLU of it, or it is added to c
    for (const auto& [n, k] :
         {Sizes{64, 64}, Sizes{512, 512}, Sizes{2048, 512}, Sizes{512, 2048}, Sizes{1536, 512},
          Sizes{1024, 4096}, Sizes{8000, 512}, Sizes{200, 72}}) {
      for (const int64_t m : {65, 96, 128, 129, 250, 300, 1000, 4100}) {
        if (m * n > 10'000'000) continue;  // beyond this the host would take seconds
        for (const auto orientation : {Orientation::forward, Orientation::input_gradient}) {
          for (const auto& [c_type, last] : {std::pair{DType::bf16, Last::nothing},
                                             {DType::f32, Last::nothing},
                                             {DType::bf16, Last::something}}) {
            context.reset();
            Product p(context, orientation, m, n, k, c_type);
            p.fill_for_trial();
            p.gemm.relu = last == Last::something && orientation == Orientation::forward;
            p.gemm.adds = last == Last::something && orientation == Orientation::input_gradient;
            const auto theirs = p.result(
                [&] { context.launch(kernels::cuda::multiply, {.blas = &blas, .gemm = p.gemm}); });
            const auto ours = p.own_result();
            ASSERT_TRUE(same(p.gemm, theirs, ours))
                << name_of(orientation) << " " << m << " x " << n << " x " << k << ", c of "
                << to_string(c_type) << (last == Last::something ? ", ReLU or a sum" : "");
          }
        }
      }
    }
    const Blas::Counts counts = blas.counts();
    std::printf("kinds of products by cuBLASLt: %ld, ours: %ld; algorithms with other bits: %ld\n",
                counts.chosen, counts.refused, counts.differing);
    EXPECT_GT(counts.chosen, 0) << "cuBLASLt was not found, or nothing of it passed";
  }
}

// A step kept as a graph gives the same result as when it was walked; and a step with another
// weight of the same size is a different step.
TEST(CudaGemm, KeptStepsGiveTheSameBits) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  if constexpr (kCudaBuilt) {
    Random random(3);
    Arena arena(Device::cuda());
    Context context(1, Placement(Device::cuda(), testing::activations()));
    for (const int64_t rows : {3, 3, 200, 200}) {  // each with its own weight
      ops::LinearWeight linear =
          ops::linear_weight(testing::random_tensor(arena, {192, 128}, random),
                             testing::random_tensor(arena, {192}, random));
      testing::pack(context, linear, arena);
      Arena host;
      const Tensor x(arena, {rows, 128}, testing::activations());
      copy_into(testing::random_tensor(host, {rows, 128}, random), x);
      Tensor y, dx, dw;
      const auto walk = [&] {
        const Arena::Scope again(context.arena);  // it may be walked twice
        y = ops::linear(context, x, linear);
        dx = ops::linear_input_gradient(context, y, linear);
        dw = ops::linear_weight_gradient(context, y, x);
      };
      const auto results = [&] {
        std::vector<float> all;
        for (const Tensor& each : {y, dx, dw}) {
          const std::vector<float> values = testing::floats_of(each);
          all.insert(all.end(), values.begin(), values.end());
        }
        return all;
      };
      walk();
      const std::vector<float> expected = results();
      for (int i = 0; i < 5; ++i) {
        context.reset();
        context.queue.step(walk);
        ASSERT_TRUE(testing::same_bits(results(), expected))
            << "walk " << i << ", " << rows << " rows";
      }
    }
    EXPECT_EQ(context.queue.graphs(), 4);
  }
}

TEST(CudaGemm, TheEnvironmentNamesTheProducts) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << kOnCuda;
  Random random(4);
  setenv("TRIL_CUDA_PRODUCTS", "fast", 1);
  Context context(1, Placement(Device::cuda(), testing::activations()));
  const auto raised = testing::raised_by([&] {
    const ops::LinearWeight linear =
        ops::linear_weight(testing::random_tensor(context.arena, {8, 8}, random));
    ops::linear(context, testing::activations_of(context, {1, 8}, std::vector<float>(8)), linear);
  });
  unsetenv("TRIL_CUDA_PRODUCTS");
  EXPECT_EQ(raised.text, "TRIL_CUDA_PRODUCTS: expected verified, own or free, got fast");
}

}  // namespace
}  // namespace tril::cuda_gemm_test
