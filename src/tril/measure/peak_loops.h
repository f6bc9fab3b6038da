// Loops that do one thing as fast as the machine can, for measure/peaks.h. One thread each; none
// allocates or throws.
#pragma once

#include <cstdint>

namespace tril {

// Fused multiply-adds on registers: returns how many operations were done, two for each lane.
int64_t fma_loop(int64_t rounds);
// Products of bytes, summed into 32 bits (vpdpbusd): operations done, or 0 where the target in use
// has no such instruction.
int64_t int8_loop(int64_t rounds);
// Reads an array and nothing else. Returns a sum, so that it is really read.
float read_loop(const float* from, int64_t size);
// Adds 1 to each element: reads and writes an array.
void update_loop(float* array, int64_t size);

}  // namespace tril
