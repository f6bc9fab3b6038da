// The part of the CUDA runtime that this folder uses: cuda.cpp calls it, no_cuda.cpp replaces it
// where CUDA is not built. Internal to device/. Every fault is an Error: `out_of_memory` or
// `device`.
//
// CUDA has a current GPU per thread, and calls concern that one. Calls here take a stream or the
// index of a GPU, and make that GPU current first. Three kinds do not: find_gpus(); check_launch(),
// end_capture() and abandon_capture(), which finish what was begun on the current GPU; and those
// that take only an event or a graph, which know their GPU.
#pragma once

#include <cstdint>

#include "tril/base/stream.h"
#include "tril/device/device.h"
#include "tril/device/fault.h"

namespace tril::cuda {

// What the driver reports, or would report with this fault.
Gpus find_gpus(const InjectedFault& fault);
// Makes it the thread's current GPU, for launching kernels and for queries about them.
void use(int gpu);

void* allocate(int gpu, int64_t bytes);
void release(int gpu, void* memory);
void* allocate_pinned(int gpu, int64_t bytes);
void release_pinned(int gpu, void* memory);

// When work of several streams waits for the device, `urgent` streams go first.
enum class Urgency { urgent, spare };
Stream make_stream(int gpu, Urgency urgency);
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
// The GPU of each side; if one side is the host, the other's.
void copy_and_wait(int to_gpu, void* to, int from_gpu, const void* from, int64_t bytes);
void zero_and_wait(int gpu, void* memory, int64_t bytes);

// Markers in a stream.
void* make_event(int gpu);
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
