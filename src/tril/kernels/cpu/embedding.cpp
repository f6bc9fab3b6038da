#include "tril/kernels/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
#include "tril/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::kernels::HWY_NAMESPACE {
namespace {

void EmbeddingForward(const Parallel& parallel, const Embedding& e, float* out) {
  for_row_blocks(parallel, e.rows, e.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* entry = e.table + e.ids[row] * e.columns;
      const float* position =
          e.position_ids == nullptr ? nullptr : e.position_table + e.position_ids[row] * e.columns;
      for_each_16(e.columns, [&](const auto& load, const auto& store) HWY_ATTR {
        if (position == nullptr) {
          store(load(entry) * set16(e.scale), out + row * e.columns);
        } else {
          store(fma(load(entry), set16(e.scale), load(position)), out + row * e.columns);
        }
      });
    }
  });
}

void EmbeddingBackward(const Parallel& parallel, const int32_t* order, const int32_t* starts,
                       const float* dout, float scale, int64_t entries, int64_t columns,
                       float* dtable) {
  for_row_blocks(parallel, entries, columns, [&](int64_t begin, int64_t end) {
    for (int64_t entry = begin; entry < end; ++entry) {
      int64_t column = 0;
      while (column < columns) {
        const int64_t width = std::min<int64_t>(kLanes, columns - column);
        Vec16 sums = zero16();
        for (int64_t i = starts[entry]; i < starts[entry + 1]; ++i) {
          sums = sums + load16(dout + order[i] * columns + column, width);
        }
        store16(sums * set16(scale), dtable + entry * columns + column, width);
        column += width;
      }
    }
  });
}

}  // namespace
}  // namespace tril::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril::kernels {

HWY_EXPORT(EmbeddingForward);
HWY_EXPORT(EmbeddingBackward);

void embedding_forward(const Parallel& parallel, const Embedding& args, float* out) {
  HWY_DYNAMIC_DISPATCH(EmbeddingForward)(parallel, args, out);
}

void sort_by_id(const int32_t* ids, int64_t rows, int64_t entries, int32_t* order,
                int32_t* starts) {
  // Counting sort: counts, then starts, then each row to its place in ascending order.
  std::fill_n(starts, entries + 1, 0);
  for (int64_t row = 0; row < rows; ++row) ++starts[ids[row] + 1];
  for (int64_t entry = 0; entry < entries; ++entry) starts[entry + 1] += starts[entry];
  for (int64_t row = 0; row < rows; ++row) order[starts[ids[row]]++] = static_cast<int32_t>(row);
  // Placing has moved every start to the next one's; move them back.
  for (int64_t entry = entries; entry > 0; --entry) starts[entry] = starts[entry - 1];
  starts[0] = 0;
}

void embedding_backward(const Parallel& parallel, const int32_t* order, const int32_t* starts,
                        const float* dout, float scale, int64_t entries, int64_t columns,
                        float* dtable) {
  HWY_DYNAMIC_DISPATCH(EmbeddingBackward)
  (parallel, order, starts, dout, scale, entries, columns, dtable);
}

}  // namespace tril::kernels
#endif
