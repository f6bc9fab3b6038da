// Loops that do one thing as fast as the machine can, for measure/peaks.h. One thread each; none
// allocates or throws.
#pragma once

#include <cstdint>

namespace tril {

// Fused multiply-adds on registers: returns the number of operations, two per lane.
int64_t fma_loop(int64_t rounds);
// int8 products summed into 32 bits (vpdpbusd): returns the number of operations, or 0 if the
// current target has no such instruction.
int64_t int8_loop(int64_t rounds);
// Only reads an array. Returns a sum, so that it is really read.
float read_loop(const float* from, int64_t size);
// Adds 1 to each element: reads and writes an array.
void update_loop(float* array, int64_t size);

}  // namespace tril
