#include "tril/ops/cuda_rows.h"

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/cuda_linear.h"

namespace tril::ops::cuda {
namespace {

namespace on_card = kernels::cuda;

// Seed and step change from step to step, so they are uploaded.
on_card::Dropout dropout_of(Context& context, const DropoutKey& key, const Tensor& x) {
  return {.rows = x.rows(),
          .columns = x.columns(),
          .probability = key.probability,
          .seed = context.uploaded(on_card::DropoutSeed{key.seed, key.step}),
          .site = key.site,
          .sentences = context.on_device(key.sentences),
          .positions = context.on_device(key.positions)};
}

// Bits are kept as i8.
uint8_t* bits_of(const Tensor& kept) { return reinterpret_cast<uint8_t*>(memory_of<int8_t>(kept)); }

}  // namespace

void add(Context& context, const Tensor& a, const Tensor& b, const Tensor& out) {
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch_in_chain(
        on_card::add<T>,
        {.size = out.size(), .a = memory_of<T>(a), .b = memory_of<T>(b), .out = memory_of<T>(out)});
  });
}

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_card::scale<T>,
                   {.size = x.size(), .factor = memory_of<float>(factor), .x = memory_of<T>(x)});
  });
}

void fill(Context& context, float value, const Tensor& out) {
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch(on_card::fill<T>,
                   {.size = out.size(), .value = value, .out = memory_of<T>(out)});
  });
}

void assign(Context& context, const Tensor& from, const Tensor& to) {
  with_activation_type(from.dtype(), [&]<class From>(From) {
    with_activation_type(to.dtype(), [&]<class To>(To) {
      context.launch(on_card::convert<From, To>,
                     {.size = to.size(), .from = memory_of<From>(from), .to = memory_of<To>(to)});
    });
  });
}

void norm(Context& context, const kernels::Norm& args, const Tensor& x, const NormResult& result) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_card::norm_forward<T>, {.norm = args,
                                                       .x = memory_of<T>(x),
                                                       .y = memory_of<T>(result.y),
                                                       .stats = memory_of<float>(result.stats)});
  });
}

void residual_norm(Context& context, const kernels::Norm& args, const DropoutKey& key,
                   const Tensor& x, const Tensor& f, const ResidualNorm& result) {
  on_card::Dropout mask;
  if (key.probability > 0.0f) mask = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_card::residual_norm_forward<T>,
                            {.norm = args,
                             .mask = mask,
                             .x = memory_of<T>(x),
                             .f = memory_of<T>(f),
                             .s = memory_of<T>(result.s),
                             .y = memory_of<T>(result.y),
                             .stats = memory_of<float>(result.stats),
                             .kept = bits_of(result.kept)});
  });
}

void residual_norm_gradients(Context& context, const kernels::Norm& args,
                             const ResidualNorm& forward, const Tensor& dy,
                             const ResidualNormGradients& gradients) {
  auto* partial =  // no scratch: it is read aside
      context.arena.allocate_array<float>(on_card::norm_backward_partial(args.rows, args.columns));
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch(on_card::residual_norm_backward<T>, {.norm = args,
                                                        .s = memory_of<T>(forward.s),
                                                        .stats = memory_of<float>(forward.stats),
                                                        .dy = memory_of<T>(dy),
                                                        .probability = forward.probability,
                                                        .kept = bits_of(forward.kept),
                                                        .dx = memory_of<T>(gradients.dx),
                                                        .df = memory_of<T>(gradients.df),
                                                        .partial = partial});
  });
  context.aside(Lane::sums, [&] {
    context.launch(on_card::merge_norm_gradients, {.rows = args.rows,
                                                   .columns = args.columns,
                                                   .partial = partial,
                                                   .dweight = memory_of<float>(gradients.dweight),
                                                   .dbias = memory_of<float>(gradients.dbias)});
  });
}

void embedding(Context& context, const Lookup& lookup, const Tensor& out) {
  WeightForm::Rows entries{lookup.table, out.columns()};
  if (lookup.packed != nullptr) entries = form_of(context, *lookup.packed).rows(*lookup.packed);
  const int32_t* ids = context.on_device(lookup.ids);
  const bool placed = lookup.positions.defined();
  const int32_t* position_ids = placed ? context.on_device(lookup.position_ids) : nullptr;
  const auto look_up = [&]<class T, class Entry>(T, Entry) {
    context.launch_in_chain(on_card::embedding_forward<T, Entry>,
                            {.rows = out.rows(),
                             .columns = out.columns(),
                             .scale = lookup.scale,
                             .ids = ids,
                             .table = memory_of<Entry>(entries.table),
                             .table_stride = entries.stride,
                             .position_ids = position_ids,
                             .position_table = memory_of<float>(lookup.positions),
                             .out = memory_of<T>(out)});
    context.begin_chain();
  };
  if (entries.table.dtype() == DType::bf16) return look_up(BFloat16(), BFloat16());
  with_activation_type(out.dtype(), [&](auto type) { look_up(type, float()); });
}

void lookup_order(Context& context, const Mirrored<int32_t>& ids, const LookupOrder& to) {
  const int32_t* sorted_by = context.on_device(ids);
  const Arena::Scope scratch(context.arena);
  context.launch(on_card::sort_by_id,
                 {.ids = sorted_by,
                  .rows = ids.size(),
                  .entries = to.starts.size() - 1,
                  .order = memory_of<int32_t>(to.order),
                  .starts = memory_of<int32_t>(to.starts),
                  .workspace = context.arena.allocate(on_card::sort_by_id_workspace(ids.size()))});
}

void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const LookupOrder& known, SliceOfSum slice,
                        const Tensor& dtable) {
  const Arena::Scope scratch(context.arena);
  const LookupOrder order =
      known.starts.defined() ? known : ops::lookup_order(context, ids, dtable.rows());
  auto* partial = context.arena.allocate_array<float>(
      on_card::embedding_backward_partial(dout.rows(), dout.columns()));
  with_activation_type(dout.dtype(), [&]<class T>(T) {
    context.launch(on_card::embedding_backward<T>, {.rows = dout.rows(),
                                                    .columns = dout.columns(),
                                                    .entries = dtable.rows(),
                                                    .scale = scale,
                                                    .order = memory_of<int32_t>(order.order),
                                                    .starts = memory_of<int32_t>(order.starts),
                                                    .adds = slice == SliceOfSum::further,
                                                    .dout = memory_of<T>(dout),
                                                    .partial = partial,
                                                    .dtable = memory_of<float>(dtable)});
  });
}

void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(
        on_card::activation_forward<T>,
        {.kind = kind, .size = x.size(), .x = memory_of<T>(x), .y = memory_of<T>(y)});
  });
}

void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_card::activation_backward<T>, {.kind = kind,
                                                     .size = x.size(),
                                                     .x = memory_of<T>(x),
                                                     .dy = memory_of<T>(dy),
                                                     .dx = memory_of<T>(dx)});
  });
}

void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
           const Tensor& y) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_card::gated_forward<T>, {.kind = kind,
                                                        .size = x.size(),
                                                        .gate = memory_of<T>(gate),
                                                        .x = memory_of<T>(x),
                                                        .y = memory_of<T>(y)});
  });
}

void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients) {
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_card::gated_backward<T>, {.kind = kind,
                                                .size = x.size(),
                                                .gate = memory_of<T>(gate),
                                                .x = memory_of<T>(x),
                                                .dy = memory_of<T>(dy),
                                                .dgate = memory_of<T>(gradients.dgate),
                                                .dx = memory_of<T>(gradients.dx)});
  });
}

void dropout(Context& context, const DropoutKey& key, const Tensor& x, const Dropped& dropped) {
  const on_card::Dropout mask = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch(on_card::dropout<T>, {.mask = mask,
                                         .x = memory_of<T>(x),
                                         .y = memory_of<T>(dropped.y),
                                         .kept = bits_of(dropped.kept)});
  });
}

void dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy,
                      const Tensor& dx) {
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch(on_card::dropout_by_bits<T>, {.rows = dy.rows(),
                                                 .columns = dy.columns(),
                                                 .probability = probability,
                                                 .kept = bits_of(kept),
                                                 .x = memory_of<T>(dy),
                                                 .y = memory_of<T>(dx)});
  });
}

void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y) {
  const int32_t* position_ids = context.on_device(positions);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain(on_card::rotary<T>, {.rows = x.shape()[0],
                                                 .heads = x.shape()[1],
                                                 .head_dim = x.shape()[2],
                                                 .positions = position_ids,
                                                 .table = memory_of<float>(table),
                                                 .sign = turn == Turn::forwards ? 1.0f : -1.0f,
                                                 .x = x.rows_on_device<T>(),
                                                 .x_stride = x.row_stride(),
                                                 .y = memory_of<T>(y)});
  });
}

}  // namespace tril::ops::cuda
