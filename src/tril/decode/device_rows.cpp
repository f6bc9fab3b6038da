#include "tril/decode/device_rows.h"

#include "tril/ops/key_value_store.h"

namespace tril {
namespace {

int64_t padded_positions(const TransformerConfig& config) {
  return (config.max_length + ops::kTableStep - 1) / ops::kTableStep * ops::kTableStep;
}

Tensor cross_table(Arena& arena, int64_t rows, const TransformerConfig& config) {
  if (config.decoder_only()) return {};
  return {arena, {rows, padded_positions(config)}, DType::i32};
}

void keep(const Tensor& from, const Tensor& to) {
  if (!from.defined()) return;
  copy(to.device(), to.raw(), from.device(), from.raw(), from.size() * size_of(from.dtype()));
}

}  // namespace

DeviceRows::DeviceRows(int64_t count, const TransformerConfig& config, const Device& device)
    : rows(count),
      arena(device),
      beams{Tensor(arena, {rows}, DType::i32), Tensor(arena, {rows}, DType::f64),
            Tensor(arena, {rows, padded_positions(config)}, DType::i32)},
      on_device{beams.tokens, beams.table, cross_table(arena, rows, config)} {
  // Rows that no sentence has used yet are read too, so they are initialised.
  for (const Tensor& tensor : {beams.tokens, beams.scores, beams.table, on_device.cross}) {
    if (tensor.defined()) set_zero(tensor);
  }
}

DeviceRows::DeviceRows(int64_t count, const TransformerConfig& config, const DeviceRows& before)
    : DeviceRows(count, config, before.beams.tokens.device()) {
  keep(before.beams.tokens, beams.tokens);
  keep(before.beams.scores, beams.scores);
  keep(before.beams.table, beams.table);
  keep(before.on_device.cross, on_device.cross);
}

int64_t RowMap::take(int64_t width) {
  int64_t free = 0;
  int64_t row = 0;
  for (; free < width; ++row) {
    const bool taken = row < end() && taken_[static_cast<size_t>(row)];
    free = taken ? 0 : free + 1;
  }
  const int64_t first = row - width;
  taken_.resize(static_cast<size_t>(std::max(end(), row)), false);
  std::fill_n(taken_.begin() + first, width, true);
  return first;
}

void RowMap::give_back(int64_t first, int64_t width) {
  std::fill_n(taken_.begin() + first, width, false);
  while (!taken_.empty() && !taken_.back()) taken_.pop_back();
}

}  // namespace tril
