// The CUDA runtime, as this folder uses it: cuda.cpp calls it, no_cuda.cpp stands in where it is
// not built in. Internal to device/. Every fault is an Error: `out_of_memory` or `device`.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"
#include "tril/device/device.h"
#include "tril/device/fault.h"

namespace tril::cuda {

// What the driver says, or would say with this fault.
CudaCard find_card(const InjectedFault& fault);
void* allocate(int64_t bytes);
void release(void* memory);
void* allocate_pinned(int64_t bytes);
void release_pinned(void* memory);

// When work of several streams waits for the device, `urgent` streams go first.
enum class Urgency { urgent, spare };
Stream make_stream(Urgency urgency);
void drop_stream(Stream stream);
void wait(Stream stream);    // raises errors of the device
void settle(Stream stream);  // the same without raising
// Raises the error of what was just enqueued, if any.
void check_launch(Stream stream);
void lose(Stream stream);  // a kernel that traps: after it the device is lost to this process
void copy_async(Stream stream, void* to, const void* from, int64_t bytes);
// Rows of `bytes`, `step` bytes apart, copied to consecutive memory.
void copy_rows_async(Stream stream, void* to, const void* from, int64_t step, int64_t bytes,
                     int64_t rows);
void copy_and_wait(void* to, const void* from, int64_t bytes);
void zero_and_wait(void* memory, int64_t bytes);

// Marks in a stream.
void* make_event();
void drop_event(void* event);
void record(void* event, Stream stream);
void wait_for(void* event);
// What is enqueued into the stream from now on waits for the event as last recorded.
void let_wait(Stream stream, void* event);

// What is enqueued into a stream between begin and end is recorded instead of run.
void begin_capture(Stream stream);
void* end_capture(Stream stream);  // a graph that can be launched
void abandon_capture(Stream stream);
void launch_graph(void* graph, Stream stream);
void drop_graph(void* graph);

}  // namespace tril::cuda
