// Valuation: the values of expressions (base/expression.h), computed as they are made.
//
// While it lives it sees every operation that its thread makes, and performs it on floats with the
// functions of kernels/model/arithmetic.h. What leaves stand for is said beforehand; a constant's
// value is read back from its hash. So a run of a model on expressions also computes numbers, in
// the very operations that the expressions consist of.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tril/base/expression.h"

#ifndef TRIL_RECORD_EXPRESSIONS
#error "compile this, and the operations on expressions, with TRIL_RECORD_EXPRESSIONS"
#endif

namespace tril::testing {

// Values by hash: a float, an int32_t or a condition in the lower half, or a double. There are
// millions, and hashes are random already: entries lie one after the other, from that place on.
class ValueTable {
 public:
  // Null if there is none.
  const uint64_t* find(const ExpressionHash& hash) const;
  void set(const ExpressionHash& hash, uint64_t value);

 private:
  struct Entry {
    ExpressionHash hash{};  // zero: free; no expression has that hash
    uint64_t value = 0;
  };
  size_t place_of(const ExpressionHash& hash) const;

  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << 12);  // a power of two
  size_t used_ = 0;
};

class Valuation final : public ExpressionRecorder {
 public:
  Valuation();
  ~Valuation();
  Valuation(const Valuation&) = delete;
  Valuation& operator=(const Valuation&) = delete;

  // What a leaf stands for: a number, an integer of an int8 weight, or a condition.
  void set(const Expression& leaf, float value) { values_.set(leaf.hash, bits_of(value)); }
  void set_integer(const Expression& leaf, int32_t value) {
    values_.set(leaf.hash, static_cast<uint32_t>(value));
  }
  void set_condition(const Expression& leaf, bool holds) { values_.set(leaf.hash, holds ? 1 : 0); }

  // Nothing for a number that nobody made, or that was made from a leaf that was not set or by an
  // operation that no host computes.
  std::optional<float> value_of(const Expression& number);
  int64_t operations() const { return operations_; }  // that were performed

  void see(Operation operation, std::span<const ExpressionHash> operands,
           const ExpressionHash& result) override;

 private:
  static uint64_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
  std::optional<uint64_t> bits_of(const ExpressionHash& hash);

  ValueTable values_;
  int64_t operations_ = 0;
};

}  // namespace tril::testing
