#include "tril/device/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <vector>

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

// Checks first, because setting the GPU that is already current costs more.
cudaError_t make_current(int gpu) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == gpu) return cudaSuccess;
  return cudaSetDevice(gpu);
}
// For functions that cannot raise: a failure here was already reported by the call that caused it.
void make_current_quietly(int gpu) { static_cast<void>(make_current(gpu)); }

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
// Makes its GPU current.
cudaStream_t current(Stream stream) {
  use(stream.gpu);
  return of(stream);
}

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

void wait_for_all(int gpu, std::string_view what) {
  use(gpu);
  check(cudaDeviceSynchronize(), what);
}

// Waits for everything enqueued on any stream of these two GPUs, or one, then for f().
template <class F>
void after_everything(int gpu, int other, const F& f) {
  require(captures_here == 0, ErrorCode::internal, "queue: a step may not wait");
  const std::lock_guard alone(captures);
  if (other != gpu) wait_for_all(other, "the device's work");
  wait_for_all(gpu, "the device's work");
  f();
  wait_for_all(gpu, "a copy");
  if (other != gpu) wait_for_all(other, "a copy");
}

std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

// What the runtime reports about one GPU.
struct Described {
  cudaError_t error = cudaSuccess;
  cudaDeviceProp facts{};
};
// What it reports about driver and GPUs.
struct Answers {
  int driver = 0;  // its version; 0: none
  cudaError_t counted = cudaSuccess;
  std::vector<Described> gpus{};
};

Answers ask() {
  Answers answers;
  if (cudaDriverGetVersion(&answers.driver) != cudaSuccess) answers.driver = 0;
  int count = 0;
  if (answers.driver != 0) answers.counted = cudaGetDeviceCount(&count);
  count = answers.counted == cudaSuccess ? std::min(count, kMostGpus) : 0;
  for (int gpu = 0; gpu < count; ++gpu) {
    Described& described = answers.gpus.emplace_back();
    described.error = cudaGetDeviceProperties(&described.facts, gpu);
  }
  cudaGetLastError();
  return answers;
}

// What it would report with this fault.
Answers pretend(Fault fault) {
  Answers answers;
  answers.driver = fault == Fault::no_driver ? 0 : fault == Fault::old_driver ? 12040 : 13000;
  if (fault == Fault::old_driver) answers.counted = cudaErrorInsufficientDriver;
  if (fault == Fault::no_gpu) answers.counted = cudaErrorNoDevice;
  if (fault == Fault::old_gpu) {
    cudaDeviceProp& facts = answers.gpus.emplace_back().facts;
    std::strcpy(facts.name, "Tesla V100-SXM2-16GB");
    facts.major = 7;
  }
  return answers;
}

// Why this GPU cannot be used, in one line; empty: it can.
std::string problem_of(const Described& gpu) {
  if (gpu.error != cudaSuccess) return concat("cuda: ", cudaGetErrorString(gpu.error));
  if (10 * gpu.facts.major + gpu.facts.minor >= kLeastCapability) return "";
  return concat("cuda: ", gpu.facts.name, " has compute capability ", gpu.facts.major, ".",
                gpu.facts.minor, ", this program needs ", kLeastCapability / 10, ".",
                kLeastCapability % 10, " or later");
}

// Why there are no GPUs at all, in one line; empty: there are.
std::string why_none(const Answers& answers) {
  if (answers.driver == 0) {
    return concat("cuda: no NVIDIA driver on this machine: install one for CUDA ",
                  version(CUDART_VERSION), " or later");
  }
  if (answers.counted == cudaErrorInsufficientDriver) {
    return concat("cuda: the driver is too old: it knows CUDA ", version(answers.driver),
                  ", this program needs ", version(CUDART_VERSION), ": install a newer one");
  }
  if (answers.counted != cudaSuccess && answers.counted != cudaErrorNoDevice) {
    return concat("cuda: ", cudaGetErrorString(answers.counted));
  }
  if (answers.gpus.empty()) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr
               ? "cuda: no NVIDIA GPU on this machine"
               : concat("cuda: no NVIDIA GPU visible: CUDA_VISIBLE_DEVICES is '", visible, "'");
  }
  return "";
}

Gpu facts_of(const Described& described) {
  const char* portable = std::getenv("TRIL_CUDA_PORTABLE");
  const bool turned_off = portable != nullptr && std::string_view(portable) == "1";
  Gpu gpu;
  gpu.problem = problem_of(described);
  gpu.name = described.facts.name;
  gpu.capability = 10 * described.facts.major + described.facts.minor;
  gpu.multiprocessors = described.facts.multiProcessorCount;
  gpu.memory_bytes = static_cast<int64_t>(described.facts.totalGlobalMem);
  gpu.hopper = gpu.capability == 90 && !turned_off;
  return gpu;
}

}  // namespace

Gpus find_gpus(const InjectedFault& fault) {
  const bool pretended = fault.kind != Fault::none && fault.at == 0;
  const Answers answers = pretended ? pretend(fault.kind) : ask();
  Gpus found;
  found.driver = answers.driver;
  found.problem = why_none(answers);
  if (!found.problem.empty()) return found;
  for (const Described& described : answers.gpus) found.list.push_back(facts_of(described));
  const bool some = std::any_of(found.list.begin(), found.list.end(),
                                [](const Gpu& gpu) { return gpu.problem.empty(); });
  if (!some) found.problem = found.list.front().problem;
  return found;
}

void use(int gpu) { check(make_current(gpu), "choosing a GPU"); }

void* allocate(int gpu, int64_t bytes) {
  use(gpu);
  static std::atomic<int64_t> blocks{0};
  void* memory = nullptr;
  const cudaError_t error = goes_wrong(Fault::memory, blocks)
                                ? cudaErrorMemoryAllocation
                                : cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail(ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes on ", Device::cuda(gpu), ", ",
         free, " of ", total,
         " are free: smaller batches need less, and other programs may hold some");
  }
  check(error, "memory");
  return memory;
}
void release(int gpu, void* memory) {
  make_current_quietly(gpu);
  static_cast<void>(cudaFree(memory));
}

void* allocate_pinned(int gpu, int64_t bytes) {
  use(gpu);
  void* memory = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
  require(error != cudaErrorMemoryAllocation, ErrorCode::out_of_memory, "out of memory: ", bytes,
          " bytes of pinned memory");
  check(error, "pinned memory");
  return memory;
}
void release_pinned(int gpu, void* memory) {
  make_current_quietly(gpu);
  static_cast<void>(cudaFreeHost(memory));
}

Stream make_stream(int gpu, Urgency urgency) {
  use(gpu);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "a stream");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     urgency == Urgency::urgent ? greatest : least),
        "a stream");
  return {.handle = stream, .gpu = gpu};
}
void drop_stream(Stream stream) {
  make_current_quietly(stream.gpu);
  static_cast<void>(cudaStreamDestroy(of(stream)));
}
void settle(Stream stream) {
  make_current_quietly(stream.gpu);
  static_cast<void>(cudaStreamSynchronize(of(stream)));
}
void wait(Stream stream) { check(cudaStreamSynchronize(current(stream)), "the device's work"); }
void check_launch(Stream stream) {
  check(cudaGetLastError(), "starting a kernel");
  count_launch(stream);
}

void copy_async(Stream stream, void* to, const void* from, int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, current(stream)),
        "a copy");
}
void copy_rows_async(Stream stream, void* to, const void* from, int64_t step, int64_t bytes,
                     int64_t rows) {
  check(cudaMemcpy2DAsync(to, static_cast<size_t>(bytes), from, static_cast<size_t>(step),
                          static_cast<size_t>(bytes), static_cast<size_t>(rows), cudaMemcpyDefault,
                          current(stream)),
        "a copy");
}
void copy_and_wait(int to_gpu, void* to, int from_gpu, const void* from, int64_t bytes) {
  after_everything(to_gpu, from_gpu, [&] {
    check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "a copy");
  });
}

void zero_and_wait(int gpu, void* memory, int64_t bytes) {
  after_everything(gpu, gpu, [&] {
    check(cudaMemset(memory, 0, static_cast<size_t>(bytes)), "setting memory to zero");
  });
}

void* make_event(int gpu) {
  use(gpu);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}
void drop_event(void* event) {
  static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}
void record(void* event, Stream stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), current(stream)), "an event");
}
void wait_for(void* event) {
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "the device's work");
}
void let_wait(Stream stream, void* event) {
  check(cudaStreamWaitEvent(current(stream), static_cast<cudaEvent_t>(event), 0), "an event");
}

void begin_capture(Stream stream) {
  use(stream.gpu);
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
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), current(stream)), "a step's graph");
  count_launch(stream);
}
void drop_graph(void* graph) {
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace tril::cuda
