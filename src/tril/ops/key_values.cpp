#include "tril/ops/key_values.h"

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/on_cuda.h"
#include "tril/ops/rows.h"

namespace tril::ops {

KeysAndValues with_one_stride(Context& context, const Tensor& keys, const Tensor& values) {
  if (keys.row_stride() == values.row_stride()) return {keys, values};
  return {dense(context, keys), dense(context, values)};
}

void store_key_values(Context& context, const Tensor& given_keys, const Tensor& given_values,
                      const Mirrored<int32_t>& entries, const KeyValueEntries& to) {
  const auto [keys, values] = with_one_stride(context, given_keys, given_values);
  const int64_t rows = entries.size();
  require(on_cuda(context) && keys.shape() == values.shape() && rows > 0 &&
              keys.shape()[0] == rows && keys.dtype() == context.activations,
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
  only_on_cuda([&] { context.launch_in_chain(kernels::cuda::store_key_values, args); });
}

}  // namespace tril::ops
