#include "tril/base/parallel.h"

#include <omp.h>

#include "tril/base/error.h"

namespace tril {
namespace {

// Rounds to nearest and keeps subnormals while it lives, whatever the calling program has set for
// itself, in the thread it lives in. Anything else would be another function with other bits.
class StandardRounding {
 public:
#if defined(__x86_64__)
  StandardRounding() : before_(__builtin_ia32_stmxcsr()) {
    // Flush-to-zero, both rounding bits, denormals-are-zero.
    constexpr unsigned kChangesResults = 0x8000u | 0x6000u | 0x0040u;
    changed_ = (before_ & kChangesResults) != 0;
    if (changed_) __builtin_ia32_ldmxcsr(before_ & ~kChangesResults);
  }
  ~StandardRounding() {
    if (changed_) __builtin_ia32_ldmxcsr(before_);
  }

 private:
  unsigned before_;
  bool changed_;
#else
  StandardRounding() {}
#endif
  StandardRounding(const StandardRounding&) = delete;
  StandardRounding& operator=(const StandardRounding&) = delete;
};

}  // namespace

Parallel::Parallel(int threads) : threads_(threads == 0 ? omp_get_num_procs() : threads) {
  require(threads_ >= 1 && threads_ <= 1024, ErrorCode::invalid_argument, "threads: ", threads,
          " is not between 1 and 1024 (0 takes all cores)");
}

void Parallel::run(int64_t tasks, const void* body, Body call) const {
  if (threads_ == 1 || tasks <= 1 || omp_in_parallel() != 0) {
    const StandardRounding rounding;
    for (int64_t task = 0; task < tasks; ++task) call(body, task, 0);
    return;
  }
  const int team = static_cast<int>(tasks < threads_ ? tasks : threads_);
#pragma omp parallel num_threads(team)
  {
    const StandardRounding rounding;
    const int worker = omp_get_thread_num();
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t task = 0; task < tasks; ++task) call(body, task, worker);
  }
}

}  // namespace tril
