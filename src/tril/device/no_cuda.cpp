// For builds without CUDA: there is no GPU, and nothing else here is reached.
#include "tril/base/error.h"
#include "tril/device/cuda.h"

namespace tril::cuda {
namespace {
[[noreturn]] void absent() { fail(ErrorCode::device, "cuda: not built into this program"); }
}  // namespace

Gpus find_gpus(const InjectedFault&) {
  return {.problem = "cuda: not built into this program: when it was, " TRIL_NO_CUDA_BECAUSE};
}
void use(int) { absent(); }
void* allocate(int, int64_t) { absent(); }
void release(int, void*) { absent(); }
void* allocate_pinned(int, int64_t) { absent(); }
void release_pinned(int, void*) { absent(); }
Stream make_stream(int, Urgency) { absent(); }
void drop_stream(Stream) { absent(); }
void wait(Stream) { absent(); }
void settle(Stream) { absent(); }
void check_launch(Stream) { absent(); }
void lose(Stream) { absent(); }
void copy_async(Stream, void*, const void*, int64_t) { absent(); }
void copy_rows_async(Stream, void*, const void*, int64_t, int64_t, int64_t) { absent(); }
void copy_and_wait(int, void*, int, const void*, int64_t) { absent(); }
void zero_and_wait(int, void*, int64_t) { absent(); }
void* make_event(int) { absent(); }
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
