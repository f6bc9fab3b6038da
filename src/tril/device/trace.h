// Trace: everything a step enqueued, in order, as one identity. Steps with the same trace share one
// CUDA graph; a step that differs in anything the graph contains has another trace.
#pragma once

#include <compare>
#include <cstdint>

#include "tril/device/identity.h"

namespace tril {

// The main lane and two side streams, so that these run in parallel with each other too.
enum class Lane { first, products, sums };

// Whether a kernel begins when everything before it has ended, or may overlap with the kernels of
// its chain (kernels/cuda/launch.cuh).
enum class Begins { alone, in_chain };

class Trace {
 public:
  void launch(const Identity& launch, Lane lane, Begins begins) {
    add(Kind::launch, lane);
    all_.add(launch);
    all_.add(static_cast<uint64_t>(begins));
  }
  // The address and number of uploaded bytes, not their values.
  void upload(const void* on_device, int64_t bytes, Lane lane) {
    add(Kind::upload, lane);
    all_.add(reinterpret_cast<uintptr_t>(on_device));
    all_.add(static_cast<uint64_t>(bytes));
  }
  // What follows goes into this lane.
  void change(Lane lane) { add(Kind::change, lane); }
  // This lane waits for the others.
  void join(Lane lane) { add(Kind::join, lane); }

  auto operator<=>(const Trace&) const = default;

 private:
  enum class Kind : uint64_t { launch = 1, upload, change, join };
  void add(Kind kind, Lane lane) {
    all_.add(static_cast<uint64_t>(kind) << 8 | static_cast<uint64_t>(lane));
  }

  Identity all_{};
};

}  // namespace tril
