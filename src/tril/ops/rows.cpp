#include "tril/ops/rows.h"

#include "tril/kernels/dropout.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"

namespace tril::ops {
namespace {

constexpr auto kShape = ErrorCode::shape_mismatch;

void check_same(std::string_view operation, const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), kShape, operation, ": ", a.shape(), " and ", b.shape(),
          " differ");
}

kernels::Norm norm_of(NormKind kind, float epsilon, const Tensor& x, const Tensor& weight,
                      const Tensor& bias) {
  require(weight.size() == x.columns(), kShape, "norm: rows have ", x.columns(),
          " columns, the weight ", weight.size());
  require(!bias.defined() || bias.size() == x.columns(), kShape, "norm: rows have ", x.columns(),
          " columns, the bias ", bias.size());
  require(x.columns() >= 1, kShape, "norm: rows without columns");
  return {.kind = kind,
          .rows = x.rows(),
          .columns = x.columns(),
          .epsilon = epsilon,
          .weight = weight.data(),
          .bias = bias.defined() ? bias.data() : nullptr};
}

void check_ids(std::string_view what, const Mirrored<int32_t>& ids, int64_t entries) {
  for (int64_t row = 0; row < ids.size(); ++row) {
    require(ids[row] >= 0 && ids[row] < entries, ErrorCode::invalid_argument, what, " ", ids[row],
            " in row ", row, " is not below ", entries);
  }
}

}  // namespace

Tensor add(Context& context, const Tensor& a, const Tensor& b) {
  check_same("add", a, b);
  Tensor out(context.arena, a.shape());
  kernels::add(context.parallel, a.size(), a.data(), b.data(), out.data());
  return out;
}

void add_into(Context& context, const Tensor& from, const Tensor& to) {
  check_same("add", from, to);
  kernels::add(context.parallel, to.size(), to.data(), from.data(), to.data());
}

void scale_by(Context& context, const Tensor& factor, const Tensor& x) {
  require(factor.size() == 1, kShape, "scale: the factor is ", factor.shape(), ", expected [1]");
  kernels::scale(context.parallel, x.size(), factor.data(), x.data());
}

Tensor filled(Context& context, const Shape& shape, float value) {
  Tensor out(context.arena, shape);
  kernels::fill(context.parallel, out.size(), value, out.data());
  return out;
}

NormResult norm(Context& context, NormKind kind, float epsilon, const Tensor& x,
                const Tensor& weight, const Tensor& bias) {
  const kernels::Norm args = norm_of(kind, epsilon, x, weight, bias);
  NormResult result{Tensor(context.arena, x.shape()), Tensor(context.arena, {x.rows(), 2})};
  kernels::norm_forward(context.parallel, args, x.data(), result.y.data(), result.stats.data());
  return result;
}

NormGradients norm_gradients(Context& context, NormKind kind, float epsilon, const Tensor& x,
                             const Tensor& weight, const Tensor& bias, const Tensor& stats,
                             const Tensor& dy) {
  check_same("norm gradient", x, dy);
  const kernels::Norm args = norm_of(kind, epsilon, x, weight, bias);
  NormGradients gradients{Tensor(context.arena, x.shape()), Tensor(context.arena, weight.shape()),
                          Tensor()};
  if (bias.defined()) gradients.dbias = Tensor(context.arena, bias.shape());
  kernels::norm_backward(context.parallel, args, x.data(), stats.data(), dy.data(),
                         gradients.dx.data(), gradients.dweight.data(),
                         bias.defined() ? gradients.dbias.data() : nullptr);
  return gradients;
}

Tensor embedding(Context& context, const Lookup& lookup) {
  const Tensor& table = lookup.table;
  const bool packed = !table.defined() && lookup.packed != nullptr;
  require(packed || table.shape().rank() == 2, kShape,
          "embedding: the table must be a matrix, got ", table.shape());
  check_ids("embedding: token", lookup.ids, packed ? lookup.packed->out : table.shape()[0]);
  kernels::Embedding args{.rows = lookup.ids.size(),
                          .columns = packed ? lookup.packed->in : table.shape()[1],
                          .scale = lookup.scale,
                          .ids = lookup.ids.host.data(),
                          .table = packed ? nullptr : table.data()};
  if (lookup.positions.defined()) {
    require(lookup.positions.shape().rank() == 2 && lookup.positions.shape()[1] == args.columns,
            kShape, "embedding: positions are ", lookup.positions.shape(), ", the table has ",
            args.columns, " columns");
    require(lookup.position_ids.size() == lookup.ids.size(), kShape,
            "embedding: ", lookup.ids.size(), " tokens but ", lookup.position_ids.size(),
            " positions");
    check_ids("embedding: position", lookup.position_ids, lookup.positions.shape()[0]);
    args.position_ids = lookup.position_ids.host.data();
    args.position_table = lookup.positions.data();
  }
  Tensor out(context.arena, {args.rows, args.columns});
  const Arena::Scope scratch(context.arena);
  if (packed) {  // the rows that are asked for, in the order they are asked for
    auto* rows = context.arena.allocate_array<float>(args.rows * args.columns);
    auto* order = context.arena.allocate_array<int32_t>(args.rows);
    context.parallel(args.rows, [&](int64_t row) {
      unpack_row(*lookup.packed, lookup.ids[row], rows + row * args.columns);
      order[row] = static_cast<int32_t>(row);
    });
    args.ids = order;
    args.table = rows;
  }
  kernels::embedding_forward(context.parallel, args, out.data());
  return out;
}

Tensor embedding_gradient(Context& context, const Mirrored<int32_t>& ids, int64_t entries,
                          float scale, const Tensor& dout) {
  check_ids("embedding gradient: id", ids, entries);
  require(dout.rows() == ids.size(), kShape, "embedding gradient: ", ids.size(), " ids but ",
          dout.rows(), " rows");
  Tensor dtable(context.arena, {entries, dout.columns()});
  const Arena::Scope scratch(context.arena);
  auto* order = context.arena.allocate_array<int32_t>(dout.rows());
  auto* starts = context.arena.allocate_array<int32_t>(entries + 1);
  kernels::sort_by_id(ids.host.data(), dout.rows(), entries, order, starts);
  kernels::embedding_backward(context.parallel, order, starts, dout.data(), scale, entries,
                              dout.columns(), dtable.data());
  return dtable;
}

Tensor activation(Context& context, Activation kind, const Tensor& x) {
  Tensor y(context.arena, x.shape());
  kernels::activation_forward(context.parallel, kind, x.size(), x.data(), y.data());
  return y;
}

Tensor activation_gradient(Context& context, Activation kind, const Tensor& x, const Tensor& dy) {
  check_same("activation gradient", x, dy);
  Tensor dx(context.arena, x.shape());
  kernels::activation_backward(context.parallel, kind, x.size(), x.data(), dy.data(), dx.data());
  return dx;
}

Tensor gated(Context& context, Activation kind, const Tensor& gate, const Tensor& x) {
  check_same("gated activation", gate, x);
  Tensor y(context.arena, x.shape());
  kernels::gated_forward(context.parallel, kind, x.size(), gate.data(), x.data(), y.data());
  return y;
}

GatedGradients gated_gradients(Context& context, Activation kind, const Tensor& gate,
                               const Tensor& x, const Tensor& dy) {
  check_same("gated activation gradient", x, dy);
  check_same("gated activation gradient", gate, x);
  GatedGradients gradients{Tensor(context.arena, x.shape()), Tensor(context.arena, x.shape())};
  kernels::gated_backward(context.parallel, kind, x.size(), gate.data(), x.data(), dy.data(),
                          gradients.dgate.data(), gradients.dx.data());
  return gradients;
}

Dropped dropout(Context& context, const DropoutKey& key, const Tensor& x) {
  const int64_t rows = x.rows();
  require(key.sentences.size() == rows && key.positions.size() == rows, kShape, "dropout: ", rows,
          " rows, but keys for ", key.sentences.size());
  require(key.probability >= 0.0f && key.probability < 1.0f, ErrorCode::invalid_argument,
          "dropout: probability ", key.probability, " is not in [0, 1)");
  require(x.columns() <= kernels::kDropoutMaxColumns, ErrorCode::unsupported,
          "dropout: ", x.columns(), " columns, at most ", kernels::kDropoutMaxColumns);
  Dropped dropped{
      Tensor(context.arena, x.shape()),
      Tensor(context.arena, {x.rows(), kernels::dropout_row_bytes(x.columns())}, DType::i8)};
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
  return dropped;
}

Tensor dropout_gradient(Context& context, float probability, const Tensor& kept, const Tensor& dy) {
  require(kept.rows() == dy.rows() && kept.columns() == kernels::dropout_row_bytes(dy.columns()),
          kShape, "dropout gradient: ", dy.shape(), " does not fit the bits ", kept.shape());
  Tensor dx(context.arena, dy.shape());
  kernels::dropout_by_bits(context.parallel, dy.rows(), dy.columns(), probability,
                           reinterpret_cast<const uint8_t*>(kept.data<int8_t>()), dy.data(),
                           dx.data());
  return dx;
}

Tensor rotary(Context& context, Turn turn, const Tensor& x, const Mirrored<int32_t>& positions,
              const Tensor& table) {
  require(x.shape().rank() == 3 && x.shape()[2] % 2 == 0, kShape,
          "rotary: expected [row, heads, an even head_dim], got ", x.shape());
  require(positions.size() == x.shape()[0], kShape, "rotary: ", x.shape()[0], " rows but ",
          positions.size(), " positions");
  require(table.shape().rank() == 2 && table.shape()[1] == x.shape()[2], kShape,
          "rotary: the table is ", table.shape(), ", head_dim is ", x.shape()[2]);
  check_ids("rotary: position", positions, table.shape()[0]);
  Tensor y(context.arena, x.shape());
  kernels::rotary(context.parallel,
                  {.rows = x.shape()[0],
                   .heads = x.shape()[1],
                   .head_dim = x.shape()[2],
                   .positions = positions.host.data(),
                   .table = table.data()},
                  turn, x.data(), y.data());
  return y;
}

}  // namespace tril::ops
