#include "tril/kernels/gemm_int8.h"

#include "kernels/kernel_support.h"

namespace tril::gemm_int8_test {
namespace {

using testing::Guarded;
using testing::random_floats;
using testing::rows_of;
using testing::same_bits;

struct Product {
  int64_t m = 0, n = 0, k = 0;
  std::vector<float> a, weight, bias;  // [m, k], [n, k], [n] or empty

  Product(Random& random, int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms) {
    a = random_floats(random, m * k);
    weight = random_floats(random, n * k);
    bias = random_floats(random, n);
  }
};

struct Packed {
  std::vector<int8_t> panels;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};
Packed pack(const Parallel& parallel, const Product& p) {
  Packed packed{std::vector<int8_t>(kernels::int8_panel_size(p.k, p.n), 99),
                std::vector<float>(p.n), std::vector<int32_t>(p.n)};
  kernels::pack_int8(parallel, p.weight.data(), p.n, p.k,
                     {packed.panels.data(), packed.scales.data(), packed.sums.data()});
  return packed;
}

std::vector<float> run(const Parallel& parallel, const Product& p) {
  const Packed packed = pack(parallel, p);
  std::vector<uint8_t> rows(p.m * kernels::int8_padded(p.k), 7);
  std::vector<float> scales(p.m);
  kernels::quantize_rows(parallel, p.a.data(), p.m, p.k, rows.data(), scales.data());
  Guarded c(p.m * p.n);
  const kernels::GemmInt8 product{.m = p.m,
                                  .n = p.n,
                                  .k = p.k,
                                  .a = rows.data(),
                                  .a_scales = scales.data(),
                                  .panels = packed.panels.data(),
                                  .scales = packed.scales.data(),
                                  .sums = packed.sums.data(),
                                  .bias = p.bias.empty() ? nullptr : p.bias.data(),
                                  .c = c.data()};
  kernels::gemm_int8(parallel, {&product, 1});
  return c.take();
}

// A row as the contract makes integers of it.
struct Integers {
  std::vector<int64_t> values;
  float scale = 0.0f;
};
Integers integers_of(std::span<const float> row) {
  Integers result;
  float largest = 0.0f;
  bool finite = true;
  for (const float x : row) {
    finite = finite && std::isfinite(x);
    largest = std::max(largest, std::fabs(x));
  }
  result.values.assign(row.size(), 0);
  if (!finite) {
    result.scale = std::numeric_limits<float>::quiet_NaN();
  } else if (largest >= kernels::kInt8Smallest) {
    result.scale = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (size_t i = 0; i < row.size(); ++i) {
      result.values[i] = static_cast<int64_t>(std::nearbyint(row[i] * inverse));
    }
  }
  return result;
}

// The contract as scalar loops, its sums in 64 bits.
std::vector<float> by_contract(const Product& p) {
  std::vector<float> c;
  for (int64_t row = 0; row < p.m; ++row) {
    const Integers a = integers_of(std::span(p.a).subspan(row * p.k, p.k));
    for (int64_t column = 0; column < p.n; ++column) {
      const Integers w = integers_of(std::span(p.weight).subspan(column * p.k, p.k));
      int64_t sum = 0;
      for (int64_t i = 0; i < p.k; ++i) sum += a.values[i] * w.values[i];
      const float product = static_cast<float>(sum) * a.scale * w.scale;
      c.push_back(p.bias.empty() ? product : product + p.bias[column]);
    }
  }
  return c;
}

RC_GTEST_PROP(GemmInt8, IsItsContract, ()) {
  Random random = testing::seeded();
  Product p(random, *rc::gen::inRange<int64_t>(0, 60), *rc::gen::inRange<int64_t>(0, 150),
            *rc::gen::inRange<int64_t>(0, 150));
  if (*rc::gen::arbitrary<bool>()) p.bias.clear();
  TRIL_HOLDS(same_bits(run(Parallel(2), p), by_contract(p)));
}

TEST(GemmInt8, EveryNumberOfRowsGivesARowTheSameBits) {
  Random random(2);
  for (const int64_t n : {1, 15, 64, 65, 130}) {
    const Product all(random, 50, n, 37);
    const std::vector<float> expected = by_contract(all);
    for (int64_t rows = 1; rows <= 13; ++rows) {
      Product part = all;
      part.m = rows;
      part.a = rows_of(all.a, all.k, 50 - rows, rows);
      ASSERT_TRUE(same_bits(run(Parallel(1), part), rows_of(expected, n, 50 - rows, rows)));
    }
  }
}

TEST(GemmInt8, ThreadsAndTargetsChangeNothing) {
  Random random(3);
  for (const Product& p : {Product(random, 5, 70, 40), Product(random, 131, 149, 67),
                           Product(random, 1, 700, 600), Product(random, 7, 3, 2050)}) {
    EXPECT_TRUE(
        testing::same_everywhere([&](const Parallel& parallel) { return run(parallel, p); }));
  }
}

// The largest sums there are: an instruction that saturates would show, and so would 31 bits.
TEST(GemmInt8, NothingSaturates) {
  Random random(4);
  for (const int64_t k : {int64_t{4}, int64_t{64}, kernels::kInt8MaxTerms}) {
    for (const float sign : {1.0f, -1.0f}) {
      Product p(random, 2, 3, k);
      std::fill(p.a.begin(), p.a.end(), 1.0f);
      std::fill(p.weight.begin(), p.weight.end(), sign);
      p.bias.clear();
      EXPECT_TRUE(
          testing::same_everywhere([&](const Parallel& parallel) { return run(parallel, p); }));
      EXPECT_TRUE(same_bits(run(Parallel(1), p), by_contract(p))) << k;
    }
  }
}

TEST(GemmInt8, WhatIsNotFiniteStaysInItsRow) {
  Random random(5);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    Product p(random, 9, 70, 33);
    const std::vector<float> clean = run(Parallel(1), p);
    p.a[4 * p.k + 32] = bad;
    const std::vector<float> c = run(Parallel(1), p);
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t i = 0; i < p.n; ++i) {
        if (row == 4) {
          EXPECT_TRUE(std::isnan(c[row * p.n + i]));
        } else {
          EXPECT_EQ(c[row * p.n + i], clean[row * p.n + i]);
        }
      }
    }
  }
}

TEST(GemmInt8, RowsOfZerosAndNearlyZerosGiveTheBias) {
  Random random(6);
  Product p(random, 3, 5, 20);
  std::fill(p.a.begin(), p.a.begin() + 20, 0.0f);
  std::fill(p.a.begin() + 20, p.a.begin() + 40, 0x1p-130f);
  const std::vector<float> c = run(Parallel(1), p);
  EXPECT_TRUE(same_bits(rows_of(c, 5, 0, 1), p.bias));
  EXPECT_TRUE(same_bits(rows_of(c, 5, 1, 1), p.bias));
  EXPECT_TRUE(same_bits(c, by_contract(p)));
}

TEST(GemmInt8, ARowIsUnpackedAsTheProductsSeeIt) {
  Random random(7);
  const Product p(random, 0, 131, 37);
  const Packed packed = pack(Parallel(1), p);
  for (int64_t row = 0; row < p.n; ++row) {
    const Integers expected = integers_of(std::span(p.weight).subspan(row * p.k, p.k));
    std::vector<float> out(p.k);
    kernels::unpack_int8_row(packed.panels.data(), packed.scales.data(), p.k, row, out.data());
    for (int64_t i = 0; i < p.k; ++i) {
      EXPECT_EQ(out[i], static_cast<float>(expected.values[i]) * expected.scale);
    }
  }
}

}  // namespace
}  // namespace tril::gemm_int8_test
