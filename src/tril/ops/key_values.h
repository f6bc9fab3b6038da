// Stores keys and values in the entries of a cache on CUDA.
#pragma once

#include "tril/tensor/context.h"
#include "tril/tensor/tensor.h"

namespace tril::ops {

// The same keys and values, with rows equally far apart, as kernels read them: copied if one of
// them was rotated by its position and the other is still a slice of its matrix.
struct KeysAndValues {
  Tensor keys, values;
};
KeysAndValues with_one_stride(Context& context, const Tensor& keys, const Tensor& values);

// Where entries lie: entry e begins e * stride elements after these.
struct KeyValueEntries {
  void* keys = nullptr;
  void* values = nullptr;
  int64_t stride = 0;
};
// Row r of keys and values [row, width] becomes entry entries[r]; -1: none. Their rows may lie
// apart.
void store_key_values(Context& context, const Tensor& keys, const Tensor& values,
                      const Mirrored<int32_t>& entries, const KeyValueEntries& to);

}  // namespace tril::ops
