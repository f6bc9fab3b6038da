// How threads share matrix products: blocks of rows and panels, of one product or of several.
//
// Which task computes an element does not change it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tril/base/parallel.h"
#include "tril/kernels/gemm.h"

namespace tril::kernels {

// The part of a product that one task computes.
struct GemmBlock {
  int64_t row_begin, row_end;
  int64_t panel_begin, panel_end;
};

constexpr int64_t panels_of(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

// For at most kMostProducts products. Calls f(product, block) for blocks of at most `task_rows`
// rows that cover all products, enough of them to balance the threads. Below `serial_work`
// multiplications, waking another thread costs more than it saves.
template <class Product, class F>
void for_gemm_blocks(const Parallel& parallel, std::span<const Product> products, int64_t task_rows,
                     int64_t serial_work, const F& f) {
  int64_t work = 0;
  int64_t panels = 0;
  for (const Product& g : products) {
    work += g.m * g.n * std::max<int64_t>(g.k, 1);
    panels += panels_of(g.n);
  }
  if (work == 0) return;
  const bool serial = work < serial_work;
  int64_t column_blocks[kMostProducts];
  int64_t ends[kMostProducts];  // of the tasks of each product
  int64_t tasks = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& g = products[i];
    const int64_t row_blocks = (g.m + task_rows - 1) / task_rows;
    // A product gets tasks in proportion to its panels.
    const int64_t wanted = serial ? 1
                                  : (8 * parallel.threads() * panels_of(g.n) + panels - 1) /
                                        std::max<int64_t>(panels, 1);
    column_blocks[i] =
        std::clamp<int64_t>((wanted + row_blocks - 1) / std::max<int64_t>(row_blocks, 1), 1,
                            std::max<int64_t>(panels_of(g.n), 1));
    tasks += row_blocks * column_blocks[i];
    ends[i] = tasks;
  }
  const auto task = [&](int64_t index) {
    size_t i = 0;
    while (index >= ends[i]) ++i;
    const Product& g = products[i];
    if (g.n == 0) return;
    index -= i == 0 ? 0 : ends[i - 1];
    const int64_t row_begin = index / column_blocks[i] * task_rows;
    const int64_t block = index % column_blocks[i];
    f(g, GemmBlock{row_begin, std::min(g.m, row_begin + task_rows),
                   block * panels_of(g.n) / column_blocks[i],
                   (block + 1) * panels_of(g.n) / column_blocks[i]});
  };
  (serial ? Parallel(1) : parallel)(tasks, task);
}

}  // namespace tril::kernels
