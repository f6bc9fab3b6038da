#include "tril/kernels/columns.h"

#include "kernels/kernel_support.h"
#include "tril/kernels/gemm.h"
#include "tril/kernels/gemm_int8.h"

namespace tril::columns_test {
namespace {

std::vector<int32_t> random_columns(int64_t n) {
  const auto count = static_cast<size_t>(*rc::gen::inRange(0, 200));
  return *rc::gen::container<std::vector<int32_t>>(
      count, rc::gen::inRange<int32_t>(0, static_cast<int32_t>(n)));
}

// Every unit of the result by the formula of the contract, followed by guards.
template <class Unit>
void check_units(int64_t rows, int64_t n, const std::vector<int32_t>& columns, int threads) {
  const auto wide = static_cast<size_t>((n + 63) / 64 * 64);
  std::vector<Unit> panels(static_cast<size_t>(rows) * wide);
  for (size_t i = 0; i < panels.size(); ++i) panels[i] = static_cast<Unit>(i * 2654435761u + 1);
  const size_t narrow = (columns.size() + 63) / 64 * 64;
  constexpr size_t kGuard = 70;
  const auto mark = static_cast<Unit>(0x5a5a5a5a);
  std::vector<Unit> out(static_cast<size_t>(rows) * narrow + kGuard, mark);
  kernels::gather_columns(Parallel(threads), panels.data(), sizeof(Unit), rows, columns,
                          out.data());
  const auto at = [&](size_t row, size_t column) {
    return column / 64 * static_cast<size_t>(rows) * 64 + row * 64 + column % 64;
  };
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    for (size_t j = 0; j < narrow; ++j) {
      const Unit expected =
          j < columns.size() ? panels[at(row, static_cast<size_t>(columns[j]))] : Unit{0};
      RC_ASSERT(out[at(row, j)] == expected);
    }
  }
  for (size_t i = 0; i < kGuard; ++i)
    RC_ASSERT(out[static_cast<size_t>(rows) * narrow + i] == mark);
}

RC_GTEST_PROP(Columns, AreThoseChosenAndThenZeros, ()) {
  const auto rows = *rc::gen::inRange<int64_t>(0, 40);
  const auto n = *rc::gen::inRange<int64_t>(1, 300);
  const auto columns = random_columns(n);
  const int threads = *rc::gen::inRange(1, 4);
  check_units<uint32_t>(rows, n, columns, threads);
  check_units<uint16_t>(rows, n, columns, threads);
}

}  // namespace
}  // namespace tril::columns_test
