// Norms, alone and after a residual sum.
//
// One warp per row; up to 1,024 columns it keeps the row in registers, so that a row is read once
// and written once. Longer rows, and rows that cannot be accessed 16 bytes at a time, are read
// again in each pass; the order of all sums is the same.
#include "tril/kernels/cuda/dropout.cuh"
#include "tril/kernels/cuda/launch.cuh"

namespace tril::kernels::cuda {
namespace {

constexpr int kForwardThreads = 128;

// ---- forward ------------------------------------------------------------------------------------
// Where the rows to be normed come from: from memory...
template <class T>
struct PlainRows {
  const T* x;
  Access access;

  struct Row {
    const T* x;
    Access access;
    __device__ Pack first(int, int64_t at, int count) const { return load(x + at, count, access); }
    __device__ Pack again(int64_t at, int count) const { return load(x + at, count, access); }
  };
  __device__ Row row(int64_t row, int64_t columns) const { return {x + row * columns, access}; }
};

// ... or from a residual sum, which is kept for the backward pass.
template <class T, bool kDrops>
struct ResidualRows {
  const T* x;
  const T* f;
  T* s;
  uint8_t* kept;
  Mask mask;
  Access access;

  struct Row {
    const T* x;
    const T* f;
    T* s;
    uint8_t* kept;
    Access access;
    float scale;
    RowMask mask;

    __device__ Pack first(int stretch, int64_t at, int count) const {
      uint32_t bits = 0;
      if constexpr (kDrops) bits = mask.kept(stretch);  // by all lanes
      const Pack a = load(x + at, count, access);
      Pack b = load(f + at, count, access);
      if constexpr (kDrops) {
        b = rounded<T>(keep(b, bits, scale));
        if (count > 0) kept[at / kPack] = static_cast<uint8_t>(bits);
      }
      Pack sum;
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum.at[i] = a.at[i] + b.at[i];
      store(sum, s + at, count, access);
      return rounded<T>(sum);
    }
    // Written by the same lane.
    __device__ Pack again(int64_t at, int count) const { return load(s + at, count, access); }
  };
  __device__ Row row(int64_t row, int64_t columns) const {
    const int64_t offset = row * columns;
    uint8_t* bits = kDrops ? kept + row * dropout_row_bytes(columns) : nullptr;
    if constexpr (kDrops) {
      return {x + offset, f + offset, s + offset, bits, access, mask.scale, RowMask(mask, row)};
    } else {
      return {x + offset, f + offset, s + offset, bits, access, 1.0f, RowMask()};
    }
  }
};

// Weight and bias are fetched first if rows are few, so that nothing waits for them at the end; if
// rows are many, other warps work meanwhile, and the registers are worth more.
enum class Weights { first, last };
constexpr int64_t kFewNormRows = 1024;

template <class T, int kStretches, Weights kWeights, class Rows>
__global__ void __launch_bounds__(kForwardThreads)
    forward_kernel(Norm norm, Rows rows, Access access, T* y, float* stats) {
  let_next_begin();
  const int64_t row = int64_t{blockIdx.x} * (kForwardThreads / kWarp) + threadIdx.x / kWarp;
  const auto weight_at = [&](int64_t at, int count) {
    return load(norm.weight + at, count, access);
  };
  const auto bias_at = [&](int64_t at, int count) {
    return load(norm.bias + at, norm.bias == nullptr ? 0 : count, access);
  };
  constexpr bool kFetched = kWeights == Weights::first && kStretches > 0;
  Pack weights[kFetched ? kStretches : 1], biases[kFetched ? kStretches : 1];
  if constexpr (kFetched) {
    over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
      weights[i] = weight_at(at, count);
      biases[i] = bias_at(at, count);
    });
  }
  wait_for_earlier();
  if (row >= norm.rows) return;
  const float inverse = 1.0f / static_cast<float>(norm.columns);
  const auto source = rows.row(row, norm.columns);
  Pack held[kStretches > 0 ? kStretches : 1] = {};
  const auto value = [&](int i, int64_t at, int count) {
    if constexpr (kStretches > 0) return held[i];
    return source.again(at, count);
  };
  float sum = 0.0f;
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    const Pack x = source.first(i, at, count);
    if constexpr (kStretches > 0) held[i] = x;
#pragma unroll
    for (int e = 0; e < kPack; ++e) sum += x.at[e];
  });
  const float mean = norm.kind == NormKind::layer ? warp_sum(sum) * inverse : 0.0f;
  float squares = 0.0f;
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    const Pack x = value(i, at, count);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const float centred = e < count ? x.at[e] - mean : 0.0f;
      squares = __fmaf_rn(centred, centred, squares);
    }
  });
  const float r = 1.0f / sqrtf(warp_sum(squares) * inverse + norm.epsilon);
  over_row<kStretches>(norm.columns, [&](int i, int64_t at, int count) {
    if (count == 0) return;
    const Pack x = value(i, at, count);
    Pack weight, bias;
    if constexpr (kFetched) {
      weight = weights[i];
      bias = biases[i];
    } else {
      weight = weight_at(at, count);
      bias = bias_at(at, count);
    }
    Pack result;
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const float normed = (x.at[e] - mean) * r;
      result.at[e] = norm.bias == nullptr ? normed * weight.at[e]
                                          : __fmaf_rn(normed, weight.at[e], bias.at[e]);
    }
    store(result, y + row * norm.columns + at, count, access);
  });
  if (lane_of_thread() == 0) {
    stats[2 * row] = mean;
    stats[2 * row + 1] = r;
  }
}

template <class T, class Rows>
void launch_forward(Stream stream, const Norm& norm, const Rows& rows, Access access, T* y,
                    float* stats) {
  if (norm.rows == 0) return;
  with_stretches(norm.columns, access, [&](auto stretches) {
    constexpr int kStretches = decltype(stretches)::value;
    const auto kernel = norm.rows <= kFewNormRows
                            ? forward_kernel<T, kStretches, Weights::first, Rows>
                            : forward_kernel<T, kStretches, Weights::last, Rows>;
    launch(stream, kernel, blocks_for(norm.rows, kForwardThreads / kWarp), kForwardThreads, 0, norm,
           rows, access, y, stats);
  });
}

// ---- backward -----------------------------------------------------------------------------------
constexpr int kChains = 8;  // of rows in a slice: one per warp
constexpr int kBackwardThreads = kChains * kWarp;

template <class T>
struct Backward {
  Norm norm;
  const T* x;
  const float* stats;
  const T* dy;
  T* dx;
  T* df;  // with `kept`
  const uint8_t* kept;
  float scale;
  float* partial;  // [slices, 2, columns]: of weight and bias
  Access access;
  int64_t slice;  // rows per slice
};

struct RowStats {
  float mean, r;
  __device__ RowStats(const float* stats, int64_t row)
      : mean(stats[2 * row]), r(stats[2 * row + 1]) {}
};

// dx, and df from the stored bits, for one pack.
template <class T>
__device__ void write_gradients(const Backward<T>& b, int64_t row, int64_t at, int count,
                                const Pack& dx) {
  if (count == 0) return;
  const int64_t offset = row * b.norm.columns + at;
  store(dx, b.dx + offset, count, b.access);
  if (b.kept == nullptr) return;
  const uint32_t bits = b.kept[row * dropout_row_bytes(b.norm.columns) + at / kPack];
  store(keep(rounded<T>(dx), bits, b.scale), b.df + offset, count, b.access);
}

// The sum of packs over the warps of a block, ascending, into partial[at...]: a lane's packs begin
// at column `at` of the stretch that begins at `begin`.
__device__ void add_warps(const Pack& mine, float (&all)[kChains][kStretch], int64_t begin,
                          int64_t columns, float* partial) {
  float* own = all[threadIdx.x / kWarp] + lane_of_thread() * kPack;
  store(mine, own, kPack, Access::vector);
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (begin + column < columns) {
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) sum += all[chain][column];
    partial[begin + column] = sum;
  }
  __syncthreads();
}

// One slice of rows per block. Rows are kept in their stored type: half the registers for bf16.
template <class T, int kStretches>
__global__ void __launch_bounds__(kBackwardThreads) backward_kernel(Backward<T> b) {
  static_assert(kBackwardThreads == kStretch, "add_warps has a thread a column");
  __shared__ __align__(16) float all[kChains][kStretch];
  const int64_t columns = b.norm.columns;
  const float inverse = 1.0f / static_cast<float>(columns);
  const int64_t begin = int64_t{blockIdx.x} * b.slice;
  const int64_t end = begin + b.slice < b.norm.rows ? begin + b.slice : b.norm.rows;
  Pack dweight[kStretches] = {};
  Pack dbias[kStretches] = {};
  // A row is loaded while the one before is processed.
  StoredPack<T> next_x[kStretches], next_dy[kStretches];
  const auto fetch = [&](int64_t row) {
    over_row<kStretches>(columns, [&](int i, int64_t at, int count) {
      next_x[i] = load_stored(b.x + row * columns + at, count, b.access);
      next_dy[i] = load_stored(b.dy + row * columns + at, count, b.access);
    });
  };
  const int64_t first = begin + threadIdx.x / kWarp;
  if (first < end) fetch(first);
  for (int64_t row = first; row < end; row += kChains) {
    const RowStats stats(b.stats, row);
    StoredPack<T> x[kStretches], dy[kStretches];
#pragma unroll
    for (int i = 0; i < kStretches; ++i) {
      x[i] = next_x[i];
      dy[i] = next_dy[i];
    }
    if (row + kChains < end) fetch(row + kChains);
    float sum_g = 0.0f;
    float sum_gx = 0.0f;
    over_row<kStretches>(columns, [&](int i, int64_t at, int count) {
      const Pack xs = widened(x[i]);
      const Pack slope = widened(dy[i]);
      const Pack weight = load(b.norm.weight + at, count, b.access);
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const float normed = (xs.at[e] - stats.mean) * stats.r;
        const float g = slope.at[e] * weight.at[e];
        sum_g += g;
        sum_gx = __fmaf_rn(g, normed, sum_gx);
        dweight[i].at[e] = __fmaf_rn(slope.at[e], normed, dweight[i].at[e]);
        dbias[i].at[e] += slope.at[e];
      }
    });
    const float mean_g = b.norm.kind == NormKind::layer ? warp_sum(sum_g) * inverse : 0.0f;
    const float mean_gx = warp_sum(sum_gx) * inverse;
    over_row<kStretches>(columns, [&](int i, int64_t at, int count) {
      const Pack xs = widened(x[i]);
      const Pack slope = widened(dy[i]);
      const Pack weight = load(b.norm.weight + at, count, b.access);
      Pack dx;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const float normed = (xs.at[e] - stats.mean) * stats.r;
        dx.at[e] = __fmaf_rn(-normed, mean_gx, slope.at[e] * weight.at[e] - mean_g) * stats.r;
      }
      write_gradients(b, row, at, count, dx);
    });
  }
  float* partial = b.partial + int64_t{blockIdx.x} * 2 * columns;
#pragma unroll
  for (int i = 0; i < kStretches; ++i) {
    add_warps(dweight[i], all, i * kStretch, columns, partial);
    add_warps(dbias[i], all, i * kStretch, columns, partial + columns);
  }
}

// The same for rows that do not fit into registers: the gradient of x, one row per warp...
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) long_rows_kernel(Backward<T> b) {
  const int64_t columns = b.norm.columns;
  const int64_t row = int64_t{blockIdx.x} * kChains + threadIdx.x / kWarp;
  if (row >= b.norm.rows) return;
  const float inverse = 1.0f / static_cast<float>(columns);
  const RowStats stats(b.stats, row);
  const auto each = [&](const auto& f) {
    over_row<0>(columns, [&](int, int64_t at, int count) {
      const Pack xs = load(b.x + row * columns + at, count, b.access);
      Pack g = load(b.dy + row * columns + at, count, b.access);
      const Pack weight = load(b.norm.weight + at, count, b.access);
      Pack normed;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        normed.at[e] = (xs.at[e] - stats.mean) * stats.r;
        g.at[e] = g.at[e] * weight.at[e];
      }
      f(at, count, normed, g);
    });
  };
  float sum_g = 0.0f;
  float sum_gx = 0.0f;
  each([&](int64_t, int, const Pack& normed, const Pack& g) {
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      sum_g += g.at[e];
      sum_gx = __fmaf_rn(g.at[e], normed.at[e], sum_gx);
    }
  });
  const float mean_g = b.norm.kind == NormKind::layer ? warp_sum(sum_g) * inverse : 0.0f;
  const float mean_gx = warp_sum(sum_gx) * inverse;
  each([&](int64_t at, int count, const Pack& normed, const Pack& g) {
    Pack dx;
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      dx.at[e] = __fmaf_rn(-normed.at[e], mean_gx, g.at[e] - mean_g) * stats.r;
    }
    write_gradients(b, row, at, count, dx);
  });
}

// ... and the sums over rows, one column of a slice per thread.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads) long_columns_kernel(Backward<T> b) {
  const int64_t columns = b.norm.columns;
  const int64_t blocks = (columns + kBackwardThreads - 1) / kBackwardThreads;
  const int64_t slice = blockIdx.x / blocks;
  const int64_t column = blockIdx.x % blocks * kBackwardThreads + threadIdx.x;
  if (column >= columns) return;
  const int64_t begin = slice * b.slice;
  const int64_t end = begin + b.slice < b.norm.rows ? begin + b.slice : b.norm.rows;
  float weight_sum = 0.0f;
  float bias_sum = 0.0f;
  for (int chain = 0; chain < kChains; ++chain) {
    float chain_weight = 0.0f;
    float chain_bias = 0.0f;
    for (int64_t row = begin + chain; row < end; row += kChains) {
      const RowStats stats(b.stats, row);
      const float normed = (widened(b.x[row * columns + column]) - stats.mean) * stats.r;
      const float slope = widened(b.dy[row * columns + column]);
      chain_weight = __fmaf_rn(slope, normed, chain_weight);
      chain_bias += slope;
    }
    weight_sum += chain_weight;
    bias_sum += chain_bias;
  }
  b.partial[slice * 2 * columns + column] = weight_sum;
  b.partial[(slice * 2 + 1) * columns + column] = bias_sum;
}

constexpr int kMergeChains = 32;

// 32 columns per block, one chain of slices per warp.
__global__ void __launch_bounds__(kWarp* kMergeChains)
    merge_slices_kernel(const float* partial, int64_t slices, int64_t columns, float* dweight,
                        float* dbias) {
  __shared__ float chains[kMergeChains][kWarp];
  const int lane = lane_of_thread();
  const int chain = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;  // of both, behind one another
  float sum = 0.0f;
  if (column < 2 * columns) {
#pragma unroll 4
    for (int64_t slice = chain; slice < slices; slice += kMergeChains) {
      sum += partial[slice * 2 * columns + column];
    }
  }
  chains[chain][lane] = sum;
  __syncthreads();
  if (chain != 0 || column >= 2 * columns) return;
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kMergeChains; ++i) total += chains[i][lane];
  if (column < columns) {
    dweight[column] = total;
  } else if (dbias != nullptr) {
    dbias[column - columns] = total;
  }
}

int64_t slices_of(int64_t rows) { return (rows + norm_slice(rows) - 1) / norm_slice(rows); }

template <class T>
void launch_backward(Stream stream, const Backward<T>& b) {
  const int64_t rows = b.norm.rows;
  const int64_t columns = b.norm.columns;
  const int64_t slices = slices_of(rows);
  const cudaStream_t on = handle_of(stream);
  if (rows == 0) return;
  with_stretches(columns, b.access, [&](auto stretches) {
    constexpr int kStretches = decltype(stretches)::value;
    if constexpr (kStretches > 0) {
      backward_kernel<T, kStretches><<<static_cast<unsigned>(slices), kBackwardThreads, 0, on>>>(b);
    } else {
      const int64_t blocks = (columns + kBackwardThreads - 1) / kBackwardThreads;
      long_rows_kernel<<<blocks_for(rows, kChains), kBackwardThreads, 0, on>>>(b);
      long_columns_kernel<<<static_cast<unsigned>(slices * blocks), kBackwardThreads, 0, on>>>(b);
    }
  });
}

// For everything a norm reads and writes in packs.
template <class... Pointers>
Access norm_access(const Norm& norm, const Pointers*... pointers) {
  return access_of(norm.columns, norm.weight, norm.bias, pointers...);
}

}  // namespace

template <class T>
void norm_forward(Stream stream, const NormForward<T>& args) {
  const Access access = norm_access(args.norm, args.x, args.y);
  launch_forward(stream, args.norm, PlainRows<T>{args.x, access}, access, args.y, args.stats);
}

template <class T>
void residual_norm_forward(Stream stream, const ResidualNormForward<T>& args) {
  const Access access = norm_access(args.norm, args.x, args.f, args.s, args.y);
  if (args.mask.seed == nullptr) {
    const ResidualRows<T, false> rows{args.x, args.f, args.s, nullptr, {}, access};
    return launch_forward(stream, args.norm, rows, access, args.y, args.stats);
  }
  const ResidualRows<T, true> rows{args.x, args.f, args.s, args.kept, mask_of(args.mask), access};
  launch_forward(stream, args.norm, rows, access, args.y, args.stats);
}

int64_t norm_backward_partial(int64_t rows, int64_t columns) {
  return slices_of(rows) * 2 * columns;
}

template <class T>
void residual_norm_backward(Stream stream, const ResidualNormBackward<T>& args) {
  const Norm& norm = args.norm;
  launch_backward<T>(stream,
                     {norm, args.s, args.stats, args.dy, args.dx, args.df, args.kept,
                      dropout_scale(args.probability), args.partial,
                      norm_access(norm, args.s, args.dy, args.dx, args.df), norm_slice(norm.rows)});
}

void merge_norm_gradients(Stream stream, const MergeNormGradients& args) {
  merge_slices_kernel<<<blocks_for(2 * args.columns, kWarp), kWarp * kMergeChains, 0,
                        handle_of(stream)>>>(args.partial, slices_of(args.rows), args.columns,
                                             args.dweight, args.dbias);
}

#define TRIL_INSTANTIATE(T)                                                   \
  template void norm_forward(Stream, const NormForward<T>&);                  \
  template void residual_norm_forward(Stream, const ResidualNormForward<T>&); \
  template void residual_norm_backward(Stream, const ResidualNormBackward<T>&);
TRIL_INSTANTIATE(float)
TRIL_INSTANTIATE(BFloat16)

}  // namespace tril::kernels::cuda
