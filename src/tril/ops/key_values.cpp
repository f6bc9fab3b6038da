#include "tril/ops/key_values.h"

#include "tril/kernels/cuda/attention.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {

void store_key_values(Context& context, const Tensor& keys, const Tensor& values,
                      const Mirrored<int32_t>& entries, const KeyValueEntries& to) {
  const int64_t rows = entries.size();
  require(on_cuda(context) && keys.shape() == values.shape() && rows > 0 &&
              keys.shape()[0] == rows && keys.dtype() == context.activations &&
              keys.row_stride() == values.row_stride(),
          ErrorCode::internal, "cache: keys ", keys.shape(), " for ", rows, " entries");
  const int64_t width = keys.size() / rows;
  const kernels::cuda::StoreKeyValues args{.type = keys.dtype(),
                                           .rows = rows,
                                           .width = width,
                                           .k = keys.raw_rows(),
                                           .v = values.raw_rows(),
                                           .stride = keys.row_stride(),
                                           .entries = context.on_device(entries),
                                           .to_k = to.keys,
                                           .to_v = to.values,
                                           .to_stride = to.stride};
  if constexpr (kCudaBuilt) {
    context.launch_in_chain([&](Stream stream) { kernels::cuda::store_key_values(stream, args); });
  }
}

}  // namespace tril::ops
