#include "tril/ops/beam.h"

#include <algorithm>
#include <bit>

#include "tril/kernels/cuda/launches.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

void check_table(const Tensor& table, int64_t rows) {
  require(table.shape().rank() == 2 && table.dtype() == DType::i32 && table.rows() >= rows,
          ErrorCode::shape_mismatch, "beam: a table ", table.shape(), " of ", table.dtype(),
          " for ", rows, " rows");
}

template <class To, class From>
const To* uploaded_list(Context& context, std::span<const From> from) {
  static_assert(sizeof(To) == sizeof(From));
  auto* const list = context.host.allocate_array<To>(static_cast<int64_t>(from.size()));
  std::transform(from.begin(), from.end(), list,
                 [](const From& each) { return std::bit_cast<To>(each); });
  return context.uploaded(std::span<const To>(list, from.size()));
}

}  // namespace

void advance_beams(Context& context, const ChosenTokens& chosen, const Mirrored<int32_t>& positions,
                   std::span<const BeamGroup> groups, const Beams& beams, void* deliver_to) {
  const int64_t rows = chosen.tokens.rows();
  require(on_cuda(context), ErrorCode::internal, "beam: a step of the search on the CPU");
  require(positions.size() == rows && beams.tokens.size() >= rows && beams.scores.size() >= rows,
          ErrorCode::shape_mismatch, "beam: ", rows, " rows, ", positions.size(),
          " positions, memory for ", beams.tokens.size());
  check_table(beams.table, rows);
  int64_t most_width = 1;
  for (const BeamGroup& group : groups) {
    require(group.width >= 0 && group.width <= kernels::cuda::kMostBeams && group.first_row >= 0 &&
                group.first_row + group.width <= rows,
            ErrorCode::shape_mismatch, "beam: a group of ", group.width, " rows from ",
            group.first_row, " on of ", rows);
    most_width = std::max<int64_t>(most_width, group.width);
  }
  for (const int32_t position : positions) {
    require(position >= 0 && position < beams.table.columns(), ErrorCode::shape_mismatch,
            "beam: position ", position, ", the table has room for ", beams.table.columns());
  }
  only_on_cuda([&] {
    const kernels::cuda::AdvanceBeams args{
        .rows = rows,
        .groups = static_cast<int64_t>(groups.size()),
        .list = uploaded_list<kernels::cuda::BeamGroup>(context, groups),
        .most_width = most_width,
        .count = chosen.tokens.columns(),
        .choices = chosen.tokens.on_device<int32_t>(),
        .log_probs = chosen.log_probs.on_device(),
        .positions = context.on_device(positions),
        .tokens = beams.tokens.on_device<int32_t>(),
        .scores = beams.scores.on_device<double>(),
        .table = beams.table.on_device<int32_t>(),
        .table_stride = beams.table.columns(),
        .deliver_to = context.uploaded(deliver_to)};
    context.launch_in_chain(kernels::cuda::advance_beams, args);
    context.end_chain();
  });
}

void extend_table(Context& context, const Mirrored<int32_t>& positions,
                  const Mirrored<int32_t>& entries, const Tensor& table) {
  const int64_t rows = positions.size();
  require(entries.size() == rows, ErrorCode::shape_mismatch, "beam: ", rows, " positions, ",
          entries.size(), " entries");
  check_table(table, rows);
  for (const int32_t position : positions) {
    require(position >= 0 && position < table.columns(), ErrorCode::shape_mismatch,
            "beam: position ", position, ", the table has room for ", table.columns());
  }
  require(on_cuda(context), ErrorCode::internal, "beam: a table on the CPU");
  only_on_cuda([&] {
    const kernels::cuda::ExtendTable args{.rows = rows,
                                          .positions = context.on_device(positions),
                                          .entries = context.on_device(entries),
                                          .table = table.on_device<int32_t>(),
                                          .table_stride = table.columns()};
    context.launch(kernels::cuda::extend_table, args);
    // For the embedding that follows: kernels that begin after it know that the table is written.
    context.begin_chain();
  });
}

void begin_beams(Context& context, std::span<const BeginningRow> rows,
                 const Tensor& prefix_log_probs, const Beams& beams) {
  require(on_cuda(context), ErrorCode::internal, "beam: rows of a search on the CPU");
  const int64_t known = prefix_log_probs.defined() ? prefix_log_probs.size() : 0;
  for (const BeginningRow& row : rows) {
    require(row.row >= 0 && row.row < beams.tokens.size() && row.first >= 0 &&
                row.first + std::max(row.length, 0) <= known,
            ErrorCode::shape_mismatch, "beam: row ", row.row, " of ", beams.tokens.size(),
            ", its prefix ", row.length, " from ", row.first, " on of ", known);
  }
  only_on_cuda([&] {
    const kernels::cuda::SetRows args{
        .count = static_cast<int64_t>(rows.size()),
        .list = uploaded_list<kernels::cuda::BeginningRow>(context, rows),
        .prefix_log_probs = known > 0 ? prefix_log_probs.on_device() : nullptr,
        .tokens = beams.tokens.on_device<int32_t>(),
        .scores = beams.scores.on_device<double>()};
    context.launch(kernels::cuda::set_rows, args);
  });
}

void set_table(Context& context, std::span<const int32_t> rows, std::span<const int32_t> entries,
               const Tensor& table) {
  require(!rows.empty() && entries.size() % rows.size() == 0 &&
              static_cast<int64_t>(entries.size() / rows.size()) <= table.columns(),
          ErrorCode::shape_mismatch, "beam: ", entries.size(), " entries for ", rows.size(),
          " rows of a table ", table.shape());
  require(on_cuda(context), ErrorCode::internal, "beam: a table on the CPU");
  only_on_cuda([&] {
    const kernels::cuda::SetTable args{
        .count = static_cast<int64_t>(rows.size()),
        .rows = context.uploaded(rows),
        .entries = context.uploaded(entries),
        .columns = static_cast<int64_t>(entries.size() / rows.size()),
        .table = table.on_device<int32_t>(),
        .table_stride = table.columns()};
    context.launch(kernels::cuda::set_table, args);
  });
}

}  // namespace tril::ops
