// The CUDA half of attention: its lists of work and its launches, after the checks that both halves
// share. For the sources of this folder.
#pragma once

#include "tril/kernels/cuda/attention.h"
#include "tril/ops/attention_plan.h"

namespace tril::ops {

struct AttentionPlan::Lists {
  const Interval* intervals = nullptr;  // on the device
  kernels::cuda::AttentionTiles tiles{};
  kernels::cuda::AttentionLongTiles long_tiles{};
  bool has_backward = false;
  kernels::cuda::AttentionKeyTiles key_tiles{};
  kernels::cuda::AttentionLongGradients long_gradients{};
  int64_t keys_needed = 0;  // the rows see no further keys
};

// In context.host and on the device, until the step ends. The lists of the backward pass are made
// if `passes` asks for them and the mask allows one.
enum class Passes { forward, both };
// Whether the test hook lets rows see one more key.
enum class Widening { none, by_a_key };
AttentionPlan::Lists cuda_attention_lists(Context& context, const Mirrored<Interval>& intervals,
                                          Passes passes, Widening widening = Widening::none);

AttentionResult cuda_attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionPlan& plan, const AttentionSizes& sizes,
                               const AttentionOptions& options);
AttentionGradients cuda_attention_gradients(Context& context, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const AttentionResult& result,
                                            const Tensor& dout, const AttentionPlan& plan,
                                            const AttentionSizes& sizes,
                                            const AttentionOptions& options);
Tensor cuda_attention_paged(Context& context, const Tensor& q, const PagedKeys& keys,
                            const AttentionPlan& plan, const AttentionSizes& sizes,
                            const AttentionOptions& options);

}  // namespace tril::ops
