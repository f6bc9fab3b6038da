#include "tril/ops/cuda_rows.h"

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/cuda_linear.h"

namespace tril::ops::cuda {
namespace {

namespace on_gpu = kernels::cuda;

// Seed and step change from step to step, so they are uploaded.
on_gpu::Dropout dropout_of(Context& context, const DropoutKey& key, const Tensor& x) {
  return {.rows = x.rows(),
          .columns = x.columns(),
          .probability = key.probability,
          .seed = context.uploaded(on_gpu::DropoutSeed{key.seed, key.step}),
          .site = key.site,
          .sentences = context.on_device(key.sentences),
          .positions = context.on_device(key.positions)};
}

// Bits are kept as i8.
uint8_t* bits_of(const Context& context, const Tensor& kept) {
  return reinterpret_cast<uint8_t*>(memory_of<int8_t>(context, kept));
}

}  // namespace

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out) {
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::add<T>, {.size = out.size(),
                                             .a = memory_of<T>(context, a),
                                             .b = memory_of<T>(context, b),
                                             .out = memory_of<T>(context, out)});
  });
}

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::scale<T>, {.size = x.size(),
                                      .factor = memory_of<float>(context, factor),
                                      .x = memory_of<T>(context, x)});
  });
}

void scaled(Context& context, const Tensor& x, float factor, const Tensor& out) {
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::scaled<T>, {.size = out.size(),
                                                .factor = factor,
                                                .x = memory_of<T>(context, x),
                                                .out = memory_of<T>(context, out)});
  });
}

void relative_bias(Context& context, const Tensor& weight, std::span<const int32_t> bucket_of,
                   const Tensor& bias) {
  context.launch(on_gpu::relative_bias, {.heads = bias.shape()[0],
                                         .offsets = bias.shape()[1],
                                         .bucket_of = context.uploaded(bucket_of),
                                         .weight = memory_of<float>(context, weight),
                                         .bias = memory_of<float>(context, bias)});
}

void fill(Context& context, float value, const Tensor& out) {
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::fill<T>,
                   {.size = out.size(), .value = value, .out = memory_of<T>(context, out)});
  });
}

void assign(Context& context, const Tensor& from, const Tensor& to) {
  with_activation_type(from.dtype(), [&]<class From>(From) {
    with_activation_type(to.dtype(), [&]<class To>(To) {
      context.launch(on_gpu::convert<From, To>, {.size = to.size(),
                                                 .from = memory_of<From>(context, from),
                                                 .to = memory_of<To>(context, to)});
    });
  });
}

void norm(Context& context, const kernels::Norm& args, const Tensor& x, const NormResult& result) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::norm_forward<T>,
                            {.norm = args,
                             .x = memory_of<T>(context, x),
                             .y = memory_of<T>(context, result.y),
                             .stats = memory_of<float>(context, result.stats)});
  });
}

void residual_norm(Context& context, const kernels::Norm& args, const DropoutKey& key,
                   const Tensor& x, const Tensor& f, const ResidualNorm& result) {
  on_gpu::Dropout mask;
  if (key.probability > 0.0f) mask = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::residual_norm_forward<T>,
                            {.norm = args,
                             .mask = mask,
                             .x = memory_of<T>(context, x),
                             .f = memory_of<T>(context, f),
                             .s = memory_of<T>(context, result.s),
                             .y = memory_of<T>(context, result.y),
                             .stats = memory_of<float>(context, result.stats),
                             .kept = bits_of(context, result.kept)});
  });
}

void residual_norm_gradients(Context& context, const kernels::Norm& args,
                             const ResidualNorm& forward, const Tensor& dy,
                             const ResidualNormGradients& gradients) {
  auto* partial =  // no scratch: it is read aside
      context.arena.allocate_array<float>(on_gpu::norm_backward_partial(args.rows, args.columns));
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::residual_norm_backward<T>,
                   {.norm = args,
                    .s = memory_of<T>(context, forward.s),
                    .stats = memory_of<float>(context, forward.stats),
                    .dy = memory_of<T>(context, dy),
                    .probability = forward.probability,
                    .kept = bits_of(context, forward.kept),
                    .dx = memory_of<T>(context, gradients.dx),
                    .df = memory_of<T>(context, gradients.df),
                    .partial = partial});
  });
  context.aside(Lane::sums, [&] {
    context.launch(on_gpu::merge_norm_gradients,
                   {.rows = args.rows,
                    .columns = args.columns,
                    .partial = partial,
                    .dweight = memory_of<float>(context, gradients.dweight),
                    .dbias = memory_of<float>(context, gradients.dbias)});
  });
}

void embedding(Context& context, const Lookup& lookup, const Tensor& out) {
  WeightForm::Rows entries{lookup.table, out.columns()};
  if (lookup.packed != nullptr) entries = form_of(context, *lookup.packed).rows(*lookup.packed);
  require(entries.table.defined(), ErrorCode::unsupported,
          "embedding: rows of this form of weights cannot be looked up on ", context.device());
  const int32_t* ids = context.on_device(lookup.ids);
  const bool placed = lookup.positions.defined();
  const int32_t* position_ids = placed ? context.on_device(lookup.position_ids) : nullptr;
  const auto look_up = [&]<class T, class Entry>(T, Entry) {
    context.launch_in_chain(on_gpu::embedding_forward<T, Entry>,
                            {.rows = out.rows(),
                             .columns = out.columns(),
                             .scale = lookup.scale,
                             .ids = ids,
                             .table = memory_of<Entry>(context, entries.table),
                             .table_stride = entries.stride,
                             .position_ids = position_ids,
                             .position_table = memory_of<float>(context, lookup.positions),
                             .out = memory_of<T>(context, out)});
    context.begin_chain();
  };
  if (entries.table.dtype() == DType::bf16) return look_up(BFloat16(), BFloat16());
  with_activation_type(out.dtype(), [&](auto type) { look_up(type, float()); });
}

void lookup_order(Context& context, const Mirrored<int32_t>& ids, const LookupOrder& to) {
  const int32_t* sorted_by = context.on_device(ids);
  const Arena::Scope scratch(context.arena);
  context.launch(on_gpu::sort_by_id,
                 {.ids = sorted_by,
                  .rows = ids.size(),
                  .entries = to.starts.size() - 1,
                  .order = memory_of<int32_t>(context, to.order),
                  .starts = memory_of<int32_t>(context, to.starts),
                  .workspace = context.arena.allocate(on_gpu::sort_by_id_workspace(ids.size()))});
}

void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const LookupOrder& known, SliceOfSum slice,
                        const Tensor& dtable) {
  const Arena::Scope scratch(context.arena);
  const LookupOrder order =
      known.starts.defined() ? known : ops::lookup_order(context, ids, dtable.rows());
  auto* partial = context.arena.allocate_array<float>(
      on_gpu::embedding_backward_partial(dout.rows(), dout.columns()));
  with_activation_type(dout.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::embedding_backward<T>,
                   {.rows = dout.rows(),
                    .columns = dout.columns(),
                    .entries = dtable.rows(),
                    .scale = scale,
                    .order = memory_of<int32_t>(context, order.order),
                    .starts = memory_of<int32_t>(context, order.starts),
                    .adds = slice == SliceOfSum::further,
                    .dout = memory_of<T>(context, dout),
                    .partial = partial,
                    .dtable = memory_of<float>(context, dtable)});
  });
}

void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::activation_forward<T>, {.kind = kind,
                                                            .size = x.size(),
                                                            .x = memory_of<T>(context, x),
                                                            .y = memory_of<T>(context, y)});
  });
}

void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::activation_backward<T>, {.kind = kind,
                                                    .size = x.size(),
                                                    .x = memory_of<T>(context, x),
                                                    .dy = memory_of<T>(context, dy),
                                                    .dx = memory_of<T>(context, dx)});
  });
}

void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
           const Tensor& y) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::gated_forward<T>, {.kind = kind,
                                                       .size = x.size(),
                                                       .gate = memory_of<T>(context, gate),
                                                       .x = memory_of<T>(context, x),
                                                       .y = memory_of<T>(context, y)});
  });
}

void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::gated_backward<T>, {.kind = kind,
                                               .size = x.size(),
                                               .gate = memory_of<T>(context, gate),
                                               .x = memory_of<T>(context, x),
                                               .dy = memory_of<T>(context, dy),
                                               .dgate = memory_of<T>(context, gradients.dgate),
                                               .dx = memory_of<T>(context, gradients.dx)});
  });
}

void dropout(Context& context, const DropoutKey& key, const Tensor& x, const Dropped& dropped) {
  const on_gpu::Dropout mask = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::dropout<T>, {.mask = mask,
                                        .x = memory_of<T>(context, x),
                                        .y = memory_of<T>(context, dropped.y),
                                        .kept = bits_of(context, dropped.kept)});
  });
}

void dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy,
                      const Tensor& dx) {
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch(on_gpu::dropout_by_bits<T>, {.rows = dy.rows(),
                                                .columns = dy.columns(),
                                                .probability = probability,
                                                .kept = bits_of(context, kept),
                                                .x = memory_of<T>(context, dy),
                                                .y = memory_of<T>(context, dx)});
  });
}

void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y) {
  const int32_t* position_ids = context.on_device(positions);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_gpu::rotary<T>, {.rows = x.shape()[0],
                                                .heads = x.shape()[1],
                                                .head_dim = x.shape()[2],
                                                .positions = position_ids,
                                                .table = memory_of<float>(context, table),
                                                .sign = turn == Turn::forwards ? 1.0f : -1.0f,
                                                .x = rows_of<T>(context, x),
                                                .x_stride = x.row_stride(),
                                                .y = memory_of<T>(context, y)});
  });
}

}  // namespace tril::ops::cuda
