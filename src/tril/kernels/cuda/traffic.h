// Moves bytes through GPU memory as fast as possible and does nothing else: the speed of that
// memory is measured with it (measure/).
#pragma once

#include <cstdint>

#include "tril/base/stream.h"

namespace tril::kernels::cuda {

// Numbers of bytes are multiples of this; arrays begin at multiples of 16.
constexpr int64_t kTrafficBlock = 16384;

struct Traffic {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;
  int passes = 1;
};
// to = from, `passes` times over. Nothing is kept in L1, so that an array that fits into L2 is read
// from there.
void copy_traffic(Stream stream, const Traffic& args);
// Reads all bytes of `from`, `passes` times. 16 bytes at `to` are not written, which the compiler
// does not know, as long as those that are read are zero.
void read_traffic(Stream stream, const Traffic& args);

}  // namespace tril::kernels::cuda
