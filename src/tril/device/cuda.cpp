#include "tril/device/cuda.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "tril/base/error.h"

namespace tril::cuda {
namespace {

constexpr int kLeastCapability = 80;

// After one of these errors the driver fails every further call of this process; another process
// can start afresh.
bool is_lost(cudaError_t error) {
  switch (error) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call is not blamed for it
  const char* text = cudaGetErrorString(error);
  require(error != cudaErrorMemoryAllocation, ErrorCode::out_of_memory,
          "out of memory on cuda: ", what);
  require(!is_lost(error), ErrorCode::device, "cuda: the GPU was lost (", what, ": ", text,
          "): nvidia-smi and the system's log may say why");
  fail(ErrorCode::device, "cuda: ", what, ": ", text);
}

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

// Whether a test makes this call fail: the `at`-th of its kind, and all later ones.
bool goes_wrong(Fault kind, std::atomic<int64_t>& calls) {
  const InjectedFault& fault = injected_fault();
  return fault.kind == kind && ++calls >= fault.at;
}

// Counts a launch.
void count_launch(Stream stream) {
  static std::atomic<int64_t> launches{0};
  if (goes_wrong(Fault::lost_device, launches)) lose(stream);
}

// The driver refuses to wait for the whole device while a stream is captured, and spoils the
// capture. So a capture, during which only the host works, and such a wait exclude each other,
// whatever threads they are on.
std::shared_mutex captures;          // shared by captures, exclusive for waits
thread_local int captures_here = 0;  // of this thread

void end_of_capture() {
  --captures_here;
  captures.unlock_shared();
}

// For all that was enqueued on any stream, and then f(), and for that too.
template <class F>
void after_everything(const F& f) {
  require(captures_here == 0, ErrorCode::internal, "queue: a step may not wait");
  const std::lock_guard alone(captures);
  check(cudaDeviceSynchronize(), "the device's work");
  f();
  check(cudaDeviceSynchronize(), "a copy");
}

std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

// What the runtime says about driver and card.
struct Answers {
  int driver = 0;  // its version; 0: none
  cudaError_t counted = cudaSuccess;
  int cards = 0;
  cudaError_t described = cudaSuccess;
  cudaDeviceProp card{};
};

Answers ask() {
  Answers answers;
  if (cudaDriverGetVersion(&answers.driver) != cudaSuccess) answers.driver = 0;
  if (answers.driver != 0) answers.counted = cudaGetDeviceCount(&answers.cards);
  if (answers.counted == cudaSuccess && answers.cards > 0) {
    answers.described = cudaGetDeviceProperties(&answers.card, 0);
  }
  cudaGetLastError();
  return answers;
}

// What it would report with this fault.
Answers pretend(Fault fault) {
  Answers answers;
  answers.driver = fault == Fault::no_driver ? 0 : fault == Fault::old_driver ? 12040 : 13000;
  if (fault == Fault::old_driver) answers.counted = cudaErrorInsufficientDriver;
  if (fault == Fault::no_card) answers.counted = cudaErrorNoDevice;
  if (fault == Fault::old_card) {
    answers.cards = 1;
    std::strcpy(answers.card.name, "Tesla V100-SXM2-16GB");
    answers.card.major = 7;
  }
  return answers;
}

// Why there is no card to use, one line; empty: there is one.
std::string problem_with(const Answers& answers) {
  const cudaDeviceProp& card = answers.card;
  if (answers.driver == 0) {
    return concat("cuda: no NVIDIA driver on this machine: install one for CUDA ",
                  version(CUDART_VERSION), " or later");
  }
  if (answers.counted == cudaErrorInsufficientDriver) {
    return concat("cuda: the driver is too old: it knows CUDA ", version(answers.driver),
                  ", this program needs ", version(CUDART_VERSION), ": install a newer one");
  }
  if (answers.counted == cudaErrorNoDevice || (answers.counted == cudaSuccess && !answers.cards)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr
               ? "cuda: no NVIDIA GPU on this machine"
               : concat("cuda: no NVIDIA GPU visible: CUDA_VISIBLE_DEVICES is '", visible, "'");
  }
  for (const cudaError_t error : {answers.counted, answers.described}) {
    if (error != cudaSuccess) return concat("cuda: ", cudaGetErrorString(error));
  }
  if (10 * card.major + card.minor < kLeastCapability) {
    return concat("cuda: ", card.name, " has compute capability ", card.major, ".", card.minor,
                  ", this program needs ", kLeastCapability / 10, ".", kLeastCapability % 10,
                  " or later");
  }
  return "";
}

}  // namespace

CudaCard find_card(const InjectedFault& fault) {
  const bool pretended = fault.kind != Fault::none && fault.at == 0;
  const Answers answers = pretended ? pretend(fault.kind) : ask();
  CudaCard card;
  card.problem = problem_with(answers);
  card.usable = card.problem.empty();
  card.driver = answers.driver;
  card.name = answers.card.name;
  card.capability = 10 * answers.card.major + answers.card.minor;
  card.multiprocessors = answers.card.multiProcessorCount;
  card.memory_bytes = static_cast<int64_t>(answers.card.totalGlobalMem);
  const char* portable = std::getenv("TRIL_CUDA_PORTABLE");
  const bool turned_off = portable != nullptr && std::string_view(portable) == "1";
  card.hopper = card.capability == 90 && !turned_off;
  return card;
}

void* allocate(int64_t bytes) {
  static std::atomic<int64_t> blocks{0};
  void* memory = nullptr;
  const cudaError_t error = goes_wrong(Fault::memory, blocks)
                                ? cudaErrorMemoryAllocation
                                : cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail(ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes on cuda, ", free, " of ",
         total, " are free: smaller batches need less, and other programs may hold some");
  }
  check(error, "memory");
  return memory;
}
// A failure here has been told by the call that caused it.
void release(void* memory) { static_cast<void>(cudaFree(memory)); }

void* allocate_pinned(int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
  require(error != cudaErrorMemoryAllocation, ErrorCode::out_of_memory, "out of memory: ", bytes,
          " bytes of pinned memory");
  check(error, "pinned memory");
  return memory;
}
void release_pinned(void* memory) { static_cast<void>(cudaFreeHost(memory)); }

Stream make_stream(Urgency urgency) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "a stream");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     urgency == Urgency::urgent ? greatest : least),
        "a stream");
  return {stream};
}
void drop_stream(Stream stream) { static_cast<void>(cudaStreamDestroy(of(stream))); }
void settle(Stream stream) { static_cast<void>(cudaStreamSynchronize(of(stream))); }
void wait(Stream stream) { check(cudaStreamSynchronize(of(stream)), "the device's work"); }
void check_launch(Stream stream) {
  check(cudaGetLastError(), "starting a kernel");
  count_launch(stream);
}

void copy_async(Stream stream, void* to, const void* from, int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, of(stream)),
        "a copy");
}
void copy_rows_async(Stream stream, void* to, const void* from, int64_t step, int64_t bytes,
                     int64_t rows) {
  check(cudaMemcpy2DAsync(to, static_cast<size_t>(bytes), from, static_cast<size_t>(step),
                          static_cast<size_t>(bytes), static_cast<size_t>(rows), cudaMemcpyDefault,
                          of(stream)),
        "a copy");
}
void copy_and_wait(void* to, const void* from, int64_t bytes) {
  after_everything([&] {
    check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "a copy");
  });
}

void zero_and_wait(void* memory, int64_t bytes) {
  after_everything(
      [&] { check(cudaMemset(memory, 0, static_cast<size_t>(bytes)), "setting memory to zero"); });
}

void* make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}
void drop_event(void* event) {
  static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}
void record(void* event, Stream stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), of(stream)), "an event");
}
void wait_for(void* event) {
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "the device's work");
}
void let_wait(Stream stream, void* event) {
  check(cudaStreamWaitEvent(of(stream), static_cast<cudaEvent_t>(event), 0), "an event");
}

void begin_capture(Stream stream) {
  captures.lock_shared();
  ++captures_here;
  const cudaError_t error = cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) end_of_capture();
  check(error, "capturing a step");
}
void* end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(of(stream), &graph);
  end_of_capture();
  check(ended, "capturing a step");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "a step's graph");
  return ready;
}
void abandon_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(of(stream), &graph);
  end_of_capture();
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}
void launch_graph(void* graph, Stream stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), of(stream)), "a step's graph");
  count_launch(stream);
}
void drop_graph(void* graph) {
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace tril::cuda
