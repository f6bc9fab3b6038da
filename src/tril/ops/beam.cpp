#include "tril/ops/beam.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tril/kernels/cuda/beam.h"
#include "tril/ops/on_cuda.h"

namespace tril::ops {
namespace {

constexpr auto kShape = ErrorCode::shape_mismatch;
constexpr double kNone = -std::numeric_limits<double>::infinity();

void check_table(const Tensor& table, int64_t rows) {
  require(table.shape().rank() == 2 && table.dtype() == DType::i32 && table.rows() >= rows, kShape,
          "beam: a table ", table.shape(), " of ", table.dtype(), " for ", rows, " rows");
}

// One group, on the host.
struct Continuation {
  double score;
  int64_t number;  // row * count + place
};
void advance_group(const ChosenTokens& chosen, int64_t first_row, int64_t length, int64_t width,
                   int32_t end, const Beams& beams, std::vector<Continuation>& all) {
  const int64_t count = chosen.tokens.columns();
  const int32_t* choices = chosen.tokens.data<int32_t>() + first_row * count;
  const float* log_probs = chosen.log_probs.data() + first_row * count;
  double* scores = beams.scores.data<double>() + first_row;
  int32_t* tokens = beams.tokens.data<int32_t>() + first_row;
  const int64_t stride = beams.table.columns();
  int32_t* table = beams.table.data<int32_t>() + first_row * stride;
  all.clear();
  for (int64_t number = 0; number < width * count; ++number) {
    const double before = scores[number / count];
    if (choices[number] >= 0 && before != kNone) {
      all.push_back({before + double{log_probs[number]}, number});
    }
  }
  std::sort(all.begin(), all.end(), [](const Continuation& a, const Continuation& b) {
    return a.score != b.score ? a.score > b.score : a.number < b.number;
  });
  if (static_cast<int64_t>(all.size()) > 2 * width) all.resize(static_cast<size_t>(2 * width));
  std::erase_if(all, [&](const Continuation& one) { return choices[one.number] == end; });
  if (static_cast<int64_t>(all.size()) > width) all.resize(static_cast<size_t>(width));
  const std::vector<int32_t> before(table, table + width * stride);
  for (int64_t row = 0; row < width; ++row) {
    const bool is_alive = row < static_cast<int64_t>(all.size());
    const int64_t number = is_alive ? all[static_cast<size_t>(row)].number : 0;
    scores[row] = is_alive ? all[static_cast<size_t>(row)].score : kNone;
    tokens[row] = is_alive ? choices[number] : 0;
    if (is_alive)
      std::copy_n(before.begin() + number / count * stride, length, table + row * stride);
  }
}

}  // namespace

void advance_beams(Context& context, const ChosenTokens& chosen, const Mirrored<int32_t>& positions,
                   int64_t width, int32_t end, const Beams& beams, void* deliver_to) {
  const int64_t rows = chosen.tokens.rows();
  require(width >= 1 && width <= kernels::cuda::kMostBeams && rows % width == 0, kShape,
          "beam: ", rows, " rows in groups of ", width);
  require(positions.size() == rows && beams.tokens.size() >= rows && beams.scores.size() >= rows,
          kShape, "beam: ", rows, " rows, ", positions.size(), " positions, memory for ",
          beams.tokens.size());
  check_table(beams.table, rows);
  for (const int32_t position : positions) {
    require(position >= 0 && position < beams.table.columns(), kShape, "beam: position ", position,
            ", the table has room for ", beams.table.columns());
  }
  if constexpr (kCudaBuilt) {
    if (on_cuda(context)) {
      const kernels::cuda::AdvanceBeams args{
          .groups = rows / width,
          .width = width,
          .count = chosen.tokens.columns(),
          .end = end,
          .choices = chosen.tokens.on_device<int32_t>(),
          .log_probs = chosen.log_probs.on_device(),
          .positions = context.on_device(positions),
          .tokens = beams.tokens.on_device<int32_t>(),
          .scores = beams.scores.on_device<double>(),
          .table = beams.table.on_device<int32_t>(),
          .table_stride = beams.table.columns(),
          .deliver_to = deliver_to == nullptr ? nullptr : context.uploaded(deliver_to)};
      for (const Tensor& kept : {beams.tokens, beams.scores, beams.table}) {
        context.queue.note(kept.address());
      }
      for (const int64_t size : {width, args.count, int64_t{end}, args.table_stride}) {
        context.queue.note(size);
      }
      context.launch_in_chain([&](Stream stream) { kernels::cuda::advance_beams(stream, args); });
      context.end_chain();
      return;
    }
  }
  if (deliver_to != nullptr) {
    const int64_t bytes = chosen.tokens.size() * size_of(DType::i32);
    std::memcpy(deliver_to, chosen.tokens.raw(), static_cast<size_t>(bytes));
    std::memcpy(static_cast<char*>(deliver_to) + bytes, chosen.log_probs.raw(),
                static_cast<size_t>(bytes));
  }
  std::vector<Continuation> all;
  for (int64_t row = 0; row < rows; row += width) {
    advance_group(chosen, row, positions[row] + 1, width, end, beams, all);
  }
}

void extend_table(Context& context, const Mirrored<int32_t>& positions,
                  const Mirrored<int32_t>& entries, const Tensor& table) {
  const int64_t rows = positions.size();
  require(entries.size() == rows, kShape, "beam: ", rows, " positions, ", entries.size(),
          " entries");
  check_table(table, rows);
  for (const int32_t position : positions) {
    require(position >= 0 && position < table.columns(), kShape, "beam: position ", position,
            ", the table has room for ", table.columns());
  }
  require(on_cuda(context), ErrorCode::internal, "beam: a table on the CPU");
  if constexpr (kCudaBuilt) {
    const kernels::cuda::ExtendTable args{.rows = rows,
                                          .positions = context.on_device(positions),
                                          .entries = context.on_device(entries),
                                          .table = table.on_device<int32_t>(),
                                          .table_stride = table.columns()};
    context.queue.note(table.address());
    context.launch([&](Stream stream) { kernels::cuda::extend_table(stream, args); });
    // For the embedding that follows: what begins behind that knows that the table is written.
    context.begin_chain();
  }
}

void set_beams(Context& context, std::span<const int32_t> rows, std::span<const int32_t> tokens,
               std::span<const double> scores, const Beams& beams) {
  require(rows.size() == tokens.size() && rows.size() == scores.size(), kShape,
          "beam: ", rows.size(), " rows, ", tokens.size(), " tokens, ", scores.size(), " scores");
  require(on_cuda(context), ErrorCode::internal, "beam: rows of a search on the CPU");
  if constexpr (kCudaBuilt) {
    const kernels::cuda::SetRows args{.count = static_cast<int64_t>(rows.size()),
                                      .rows = context.uploaded(rows),
                                      .new_tokens = context.uploaded(tokens),
                                      .new_scores = context.uploaded(scores),
                                      .tokens = beams.tokens.on_device<int32_t>(),
                                      .scores = beams.scores.on_device<double>()};
    context.launch([&](Stream stream) { kernels::cuda::set_rows(stream, args); });
  }
}

void set_table(Context& context, std::span<const int32_t> rows, std::span<const int32_t> entries,
               const Tensor& table) {
  require(!rows.empty() && entries.size() % rows.size() == 0 &&
              static_cast<int64_t>(entries.size() / rows.size()) <= table.columns(),
          kShape, "beam: ", entries.size(), " entries for ", rows.size(), " rows of a table ",
          table.shape());
  require(on_cuda(context), ErrorCode::internal, "beam: a table on the CPU");
  if constexpr (kCudaBuilt) {
    const kernels::cuda::SetTable args{
        .count = static_cast<int64_t>(rows.size()),
        .rows = context.uploaded(rows),
        .entries = context.uploaded(entries),
        .columns = static_cast<int64_t>(entries.size() / rows.size()),
        .table = table.on_device<int32_t>(),
        .table_stride = table.columns()};
    context.launch([&](Stream stream) { kernels::cuda::set_table(stream, args); });
  }
}

}  // namespace tril::ops
