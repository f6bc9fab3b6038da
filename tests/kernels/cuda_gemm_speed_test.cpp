// How fast products on CUDA are, and what their promise costs: a table, printed on request
// (--gtest_also_run_disabled_tests --gtest_filter='*Speed*').
#include <algorithm>
#include <cstdio>

#include "kernels/kernel_support.h"
#include "tril/base/build.h"
#include "tril/base/clock.h"
#include "tril/kernels/cuda/launches.h"

namespace tril::cuda_gemm_speed_test {
namespace {

using kernels::cuda::Blas;
using kernels::cuda::Gemm;
using kernels::cuda::Orientation;

struct Work {
  const char* name;
  Orientation orientation;
  int64_t m, n, k;
  DType c_type;
};

// Microseconds per product, in a graph of many, with different weights each time: more than L2
// holds.
double microseconds(const Work& work, Blas::Policy policy) {
  double best = 0.0;
  if constexpr (kCudaBuilt) {
    constexpr int64_t kBytes = int64_t{256} << 20;
    const bool a_down = work.orientation == Orientation::weight_gradient;
    const int64_t weight = work.n * work.k;
    const int64_t count = std::clamp(kBytes / (2 * weight), int64_t{4}, int64_t{200});
    Arena arena(Device::cuda());
    Context context(1, {Device::cuda(), DType::bf16});
    Blas blas(policy);
    auto* a = arena.allocate_array<BFloat16>(work.m * work.k);
    auto* b = arena.allocate_array<BFloat16>(count * weight);
    auto* c = arena.allocate_array<float>(work.m * work.n);
    // Ordinary numbers: how much power products draw depends on them, and so the clock.
    const auto fill = [&](kernels::cuda::TrialSide side, int64_t size, BFloat16* to) {
      for (int64_t at = 0; at < size; at += 4096) {
        context.launch(kernels::cuda::fill_trial, {.side = side,
                                                   .terms = kernels::cuda::TermsAre::columns,
                                                   .rows = 1,
                                                   .columns = std::min<int64_t>(4096, size - at),
                                                   .to = to + at});
      }
    };
    fill(kernels::cuda::TrialSide::a, std::min<int64_t>(work.m * work.k, 1 << 24), a);
    fill(kernels::cuda::TrialSide::b, std::min<int64_t>(count * weight, 1 << 24), b);
    for (int round = 0; round < 8; ++round) {
      context.reset();
      context.queue.wait();
      const Stopwatch watch;
      context.queue.step([&] {
        for (int64_t i = 0; i < count; ++i) {
          const Gemm gemm{.orientation = work.orientation,
                          .m = work.m,
                          .n = work.n,
                          .k = work.k,
                          .type = DType::bf16,
                          .a = a,
                          .a_stride = a_down ? work.m : work.k,
                          .b = b + i * weight,
                          .b_stride = work.orientation == Orientation::forward ? work.k : work.n,
                          .bias = nullptr,
                          .c = c,
                          .c_stride = work.n,
                          .c_type = work.c_type,
                          .adds = false};
          context.launch(kernels::cuda::multiply, {.blas = &blas, .gemm = gemm});
        }
      });
      context.queue.wait();
      const double taken = 1e6 * watch.seconds() / static_cast<double>(count);
      if (round >= 4) best = round == 4 ? taken : std::min(best, taken);
    }
  }
  return best;
}

TEST(CudaGemmSpeed, DISABLED_Table) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "products on CUDA";
  constexpr auto kForward = Orientation::forward;
  std::printf("%-28s %12s %12s %12s   %s\n", "", "own, us", "verified, us", "free, us",
              "verified reaches");
  for (const Work& work :
       {Work{"row 1, 512 x 512", kForward, 1, 512, 512, DType::bf16},
        Work{"row 1, 2048 x 512", kForward, 1, 2048, 512, DType::bf16},
        Work{"row 1, 512 x 2048", kForward, 1, 512, 2048, DType::bf16},
        Work{"row 1, 61952 x 512", kForward, 1, 61952, 512, DType::f32},
        Work{"rows 4, 61952 x 512", kForward, 4, 61952, 512, DType::f32},
        Work{"rows 32, 512 x 512", kForward, 32, 512, 512, DType::bf16},
        Work{"rows 32, 2048 x 512", kForward, 32, 2048, 512, DType::bf16},
        Work{"rows 32, 61952 x 512", kForward, 32, 61952, 512, DType::f32},
        Work{"rows 64, 512 x 2048", kForward, 64, 512, 2048, DType::bf16},
        Work{"rows 64, 61952 x 512", kForward, 64, 61952, 512, DType::f32},
        Work{"rows 256, 512 x 512", kForward, 256, 512, 512, DType::bf16},
        Work{"rows 256, 61952 x 512", kForward, 256, 61952, 512, DType::f32},
        Work{"rows 24576, 512 x 512", kForward, 24576, 512, 512, DType::bf16},
        Work{"rows 24576, 2048 x 512", kForward, 24576, 2048, 512, DType::bf16},
        Work{"rows 24576, 512 x 2048", kForward, 24576, 512, 2048, DType::bf16},
        Work{"rows 2048, 61952 x 512", kForward, 2048, 61952, 512, DType::f32},
        Work{"dx 24576, 512 x 2048", Orientation::input_gradient, 24576, 512, 2048, DType::bf16},
        Work{"dx 2048, 512 x 61952", Orientation::input_gradient, 2048, 512, 61952, DType::bf16},
        Work{"dW 512 x 512, 24576", Orientation::weight_gradient, 512, 512, 24576, DType::f32},
        Work{"dW 2048 x 512, 24576", Orientation::weight_gradient, 2048, 512, 24576, DType::f32}}) {
    const double own = microseconds(work, Blas::Policy::own);
    const double verified = microseconds(work, Blas::Policy::verified);
    const double free = microseconds(work, Blas::Policy::free);
    const auto terms = static_cast<double>(work.m * work.n) * static_cast<double>(work.k);
    const auto bytes = 2.0 * static_cast<double>(work.n * work.k + work.m * work.k) +
                       static_cast<double>(work.m * work.n * size_of(work.c_type));
    std::printf("%-28s %12.2f %12.2f %12.2f   %.0f GB/s, %.0f TFLOP/s\n", work.name, own, verified,
                free, 1e-3 * bytes / verified, 2e-6 * terms / verified);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tril::cuda_gemm_speed_test
