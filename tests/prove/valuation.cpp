#include "prove/valuation.h"

#include <array>
#include <utility>

#include "tril/base/error.h"
#include "tril/kernels/model/gradient.h"

namespace tril::testing {
namespace {

namespace model = kernels::model;

// ---- the hasher's steps backwards
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;  // right in the last three bits; each step doubles their number
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}
constexpr uint64_t kFirst = ExpressionHasher::kFirst;
constexpr uint64_t kSecond = ExpressionHasher::kSecond;
static_assert(inverse(kFirst) * kFirst == 1 && inverse(kSecond) * kSecond == 1);

constexpr uint64_t unmixed(uint64_t x) {
  x ^= x >> 32;
  x *= inverse(kFirst);
  x ^= (x >> 29) ^ (x >> 58);
  x *= inverse(kSecond);
  return x ^ (x >> 32);
}
// The constant with this hash, if it is one's.
std::optional<float> constant_of(const ExpressionHash& hash) {
  const uint64_t sum = unmixed(hash.low);
  const uint64_t high = unmixed(hash.high) ^ std::rotl(hash.low, 23);
  const uint64_t begin = static_cast<uint64_t>(Operation::constant) * kFirst;
  const uint64_t turned = (sum - high - ~begin) * inverse(kSecond);
  const uint64_t word = (std::rotr(turned, 29) ^ begin) * inverse(kFirst);
  const auto value = std::bit_cast<float>(static_cast<uint32_t>(word));
  if (!(constant_leaf(value).hash == hash)) return std::nullopt;
  return value;
}

// The operands of one operation, as what it takes them for.
struct Operands {
  std::array<uint64_t, 3> bits{};

  float number(size_t i) const { return std::bit_cast<float>(static_cast<uint32_t>(bits[i])); }
  int32_t integer(size_t i) const { return static_cast<int32_t>(static_cast<uint32_t>(bits[i])); }
  double wide(size_t i) const { return std::bit_cast<double>(bits[i]); }
  bool condition(size_t i) const { return bits[i] != 0; }
};

uint64_t result(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t result(int32_t value) { return static_cast<uint32_t>(value); }
uint64_t result(double value) { return std::bit_cast<uint64_t>(value); }
uint64_t result(bool holds) { return holds ? 1 : 0; }

// Nothing for a leaf, and for what only a GPU or another processor computes.
std::optional<uint64_t> performed(Operation operation, const Operands& x) {
  const float a = x.number(0), b = x.number(1), c = x.number(2);
  switch (operation) {
    case Operation::add: return result(model::add(a, b));
    case Operation::subtract: return result(model::subtract(a, b));
    case Operation::multiply: return result(model::multiply(a, b));
    case Operation::divide: return result(model::divide(a, b));
    case Operation::fma: return result(model::fma(a, b, c));
    case Operation::fnma: return result(model::fnma(a, b, c));
    case Operation::square_root: return result(model::square_root(a));
    case Operation::maximum: return result(model::maximum(a, b));
    case Operation::minimum: return result(model::minimum(a, b));
    case Operation::larger: return result(model::larger(a, b));
    case Operation::round: return result(model::round(a));
    case Operation::scale_by_power: return result(model::scale_by_power(a, b));
    case Operation::magnitude: return result(model::magnitude(a));
    case Operation::copy_sign: return result(model::copy_sign(a, b));
    case Operation::greater: return result(model::greater(a, b));
    case Operation::differs: return result(model::differs(a, b));
    case Operation::select: return result(model::select(x.condition(0), b, c));
    case Operation::round_to_bf16: return result(model::round_to_bf16(a));
    case Operation::logarithm: return result(model::logarithm(a));
    case Operation::larger_magnitude: return result(model::larger_magnitude(a, b));
    case Operation::int8_inverse: return result(model::int8_inverse(a));
    case Operation::int8_scale: return result(model::int8_scale(a));
    case Operation::nearest_integer: return result(model::nearest_integer(a, b));
    case Operation::add_product:
      return result(model::add_product(x.integer(0), x.integer(1), x.integer(2)));
    case Operation::to_float: return result(model::to_float(x.integer(0)));
    case Operation::add_in_double: return result(model::add_in_double(x.wide(0), b));
    case Operation::times_in_double: return result(model::times_in_double(x.wide(0), b));
    default: return std::nullopt;
  }
}

}  // namespace

size_t ValueTable::place_of(const ExpressionHash& hash) const {
  size_t at = hash.low & (entries_.size() - 1);
  while (!(entries_[at].hash == hash) && !(entries_[at].hash == ExpressionHash{})) {
    at = (at + 1) & (entries_.size() - 1);
  }
  return at;
}
const uint64_t* ValueTable::find(const ExpressionHash& hash) const {
  const Entry& entry = entries_[place_of(hash)];
  return entry.hash == hash && !(hash == ExpressionHash{}) ? &entry.value : nullptr;
}
void ValueTable::set(const ExpressionHash& hash, uint64_t value) {
  if (2 * used_ >= entries_.size()) {
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(4 * entries_.size()));
    for (const Entry& entry : old) entries_[place_of(entry.hash)] = entry;
  }
  Entry& entry = entries_[place_of(hash)];
  if (!(entry.hash == hash)) ++used_;
  entry = {hash, value};
}

Valuation::Valuation() {
  require(expression_recorder == nullptr, ErrorCode::internal, "two valuations at once");
  expression_recorder = this;
  values_.set(model::GradientExpression::kNothing, 0);
}
Valuation::~Valuation() { expression_recorder = nullptr; }

std::optional<uint64_t> Valuation::bits_of(const ExpressionHash& hash) {
  if (const uint64_t* found = values_.find(hash)) return *found;
  const auto constant = constant_of(hash);
  if (!constant) return std::nullopt;
  values_.set(hash, bits_of(*constant));
  return bits_of(*constant);
}

std::optional<float> Valuation::value_of(const Expression& number) {
  const auto bits = bits_of(number.hash);
  if (!bits) return std::nullopt;
  return std::bit_cast<float>(static_cast<uint32_t>(*bits));
}

void Valuation::see(Operation operation, std::span<const ExpressionHash> operands,
                    const ExpressionHash& made) {
  Operands values;
  if (operands.size() > values.bits.size() || values_.find(made) != nullptr) return;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto bits = bits_of(operands[i]);
    if (!bits) return;
    values.bits[i] = *bits;
  }
  if (const auto bits = performed(operation, values)) {
    values_.set(made, *bits);
    ++operations_;
  }
}

}  // namespace tril::testing
