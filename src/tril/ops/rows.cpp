#include "tril/ops/rows.h"

#include <algorithm>

#include "tril/kernels/dropout.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"
#include "tril/ops/cuda_rows.h"
#include "tril/ops/expressions.h"

namespace tril::ops {
namespace {

void check_same(std::string_view operation, const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), ErrorCode::shape_mismatch, operation, ": ", a.shape(), " and ",
          b.shape(), " differ");
  require(a.dtype() == b.dtype(), ErrorCode::shape_mismatch, operation, ": ", a.dtype(), " and ",
          b.dtype(), " differ");
}

// A result with the shape and type of its input.
Tensor like(Context& context, const Tensor& x) {
  return Tensor(context.arena, x.shape(), x.dtype());
}

void check_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(weight.size() == x.columns(), ErrorCode::shape_mismatch, "norm: rows have ", x.columns(),
          " columns, the weight ", weight.size());
  require(!bias.defined() || bias.size() == x.columns(), ErrorCode::shape_mismatch,
          "norm: rows have ", x.columns(), " columns, the bias ", bias.size());
  require(x.columns() >= 1, ErrorCode::shape_mismatch, "norm: rows without columns");
  require(weight.device() == x.device() && (!bias.defined() || bias.device() == x.device()),
          ErrorCode::internal, "norm: the weight is on ", weight.device(), ", the rows on ",
          x.device());
}
kernels::Norm norm_of(NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
                      const Tensor& bias) {
  check_norm(x, weight, bias);
  return {.kind = kind,
          .rows = x.rows(),
          .columns = x.columns(),
          .epsilon = epsilon,
          .weight = weight.on_device(),
          .bias = bias.defined() ? bias.on_device() : nullptr};
}

void check_ids(std::string_view what, const Mirrored<int32_t>& ids, int64_t entries) {
  for (int64_t row = 0; row < ids.size(); ++row) {
    require(ids[row] >= 0 && ids[row] < entries, ErrorCode::invalid_argument, what, " ", ids[row],
            " in row ", row, " is not below ", entries);
  }
}

void check_dropout(const DropoutKey& key, const Tensor& x) {
  require(key.sentences.size() == x.rows() && key.positions.size() == x.rows(),
          ErrorCode::shape_mismatch, "dropout: ", x.rows(), " rows, but keys for ",
          key.sentences.size());
  require(key.probability >= 0.0f && key.probability < 1.0f, ErrorCode::invalid_argument,
          "dropout: probability ", key.probability, " is not in [0, 1)");
  require(x.columns() <= kernels::kDropoutMaxColumns, ErrorCode::unsupported,
          "dropout: ", x.columns(), " columns, at most ", kernels::kDropoutMaxColumns);
}

Tensor kept_bits(Context& context, const Tensor& x) {
  return Tensor(context.arena, {x.rows(), kernels::dropout_row_bytes(x.columns())}, DType::i8);
}

}  // namespace

Tensor add(Context& context, const Tensor& a, const Tensor& b) {
  check_same("add", a, b);
  const Tensor out = like(context, a);
  dispatch(
      context, [&] { kernels::add(context.parallel, a.size(), a.data(), b.data(), out.data()); },
      [&] { cuda::add(context, a, b, out); }, [&] { expressions::add(context, a, b, out); });
  return out;
}

void add_into(Context& context, const Tensor& from, const Tensor& to) {
  check_same("add", from, to);
  dispatch(
      context,
      [&] { kernels::add(context.parallel, to.size(), to.data(), from.data(), to.data()); },
      [&] { cuda::add(context, to, from, to); }, [&] { expressions::add(context, to, from, to); });
}

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  require(factor.size() == 1, ErrorCode::shape_mismatch, "scale: the factor is ", factor.shape(),
          ", expected [1]");
  dispatch(
      context, [&] { kernels::scale(context.parallel, x.size(), factor.data(), x.data()); },
      [&] { cuda::scale_by(context, factor, x); },
      [&] { expressions::scale_by(context, factor, x); });
}

Tensor scaled(Context& context, const Tensor& x, float factor) {
  const Tensor out = like(context, x);
  dispatch(
      context, [&] { kernels::scaled(context.parallel, x.size(), factor, x.data(), out.data()); },
      [&] { cuda::scaled(context, x, factor, out); },
      [&] { expressions::scaled(context, x, factor, out); });
  return out;
}

Tensor filled(Context& context, const Shape& shape, float value, DType type) {
  const Tensor out(context.arena, shape, type);
  dispatch(
      context, [&] { kernels::fill(context.parallel, out.size(), value, out.data()); },
      [&] { cuda::fill(context, value, out); }, [&] { expressions::fill(context, value, out); });
  return out;
}

void assign(Context& context, const Tensor& from, const Tensor& to) {
  require(from.size() == to.size(), ErrorCode::shape_mismatch, "assign: ", from.shape(), " to ",
          to.shape());
  dispatch(
      context, [&] { std::copy_n(from.data(), from.size(), to.data()); },
      [&] { cuda::assign(context, from, to); });
}

Tensor dense(Context& context, const Tensor& x) {
  if (x.dense()) return x;
  const Tensor copy(context.arena, x.shape(), x.dtype());
  const int64_t each = size_of(x.dtype());
  context.copy_rows({.from = x.raw_rows(),
                     .step = x.row_stride() * each,
                     .to = copy.raw(),
                     .bytes = copy.row_stride() * each,
                     .rows = x.shape()[0]});
  return copy;
}

Tensor as_activations(Context& context, const Tensor& x) {
  if (x.dtype() == context.activations) return x;
  Tensor rounded(context.arena, x.shape(), context.activations);
  assign(context, x, rounded);
  return rounded;
}

NormResult norm(Context& context, NormKind kind, float epsilon, const Tensor& x,
                const Tensor& weight, const Tensor& bias) {
  check_norm(x, weight, bias);
  const NormResult result{like(context, x), Tensor(context.arena, {x.rows(), 2}, context.sums())};
  const auto args = [&] { return norm_of(kind, epsilon, x, weight, bias); };
  dispatch(
      context,
      [&] {
        kernels::norm_forward(context.parallel, args(), x.data(), result.y.data(),
                              result.stats.data());
      },
      [&] { cuda::norm(context, args(), x, result); },
      [&] { expressions::norm(context, kind, epsilon, x, weight, bias, result); });
  return result;
}

NormGradients norm_gradients(Context& context, NormKind kind, float epsilon, const Tensor& x,
                             const Tensor& weight, const Tensor& bias, const Tensor& stats,
                             const Tensor& dy) {
  check_same("norm gradient", x, dy);
  check_norm(x, weight, bias);
  NormGradients gradients{
      like(context, x), Tensor(context.arena, weight.shape(), context.sums()), {}};
  if (bias.defined()) gradients.dbias = Tensor(context.arena, bias.shape(), context.sums());
  const auto args = [&] { return norm_of(kind, epsilon, x, weight, bias); };
  dispatch(
      context,
      [&] {
        kernels::norm_backward(context.parallel, args(), x.data(), stats.data(), dy.data(),
                               gradients.dx.data(), gradients.dweight.data(),
                               bias.defined() ? gradients.dbias.data() : nullptr);
      },
      [&] {
        cuda::residual_norm_gradients(context, args(), {.s = x, .stats = stats}, dy,
                                      {gradients.dx, {}, gradients.dweight, gradients.dbias});
      },
      [&] {
        expressions::norm_gradients(context, kind, epsilon, x, weight, stats, dy, gradients);
      });
  return gradients;
}

ResidualNorm residual_norm(Context& context, NormKind kind, float epsilon, const Tensor& x,
                           const Tensor& f, const DropoutKey& key, const Tensor& weight,
                           const Tensor& bias) {
  check_same("residual norm", x, f);
  const bool drops = key.probability != 0.0f;
  if (drops) check_dropout(key, x);
  const auto one_by_one = [&]() -> ResidualNorm {
    const Dropped dropped = drops ? dropout(context, key, f) : Dropped{f, {}};
    const Tensor s = add(context, x, dropped.y);
    const NormResult normed = norm(context, kind, epsilon, s, weight, bias);
    return {s, normed.y, normed.stats, dropped.kept, key.probability};
  };
  return dispatch(context, one_by_one, [&] {
    const kernels::Norm args = norm_of(kind, epsilon, x, weight, bias);
    ResidualNorm result{like(context, x),
                        like(context, x),
                        Tensor(context.arena, {x.rows(), 2}),
                        {},
                        key.probability};
    if (drops) result.kept = kept_bits(context, x);
    cuda::residual_norm(context, args, key, x, f, result);
    return result;
  });
}

ResidualNormGradients residual_norm_gradients(Context& context, NormKind kind, float epsilon,
                                              const ResidualNorm& forward, const Tensor& weight,
                                              const Tensor& bias, const Tensor& dy) {
  const bool dropped = forward.kept.defined();
  const auto one_by_one = [&] {
    const NormGradients normed =
        norm_gradients(context, kind, epsilon, forward.s, weight, bias, forward.stats, dy);
    ResidualNormGradients gradients{normed.dx, {}, normed.dweight, normed.dbias};
    if (dropped) {
      gradients.df = dropout_gradient(context, forward.probability, forward.kept, normed.dx);
    }
    return gradients;
  };
  return dispatch(context, one_by_one, [&] {
    check_same("residual norm gradient", forward.s, dy);
    const kernels::Norm args = norm_of(kind, epsilon, forward.s, weight, bias);
    ResidualNormGradients gradients{
        like(context, dy), {}, Tensor(context.arena, weight.shape()), {}};
    if (dropped) gradients.df = like(context, dy);
    if (bias.defined()) gradients.dbias = Tensor(context.arena, bias.shape());
    cuda::residual_norm_gradients(context, args, forward, dy, gradients);
    return gradients;
  });
}

namespace {

void embedding_on_cpu(Context& context, const Lookup& lookup, const Tensor& out) {
  const bool packed = !lookup.table.defined();
  const int64_t rows = out.rows(), columns = out.columns();
  kernels::Embedding args{.rows = rows,
                          .columns = columns,
                          .scale = lookup.scale,
                          .ids = lookup.ids.host.data(),
                          .table = packed ? nullptr : lookup.table.data()};
  if (lookup.positions.defined()) {
    args.position_ids = lookup.position_ids.host.data();
    args.position_table = lookup.positions.data();
  }
  const Arena::Scope scratch(context.arena);
  if (packed) {  // the rows that are asked for, in the order they are asked for
    auto* unpacked = context.arena.allocate_array<float>(rows * columns);
    auto* order = context.arena.allocate_array<int32_t>(rows);
    const WeightForm& form = form_of(context, *lookup.packed);
    context.parallel(rows, [&](int64_t row) {
      form.unpack_row(*lookup.packed, lookup.ids[row], unpacked + row * columns);
      order[row] = static_cast<int32_t>(row);
    });
    args.ids = order;
    args.table = unpacked;
  }
  kernels::embedding_forward(context.parallel, args, out.data());
}

}  // namespace

Tensor embedding(Context& context, const Lookup& lookup) {
  const Tensor& table = lookup.table;
  const bool packed = !table.defined() && lookup.packed != nullptr;
  require(packed || table.shape().rank() == 2, ErrorCode::shape_mismatch,
          "embedding: the table must be a matrix, got ", table.shape());
  check_ids("embedding: token", lookup.ids, packed ? lookup.packed->out : table.shape()[0]);
  const int64_t rows = lookup.ids.size();
  const int64_t columns = packed ? lookup.packed->in : table.shape()[1];
  if (lookup.positions.defined()) {
    require(lookup.positions.shape().rank() == 2 && lookup.positions.shape()[1] == columns,
            ErrorCode::shape_mismatch, "embedding: positions are ", lookup.positions.shape(),
            ", the table has ", columns, " columns");
    require(lookup.position_ids.size() == rows, ErrorCode::shape_mismatch, "embedding: ", rows,
            " tokens but ", lookup.position_ids.size(), " positions");
    check_ids("embedding: position", lookup.position_ids, lookup.positions.shape()[0]);
  }
  const Tensor out(context.arena, {rows, columns}, context.activations);
  dispatch(
      context, [&] { embedding_on_cpu(context, lookup, out); },
      [&] { cuda::embedding(context, lookup, out); },
      [&] { expressions::embedding(context, lookup, out); });
  return out;
}

LookupOrder lookup_order(Context& context, const Mirrored<int32_t>& ids, int64_t entries) {
  return dispatch(
      context, [] { return LookupOrder{}; },
      [&] {
        check_ids("embedding gradient: id", ids, entries);
        const LookupOrder result{Tensor(context.arena, {ids.size()}, DType::i32),
                                 Tensor(context.arena, {entries + 1}, DType::i32)};
        cuda::lookup_order(context, ids, result);
        return result;
      });
}

namespace {

void check_lookup_gradient(const Mirrored<int32_t>& ids, int64_t entries, const Tensor& dout) {
  check_ids("embedding gradient: id", ids, entries);
  require(dout.rows() == ids.size(), ErrorCode::shape_mismatch, "embedding gradient: ", ids.size(),
          " ids but ", dout.rows(), " rows");
}

}  // namespace

void add_embedding_gradient(Context& context, const Mirrored<int32_t>& ids, float scale,
                            const Tensor& dout, const LookupOrder& order, const Tensor& dtable) {
  const auto on_cpu = [&] {
    const Arena::Scope scratch(context.arena);
    add_into(context, embedding_gradient(context, ids, dtable.rows(), scale, dout), dtable);
  };
  dispatch(context, on_cpu, [&] {
    check_lookup_gradient(ids, dtable.rows(), dout);
    cuda::embedding_gradient(context, ids, scale, dout, order, SliceOfSum::further, dtable);
  });
}

Tensor embedding_gradient(Context& context, const Mirrored<int32_t>& ids, int64_t entries,
                          float scale, const Tensor& dout, const LookupOrder& known) {
  check_lookup_gradient(ids, entries, dout);
  const Tensor dtable(context.arena, {entries, dout.columns()}, context.sums());
  const auto on_cpu = [&] {
    const Arena::Scope scratch(context.arena);
    auto* order = context.arena.allocate_array<int32_t>(dout.rows());
    auto* starts = context.arena.allocate_array<int32_t>(entries + 1);
    kernels::sort_by_id(ids.host.data(), dout.rows(), entries, order, starts);
    kernels::embedding_backward(context.parallel, order, starts, dout.data(), scale, entries,
                                dout.columns(), dtable.data());
  };
  dispatch(
      context, on_cpu,
      [&] {
        cuda::embedding_gradient(context, ids, scale, dout, known, SliceOfSum::first, dtable);
      },
      [&] { expressions::embedding_gradient(context, ids, scale, dout, dtable); });
  return dtable;
}

Tensor activation(Context& context, Activation kind, const Tensor& x) {
  const Tensor y = like(context, x);
  dispatch(
      context,
      [&] { kernels::activation_forward(context.parallel, kind, x.size(), x.data(), y.data()); },
      [&] { cuda::activation(context, kind, x, y); },
      [&] { expressions::activation(context, kind, x, y); });
  return y;
}

Tensor activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy) {
  check_same("activation gradient", x, dy);
  const Tensor dx = like(context, x);
  dispatch(
      context,
      [&] {
        kernels::activation_backward(context.parallel, kind, x.size(), x.data(), dy.data(),
                                     dx.data());
      },
      [&] { cuda::activation_gradient(context, kind, x, dy, dx); },
      [&] { expressions::activation_gradient(context, kind, x, dy, dx); });
  return dx;
}

Tensor gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x) {
  check_same("gated activation", gate, x);
  const Tensor y = like(context, x);
  dispatch(
      context,
      [&] {
        kernels::gated_forward(context.parallel, kind, x.size(), gate.data(), x.data(), y.data());
      },
      [&] { cuda::gated(context, kind, gate, x, y); },
      [&] { expressions::gated(context, kind, gate, x, y); });
  return y;
}

GatedGradients gated_gradients(Context& context, Activation kind, const Tensor& gate,
                               const Tensor& x, const Tensor& dy) {
  check_same("gated activation gradient", x, dy);
  check_same("gated activation gradient", gate, x);
  const GatedGradients gradients{like(context, x), like(context, x)};
  dispatch(
      context,
      [&] {
        kernels::gated_backward(context.parallel, kind, x.size(), gate.data(), x.data(), dy.data(),
                                gradients.dgate.data(), gradients.dx.data());
      },
      [&] { cuda::gated_gradients(context, kind, gate, x, dy, gradients); },
      [&] { expressions::gated_gradients(context, kind, gate, x, dy, gradients); });
  return gradients;
}

Dropped dropout(Context& context, const DropoutKey& key, const Tensor& x) {
  check_dropout(key, x);
  const Dropped dropped{like(context, x), kept_bits(context, x)};
  dispatch(
      context,
      [&] {
        kernels::dropout(context.parallel,
                         {.rows = x.rows(),
                          .columns = x.columns(),
                          .probability = key.probability,
                          .seed = key.seed,
                          .step = key.step,
                          .site = key.site,
                          .sentences = key.sentences.host.data(),
                          .positions = key.positions.host.data()},
                         x.data(), dropped.y.data(),
                         reinterpret_cast<uint8_t*>(dropped.kept.data<int8_t>()));
      },
      [&] { cuda::dropout(context, key, x, dropped); });
  return dropped;
}

Tensor dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy) {
  require(kept.rows() == dy.rows() && kept.columns() == kernels::dropout_row_bytes(dy.columns()),
          ErrorCode::shape_mismatch, "dropout gradient: ", dy.shape(), " does not fit the bits ",
          kept.shape());
  const Tensor dx = like(context, dy);
  dispatch(
      context,
      [&] {
        kernels::dropout_by_bits(context.parallel, dy.rows(), dy.columns(), probability,
                                 reinterpret_cast<const uint8_t*>(kept.data<int8_t>()), dy.data(),
                                 dx.data());
      },
      [&] { cuda::dropout_gradient(context, probability, kept, dy, dx); });
  return dx;
}

Tensor rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
              const Tensor& table) {
  require(x.shape().rank() == 3 && x.shape()[2] % 2 == 0, ErrorCode::shape_mismatch,
          "rotary: expected [row, heads, an even head_dim], got ", x.shape());
  require(positions.size() == x.shape()[0], ErrorCode::shape_mismatch, "rotary: ", x.shape()[0],
          " rows but ", positions.size(), " positions");
  require(table.shape().rank() == 2 && table.shape()[1] == x.shape()[2], ErrorCode::shape_mismatch,
          "rotary: the table is ", table.shape(), ", head_dim is ", x.shape()[2]);
  check_ids("rotary: position", positions, table.shape()[0]);
  const Tensor y = like(context, x);
  dispatch(
      context,
      [&] {
        kernels::rotary(context.parallel,
                        {.rows = x.shape()[0],
                         .heads = x.shape()[1],
                         .head_dim = x.shape()[2],
                         .positions = positions.host.data(),
                         .table = table.data()},
                        turn, x.data(), y.data());
      },
      [&] { cuda::rotary(context, turn, x, positions, table, y); },
      [&] { expressions::rotary(context, turn, x, positions, table, y); });
  return y;
}

}  // namespace tril::ops
