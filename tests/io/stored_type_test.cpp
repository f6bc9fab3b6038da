#include "tril/io/stored_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/rng.h"

namespace tril::stored_type_test {
namespace {

// By its definition, in double.
double value_of_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  using Double = std::numeric_limits<double>;
  if (exponent == 0x1f) return fraction == 0 ? sign * Double::infinity() : Double::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(StoredType, EveryHalfIsReadExactlyAndWrittenBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const double expected = value_of_half(half.bits);
    const float value = to_f32(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(double{value}, expected) << bits;
      EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
    EXPECT_EQ(to_f16(value).bits, half.bits);  // NaN too
  }
}

// The nearest half, and among two equally near the even one, by search.
uint16_t nearest_half(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(double{value});
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7c00);  // half way past the largest
  uint16_t low = 0;
  for (uint16_t step = 0x4000; step > 0; step = static_cast<uint16_t>(step / 2)) {
    const auto tried = static_cast<uint16_t>(low + step);
    if (tried <= 0x7bff && value_of_half(tried) <= magnitude) low = tried;
  }
  const double below = magnitude - value_of_half(low);
  const double above =
      low == 0x7bff ? 65536 - magnitude : value_of_half(static_cast<uint16_t>(low + 1)) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<uint16_t>(sign | (up ? low + 1 : low));
}

TEST(StoredType, FloatsAreRoundedToTheNearestHalf) {
  std::vector<float> values = {0.0f,         -0.0f,        65504.0f, 65519.0f,  65519.996f,
                               65520.0f,     1e10f,        INFINITY, -INFINITY, 0x1p-24f,
                               0x1p-25f,     0x1.8p-25f,   0x1p-26f, 0x1p-14f,  0x1.ff8p-15f,
                               0x1.ffcp-15f, 0x1.ffep-15f, 1e-40f};
  for (int bits = 0; bits < 0x7c00; bits += 7) {  // half way between two, and beside it
    const float low = to_f32(Float16{static_cast<uint16_t>(bits)});
    const float middle = low + (to_f32(Float16{static_cast<uint16_t>(bits + 1)}) - low) / 2;
    for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      values.push_back(value);
    }
  }
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    values.push_back(std::bit_cast<float>(random.bits()));
  }
  for (const float value : values) {
    for (const float signed_value : {value, -value}) {
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(to_f32(to_f16(signed_value))));
      } else {
        EXPECT_EQ(to_f16(signed_value).bits, nearest_half(signed_value)) << signed_value;
      }
    }
  }
}

template <class T>
std::vector<float> read(StoredType type, const std::vector<T>& elements) {
  EXPECT_EQ(size_of(type), static_cast<int64_t>(sizeof(T)));
  std::vector<char> bytes(1 + elements.size() * sizeof(T));  // not aligned
  std::memcpy(bytes.data() + 1, elements.data(), elements.size() * sizeof(T));
  std::vector<float> values(elements.size());
  read_elements(type, bytes.data() + 1, values);
  return values;
}

template <class T>
std::vector<T> write(StoredType type, const std::vector<float>& values) {
  std::vector<char> bytes(1 + values.size() * sizeof(T));
  write_elements(type, values, bytes.data() + 1);
  std::vector<T> elements(values.size());
  std::memcpy(elements.data(), bytes.data() + 1, elements.size() * sizeof(T));
  return elements;
}

TEST(StoredType, IntegersAndDoublesAreRounded) {
  using Floats = std::vector<float>;
  EXPECT_EQ(read<int8_t>(StoredType::i8, {-128, 0, 127}), (Floats{-128, 0, 127}));
  EXPECT_EQ(read<uint8_t>(StoredType::u8, {0, 200, 255}), (Floats{0, 200, 255}));
  EXPECT_EQ(read<uint8_t>(StoredType::boolean, {0, 1, 2, 255}), (Floats{0, 1, 1, 1}));
  EXPECT_EQ(read<int16_t>(StoredType::i16, {-32768, 32767}), (Floats{-32768, 32767}));
  EXPECT_EQ(read<int32_t>(StoredType::i32, {16777217, 16777219, -3}),
            (Floats{16777216, 16777220, -3}));
  EXPECT_EQ(read<int64_t>(StoredType::i64, {INT64_MIN, INT64_MAX, 5}),
            (Floats{-0x1p63f, 0x1p63f, 5}));
  EXPECT_EQ(read<double>(StoredType::f64, {0.1, 1e300, -1e-300, 1 + 0x1p-24}),
            (Floats{0.1f, INFINITY, -0.0f, 1.0f}));
}

TEST(StoredType, FloatsAreWrittenInEveryType) {
  const std::vector<float> values = {0.0f, 1.5f, 2.5f, -3.4f, 300.0f, -1e30f, 1e30f, NAN};
  EXPECT_EQ(write<int8_t>(StoredType::i8, values),
            (std::vector<int8_t>{0, 2, 2, -3, 127, -128, 127, 0}));
  EXPECT_EQ(write<uint8_t>(StoredType::u8, values),
            (std::vector<uint8_t>{0, 2, 2, 0, 255, 0, 255, 0}));
  EXPECT_EQ(write<int16_t>(StoredType::i16, values),
            (std::vector<int16_t>{0, 2, 2, -3, 300, -32768, 32767, 0}));
  EXPECT_EQ(write<int32_t>(StoredType::i32, values),
            (std::vector<int32_t>{0, 2, 2, -3, 300, INT32_MIN, INT32_MAX, 0}));
  EXPECT_EQ(write<int64_t>(StoredType::i64, values),
            (std::vector<int64_t>{0, 2, 2, -3, 300, INT64_MIN, INT64_MAX, 0}));
  EXPECT_EQ(write<uint8_t>(StoredType::boolean, values),
            (std::vector<uint8_t>{0, 1, 1, 1, 1, 1, 1, 1}));
  const auto doubles = write<double>(StoredType::f64, values);
  const auto halves = write<uint16_t>(StoredType::bf16, values);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    EXPECT_EQ(doubles[i], double{values[i]});
    EXPECT_EQ(halves[i], to_bf16(values[i]).bits);
  }
}

TEST(StoredType, NamesAndTypesGoBothWays) {
  for (const StoredType type : kStoredTypes) {
    EXPECT_EQ(stored_type_named(to_string(type)), type);
    if (const auto ours = dtype_of(type)) {
      EXPECT_EQ(stored_type_of(*ours), type);
      EXPECT_EQ(size_of(*ours), size_of(type));
    }
  }
  EXPECT_EQ(stored_type_named("f16"), std::nullopt);
  EXPECT_EQ(stored_type_named(""), std::nullopt);
  EXPECT_THROW(stored_type_of(DType::expression), Error);
}

}  // namespace
}  // namespace tril::stored_type_test
