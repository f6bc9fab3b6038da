#include "tril/ops/key_value_store.h"

#include "tril/ops/entry_store.h"
#include "tril/ops/page_store.h"

namespace tril::ops {

std::span<const int32_t> StoredRows::lengths(Context& context) const {
  auto* lengths = context.host.allocate_array<int32_t>(size());
  for (size_t row = 0; row < slots.size(); ++row) {
    const StoredSequence* sequence = (*this)[row];
    lengths[row] = sequence != nullptr ? sequence->length : 0;
  }
  return {lengths, slots.size()};
}

std::unique_ptr<KeyValueStore> make_key_value_store(const CacheShape& shape,
                                                    const Placement& placement) {
  if (placement.activations == DType::expression) {
    return std::make_unique<PageStore<Expression>>(shape);
  }
  if (!on_gpu(placement.device)) return std::make_unique<PageStore<float>>(shape);
  return std::make_unique<EntryStore>(shape, placement);
}

}  // namespace tril::ops
