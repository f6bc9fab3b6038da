#include "tril/base/parallel.h"

#include <omp.h>

#include "tril/base/error.h"
#include "tril/base/rounding.h"

namespace tril {
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
