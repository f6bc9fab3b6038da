#include "tril/ops/cuda_rows.h"

#include "tril/kernels/cuda/rows.h"
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
  note_all(context, a, b);
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      on_card::add<T>(stream, out.size(), memory_of<T>(a), memory_of<T>(b), memory_of<T>(out));
    });
  });
}

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  note_all(context, factor, x, x.size());
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::scale<T>(stream, x.size(), memory_of<float>(factor), memory_of<T>(x));
    });
  });
}

void fill(Context& context, float value, const Tensor& out) {
  note_all(context, out, out.size(), value);
  with_activation_type(out.dtype(), [&]<class T>(T) {
    context.launch(
        [&](Stream stream) { on_card::fill<T>(stream, out.size(), value, memory_of<T>(out)); });
  });
}

void assign(Context& context, const Tensor& from, const Tensor& to) {
  note_all(context, from, to, to.size());
  with_activation_type(from.dtype(), [&]<class From>(From) {
    with_activation_type(to.dtype(), [&]<class To>(To) {
      context.launch([&](Stream stream) {
        on_card::convert<From, To>(stream, to.size(), memory_of<From>(from), memory_of<To>(to));
      });
    });
  });
}

void norm(Context& context, const kernels::Norm& args, const Tensor& x, const NormResult& result) {
  note_all(context, x, args.weight, args.kind, args.epsilon);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      on_card::norm_forward<T>(stream, args, memory_of<T>(x), memory_of<T>(result.y),
                               memory_of<float>(result.stats));
    });
  });
}

void residual_norm(Context& context, const kernels::Norm& args, const DropoutKey& key,
                   const Tensor& x, const Tensor& f, const ResidualNorm& result) {
  note_all(context, x, f, args.weight, args.kind, args.epsilon, key.probability, key.site);
  on_card::Dropout mask;
  if (key.probability > 0.0f) mask = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      on_card::residual_norm_forward<T>(stream, args, mask, memory_of<T>(x), memory_of<T>(f),
                                        memory_of<T>(result.s), memory_of<T>(result.y),
                                        memory_of<float>(result.stats), bits_of(result.kept));
    });
  });
}

void residual_norm_gradients(Context& context, const kernels::Norm& args,
                             const ResidualNorm& forward, const Tensor& dy,
                             const ResidualNormGradients& gradients) {
  note_all(context, forward.s, forward.stats, dy, args.weight, args.kind, forward.probability);
  auto* partial =  // no scratch: it is read aside
      context.arena.allocate_array<float>(on_card::norm_backward_partial(args.rows, args.columns));
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::residual_norm_backward<T>(stream, args,
                                         {.s = memory_of<T>(forward.s),
                                          .stats = memory_of<float>(forward.stats),
                                          .dy = memory_of<T>(dy),
                                          .probability = forward.probability,
                                          .kept = bits_of(forward.kept),
                                          .dx = memory_of<T>(gradients.dx),
                                          .df = memory_of<T>(gradients.df),
                                          .partial = partial});
    });
  });
  context.aside(Lane::sums, [&] {
    context.launch([&](Stream stream) {
      on_card::merge_norm_gradients(stream, args, partial, memory_of<float>(gradients.dweight),
                                    memory_of<float>(gradients.dbias));
    });
  });
}

void embedding(Context& context, const Lookup& lookup, const Tensor& out) {
  WeightForm::Rows entries{lookup.table, out.columns()};
  if (lookup.packed != nullptr) entries = form_of(context, *lookup.packed).rows(*lookup.packed);
  const int32_t* ids = context.on_device(lookup.ids);
  note_all(context, entries.table, lookup.positions, lookup.scale);
  const bool placed = lookup.positions.defined();
  const int32_t* position_ids = placed ? context.on_device(lookup.position_ids) : nullptr;
  const auto look_up = [&]<class T, class Entry>(T, Entry) {
    context.launch_in_chain([&](Stream stream) {
      const on_card::Embedding<Entry> args{.rows = out.rows(),
                                           .columns = out.columns(),
                                           .scale = lookup.scale,
                                           .ids = ids,
                                           .table = memory_of<Entry>(entries.table),
                                           .table_stride = entries.stride,
                                           .position_ids = position_ids,
                                           .position_table = memory_of<float>(lookup.positions)};
      on_card::embedding_forward<T, Entry>(stream, args, memory_of<T>(out));
    });
    context.begin_chain();
  };
  if (entries.table.dtype() == DType::bf16) return look_up(BFloat16(), BFloat16());
  with_activation_type(out.dtype(), [&](auto type) { look_up(type, float()); });
}

void lookup_order(Context& context, const Mirrored<int32_t>& ids, const LookupOrder& to) {
  const int64_t rows = ids.size();
  const int64_t entries = to.starts.size() - 1;
  const int32_t* sorted_by = context.on_device(ids);
  note_all(context, sorted_by, entries);
  const Arena::Scope scratch(context.arena);
  void* workspace = context.arena.allocate(on_card::sort_by_id_workspace(rows));
  context.launch([&](Stream stream) {
    on_card::sort_by_id(stream, sorted_by, rows, entries, memory_of<int32_t>(to.order),
                        memory_of<int32_t>(to.starts), workspace);
  });
}

void embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                        const Tensor& dout, const LookupOrder& known, SliceOfSum slice,
                        const Tensor& dtable) {
  note_all(context, dout, dtable, scale, slice);
  const Arena::Scope scratch(context.arena);
  const LookupOrder order =
      known.starts.defined() ? known : ops::lookup_order(context, ids, dtable.rows());
  auto* partial = context.arena.allocate_array<float>(
      on_card::embedding_backward_partial(dout.rows(), dout.columns()));
  with_activation_type(dout.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::embedding_backward<T>(stream,
                                     {.rows = dout.rows(),
                                      .columns = dout.columns(),
                                      .entries = dtable.rows(),
                                      .scale = scale,
                                      .order = memory_of<int32_t>(order.order),
                                      .starts = memory_of<int32_t>(order.starts),
                                      .adds = slice == SliceOfSum::further},
                                     memory_of<T>(dout), partial, memory_of<float>(dtable));
    });
  });
}

void activation(Context& context, Activation kind, const Tensor& x, const Tensor& y) {
  note_all(context, x, kind);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      on_card::activation_forward<T>(stream, kind, x.size(), memory_of<T>(x), memory_of<T>(y));
    });
  });
}

void activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy,
                         const Tensor& dx) {
  note_all(context, x, dy, kind);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::activation_backward<T>(stream, kind, x.size(), memory_of<T>(x), memory_of<T>(dy),
                                      memory_of<T>(dx));
    });
  });
}

void gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
           const Tensor& y) {
  note_all(context, gate, x, kind);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      on_card::gated_forward<T>(stream, kind, x.size(), memory_of<T>(gate), memory_of<T>(x),
                                memory_of<T>(y));
    });
  });
}

void gated_gradients(Context& context, Activation kind, const Tensor& gate, const Tensor& x,
                     const Tensor& dy, const GatedGradients& gradients) {
  note_all(context, gate, x, dy, kind);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::gated_backward<T>(stream, kind, x.size(), memory_of<T>(gate), memory_of<T>(x),
                                 memory_of<T>(dy), memory_of<T>(gradients.dgate),
                                 memory_of<T>(gradients.dx));
    });
  });
}

void dropout(Context& context, const DropoutKey& key, const Tensor& x, const Dropped& dropped) {
  note_all(context, x, key.probability, key.site);
  const on_card::Dropout args = dropout_of(context, key, x);
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::dropout<T>(stream, args, memory_of<T>(x), memory_of<T>(dropped.y),
                          bits_of(dropped.kept));
    });
  });
}

void dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy,
                      const Tensor& dx) {
  note_all(context, kept, dy, probability);
  with_activation_type(dy.dtype(), [&]<class T>(T) {
    context.launch([&](Stream stream) {
      on_card::dropout_by_bits<T>(stream, dy.rows(), dy.columns(), probability, bits_of(kept),
                                  memory_of<T>(dy), memory_of<T>(dx));
    });
  });
}

void rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
            const Tensor& table, const Tensor& y) {
  note_all(context, x, x.row_stride(), table, turn);
  on_card::Rotary args{.rows = x.shape()[0],
                       .heads = x.shape()[1],
                       .head_dim = x.shape()[2],
                       .positions = context.on_device(positions),
                       .sign = turn == Turn::forwards ? 1.0f : -1.0f,
                       .x_stride = x.row_stride()};
  with_activation_type(x.dtype(), [&]<class T>(T) {
    context.launch_in_chain([&](Stream stream) {
      args.table = memory_of<float>(table);
      on_card::rotary<T>(stream, args, x.rows_on_device<T>(), memory_of<T>(y));
    });
  });
}

}  // namespace tril::ops::cuda
