// Where CUDA is not built in: there is no card, and nothing here is reached.
#include "tril/base/error.h"
#include "tril/device/cuda.h"

namespace tril::cuda {
namespace {
[[noreturn]] void absent() { fail(ErrorCode::device, "cuda: not built into this program"); }
}  // namespace

CudaCard find_card(const InjectedFault&) {
  return {.problem = "cuda: not built into this program: when it was, " TRIL_NO_CUDA_BECAUSE,
          .name = {}};
}
void* allocate(int64_t) { absent(); }
void release(void*) { absent(); }
void* allocate_pinned(int64_t) { absent(); }
void release_pinned(void*) { absent(); }
Stream make_stream(Urgency) { absent(); }
void drop_stream(Stream) { absent(); }
void wait(Stream) { absent(); }
void settle(Stream) { absent(); }
void check_launch(Stream) { absent(); }
void lose(Stream) { absent(); }
void copy_async(Stream, void*, const void*, int64_t) { absent(); }
void copy_rows_async(Stream, void*, const void*, int64_t, int64_t, int64_t) { absent(); }
void copy_and_wait(void*, const void*, int64_t) { absent(); }
void zero_and_wait(void*, int64_t) { absent(); }
void* make_event() { absent(); }
void drop_event(void*) { absent(); }
void record(void*, Stream) { absent(); }
void wait_for(void*) { absent(); }
void let_wait(Stream, void*) { absent(); }
void begin_capture(Stream) { absent(); }
void* end_capture(Stream) { absent(); }
void abandon_capture(Stream) { absent(); }
void launch_graph(void*, Stream) { absent(); }
void drop_graph(void*) { absent(); }

}  // namespace tril::cuda
