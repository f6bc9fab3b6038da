// Trace: what a step was given to do, in order, as one identity. Two steps with the same trace are
// one CUDA graph; what differs in anything the graph would hold has another trace.
#pragma once

#include <compare>
#include <cstdint>

#include "tril/device/identity.h"

namespace tril {

// What is done beside the rest; two kinds, so that they are beside each other too.
enum class Lane { first, products, sums };

// Whether a kernel begins when all before it has ended, or may overlap with the kernels of the
// chain it is in (kernels/cuda/launch.cuh).
enum class Begins { alone, in_chain };

class Trace {
 public:
  void launch(const Identity& launch, Lane lane, Begins begins) {
    add(Kind::launch, lane);
    all_.add(launch);
    all_.add(static_cast<uint64_t>(begins));
  }
  // Where the device finds so many bytes; not which they are.
  void upload(const void* on_device, int64_t bytes, Lane lane) {
    add(Kind::upload, lane);
    all_.add(reinterpret_cast<uintptr_t>(on_device));
    all_.add(static_cast<uint64_t>(bytes));
  }
  // What comes next goes to this lane.
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
