// Expression: a number that does not compute but remembers how it was made.
//
// It stands for one fp32 value. Leaves are weights, looked-up tokens and constants; the result of
// an operation is a hash of the operation and its operands, in order. Where two numbers have the
// same hash they are the same expression, so they have the same bits whatever the weights and the
// tokens are (a NaN counts as one value). That assumes that 128-bit hashes of different expressions
// do not collide; they are not made to resist an adversary.
//
// A number also knows which input positions it was made from. The positions a row may see are an
// interval, so the smallest interval that contains all positions of a number is enough: it lies
// within the permitted one exactly if every position does.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "tril/base/dtype.h"

namespace tril {

// Positions [lo, hi) of the source and of the target, as the proof numbers them. Empty: lo >= hi.
struct Reach {
  struct Side {
    int32_t lo = std::numeric_limits<int32_t>::max();
    int32_t hi = 0;

    constexpr bool empty() const { return lo >= hi; }
    constexpr bool within(int32_t first, int32_t end) const {
      return empty() || (first <= lo && hi <= end);
    }
    bool operator==(const Side&) const = default;
  };
  Side source{};
  Side target{};

  static constexpr Reach source_at(int32_t position) { return {{position, position + 1}, {}}; }
  static constexpr Reach target_at(int32_t position) { return {{}, {position, position + 1}}; }
  bool operator==(const Reach&) const = default;
};
constexpr Reach::Side joined(const Reach::Side& a, const Reach::Side& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}
constexpr Reach joined(const Reach& a, const Reach& b) {
  return {joined(a.source, b.source), joined(a.target, b.target)};
}

// 128 bits that stand for an expression.
struct ExpressionHash {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const ExpressionHash&) const = default;
};

struct Expression {
  ExpressionHash hash{};
  Reach reach{};
};
static_assert(sizeof(Expression) == size_of(DType::expression));

// What makes a number. The names of operations are in kernels/model/arithmetic.h and
// cuda_functions.h, which say what each computes.
enum class Operation : uint64_t {
  constant = 1,
  weight,
  lookup,
  add,
  subtract,
  multiply,
  divide,
  fma,
  fnma,
  square_root,
  maximum,
  minimum,
  larger,
  round,
  scale_by_power,
  magnitude,
  copy_sign,
  greater,
  differs,
  select,
  negate,
  larger_number,
  at_most,
  cuda_exp2,
  cuda_exp,
  cuda_erf,
  tensor_core_step,
  round_to_bf16,
  larger_magnitude,
  int8_inverse,
  int8_scale,
  nearest_integer,
  add_product,
  to_float,
  add_bf16_pair,
  logarithm,
  is_label,
  add_in_double,
  times_in_double,
  nothing,
};

// Absorbs words one after the other; the result depends on all of them and on their order.
class ExpressionHasher {
 public:
  explicit constexpr ExpressionHasher(Operation operation)
      : low_(static_cast<uint64_t>(operation) * kFirst), high_(~low_) {}

  constexpr ExpressionHasher& operator<<(uint64_t word) {
    low_ = std::rotl(low_ ^ (word * kFirst), 29) * kSecond + high_;
    high_ = std::rotl(high_ ^ (word * kSecond), 33) * kFirst + low_;
    return *this;
  }
  // A hash is mixed already, unlike a word, which is often a small number.
  constexpr ExpressionHasher& operator<<(const ExpressionHash& hash) {
    low_ = std::rotl(low_ ^ hash.low, 29) * kSecond + high_;
    high_ = std::rotl(high_ ^ hash.high, 33) * kFirst + low_;
    return *this;
  }
  constexpr ExpressionHash finish() const {
    const uint64_t low = mixed(low_ + high_);
    return {low, mixed(high_ ^ std::rotl(low, 23))};
  }

  // Odd, so that every step has an inverse: tests read constants back from their hashes.
  static constexpr uint64_t kFirst = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kSecond = 0xd6e8feb86659fd93;

 private:
  static constexpr uint64_t mixed(uint64_t x) {
    x ^= x >> 32;
    x *= kSecond;
    x ^= x >> 29;
    x *= kFirst;
    return x ^ (x >> 32);
  }

  uint64_t low_;
  uint64_t high_;
};

// How many operations this thread has made.
inline thread_local int64_t expressions_made = 0;

#ifdef TRIL_RECORD_EXPRESSIONS
// Sees every operation that its thread makes. A test compiles the operations with it, to give
// expressions their values (tests/prove/valuation.h); in the library even the question whether
// there is one would cost a third of a product's time.
class ExpressionRecorder {
 public:
  virtual void see(Operation operation, std::span<const ExpressionHash> operands,
                   const ExpressionHash& result) = 0;

 protected:
  ~ExpressionRecorder() = default;
};
inline thread_local ExpressionRecorder* expression_recorder = nullptr;
#endif

// An operation on expressions.
template <class... Operands>
Expression expression(Operation operation, const Operands&... operands) {
  ExpressionHasher hasher(operation);
  Expression result;
  ((hasher << operands.hash), ...);
  ((result.reach = joined(result.reach, operands.reach)), ...);
  result.hash = hasher.finish();
  ++expressions_made;
#ifdef TRIL_RECORD_EXPRESSIONS
  if (expression_recorder != nullptr) {
    const ExpressionHash hashes[] = {operands.hash...};
    expression_recorder->see(operation, hashes, result.hash);
  }
#endif
  return result;
}

// The hash of a name, for leaves.
constexpr uint64_t hash_of_name(std::string_view name) {
  ExpressionHasher hasher(Operation::constant);
  for (const char c : name) hasher << static_cast<uint64_t>(static_cast<unsigned char>(c));
  return hasher.finish().low;
}
constexpr Expression constant_leaf(float value) {
  return {(ExpressionHasher(Operation::constant) << std::bit_cast<uint32_t>(value)).finish(), {}};
}
// Element `index` of the weight with this name.
constexpr Expression weight_leaf(uint64_t name, int64_t index) {
  return {(ExpressionHasher(Operation::weight) << name << static_cast<uint64_t>(index)).finish(),
          {}};
}
// Column `column` of the entry that token number `token` looks up in a table. The token is a
// variable: nothing is assumed about which entry that is, only that equal numbers are equal tokens.
constexpr Expression lookup_leaf(uint64_t table, int64_t token, int64_t column,
                                 const Reach& reach) {
  return {(ExpressionHasher(Operation::lookup)
           << table << static_cast<uint64_t>(token) << static_cast<uint64_t>(column))
              .finish(),
          reach};
}

// Whether label number `label` is token `token` of the vocabulary. The label is a variable, as
// tokens are; it is no input, so it stands nowhere.
constexpr Expression label_leaf(int64_t label, int64_t token) {
  return {(ExpressionHasher(Operation::is_label)
           << static_cast<uint64_t>(label) << static_cast<uint64_t>(token))
              .finish(),
          {}};
}

}  // namespace tril
