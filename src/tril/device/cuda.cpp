#include "tril/device/cuda.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <string_view>

#include "tril/base/error.h"

namespace tril::cuda {
namespace {

constexpr int kLeastCapability = 80;

// A device that was lost stays lost: every later call fails too, and says so.
void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call is not blamed for it
  fail(ErrorCode::device, "cuda: ", what, ": ", cudaGetErrorString(error));
}

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

}  // namespace

CudaCard find_card() {
  CudaCard card;
  const cudaError_t driver_error = cudaDriverGetVersion(&card.driver);
  if (driver_error != cudaSuccess || card.driver == 0) {
    card.problem = "cuda: no NVIDIA driver on this machine";
    return card;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    card.problem = concat("cuda: the driver is too old: it knows CUDA ", version(card.driver),
                          ", this program needs ", version(CUDART_VERSION));
  } else if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    card.problem = "cuda: no NVIDIA card on this machine";
  } else if (error != cudaSuccess) {
    card.problem = concat("cuda: ", cudaGetErrorString(error));
  }
  cudaGetLastError();
  if (!card.problem.empty()) return card;
  cudaDeviceProp properties{};
  if (const cudaError_t asked = cudaGetDeviceProperties(&properties, 0); asked != cudaSuccess) {
    card.problem = concat("cuda: ", cudaGetErrorString(asked));
    cudaGetLastError();
    return card;
  }
  card.name = properties.name;
  card.capability = 10 * properties.major + properties.minor;
  card.multiprocessors = properties.multiProcessorCount;
  card.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  card.usable = card.capability >= kLeastCapability;
  if (!card.usable) {
    card.problem = concat("cuda: ", card.name, " has compute capability ", properties.major, ".",
                          properties.minor, ", 8.0 is the least");
  }
  const char* portable = std::getenv("TRIL_CUDA_PORTABLE");
  const bool turned_off = portable != nullptr && std::string_view(portable) == "1";
  card.hopper = card.capability == 90 && !turned_off;
  return card;
}

void* allocate(int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail(ErrorCode::out_of_memory, "out of memory: ", bytes, " bytes on cuda, ", free, " of ",
         total, " are free");
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
void wait(Stream stream) { check(cudaStreamSynchronize(of(stream)), "the device's work"); }
void check_launch() { check(cudaGetLastError(), "a kernel could not be started"); }

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
  // Streams here do not wait for the default one, nor it for them.
  check(cudaDeviceSynchronize(), "the device's work");
  check(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "a copy");
  check(cudaDeviceSynchronize(), "a copy");
}

void zero_and_wait(void* memory, int64_t bytes) {
  check(cudaDeviceSynchronize(), "the device's work");
  check(cudaMemset(memory, 0, static_cast<size_t>(bytes)), "memory");
  check(cudaDeviceSynchronize(), "memory");
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
  check(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeRelaxed), "capturing a step");
}
void* end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(of(stream), &graph), "capturing a step");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "a step's graph");
  return ready;
}
void abandon_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(of(stream), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}
void launch_graph(void* graph, Stream stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), of(stream)), "a step's graph");
}
void drop_graph(void* graph) {
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace tril::cuda
