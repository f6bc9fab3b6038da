#include "support/testing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

namespace tril::testing {

std::vector<float> random_floats(Random& random, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return random.uniform(-1.0f, 1.0f); });
  return values;
}

Tensor random_tensor(Arena& arena, const Shape& shape, Random& random) {
  return tensor_of(arena, shape, random_floats(random, shape.size()));
}

Tensor tensor_of(Arena& arena, const Shape& shape, std::span<const float> values) {
  const Tensor tensor(arena, shape);
  copy(arena.device(), tensor.raw(), Device::cpu, values.data(),
       static_cast<int64_t>(values.size_bytes()));
  return tensor;
}

Tensor activations_of(Context& context, const Shape& shape, std::span<const float> values) {
  Arena host;
  const Tensor tensor(context.arena, shape, context.activations);
  copy_into(tensor_of(host, shape, values), tensor);
  return tensor;
}

void pack(Context& context, ops::LinearWeight& linear, Arena& arena) {
  linear.form = &ops::form_for(context.placement());
  linear.form->allocate(arena, linear);
  linear.form->pack(context, linear.weight, linear.bias, linear);
}

std::vector<float> floats_of(const ConstTensor& tensor) { return to_floats(tensor); }

Device device() {
  const char* wish = std::getenv("TRIL_TEST_DEVICE");
  return device_from(wish != nullptr ? wish : "cpu").value();
}
DType activations() {
  const char* wish = std::getenv("TRIL_TEST_ACTIVATIONS");
  return wish != nullptr && std::string_view(wish) == "fp32" ? DType::f32
                                                             : activation_type(device());
}
std::string golden_folder() {
  const char* wish = std::getenv("TRIL_GOLDEN_FOLDER");
  return wish != nullptr ? wish : TRIL_GOLDEN_FOLDER;
}
static bool is_between(int few, const std::source_location& here) {
  static std::map<std::pair<std::string, uint32_t>, int64_t> cases;
  return cases[{here.file_name(), here.line()}]++ % few != 0;
}
bool passed_over_on_cuda(int few, std::source_location here) {
  return device().type == DeviceType::cuda && is_between(few, here);
}
bool passed_over_unless_full(int few, std::source_location here) {
  return device().type == DeviceType::cpu && std::getenv("TRIL_FULL") == nullptr &&
         is_between(few, here);
}
double unit(DType type) { return type == DType::bf16 ? 0x1p-8 : kUnit; }
std::vector<float> rounded_to(DType type, std::vector<float> values) {
  if (type == DType::bf16) {
    for (float& value : values) value = to_f32(to_bf16(value));
  }
  return values;
}

std::vector<double> doubles_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  }
  size_t differing = 0;
  size_t first = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      if (differing++ == 0) first = i;
    }
  }
  if (differing == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << differing << " of " << a.size() << " differ, the first at " << first << ": " << a[first]
         << " and " << b[first];
}

::testing::AssertionResult same_bits(const ConstTensor& a, const ConstTensor& b) {
  if (!(a.shape() == b.shape())) {
    return ::testing::AssertionFailure()
           << to_string(a.shape()) << " against " << to_string(b.shape());
  }
  return same_bits(floats_of(a), floats_of(b));
}

::testing::AssertionResult within(std::span<const float> actual, std::span<const double> expected,
                                  std::span<const double> bound) {
  if (actual.size() != expected.size() || actual.size() != bound.size()) {
    return ::testing::AssertionFailure() << "sizes " << actual.size() << ", " << expected.size()
                                         << " and " << bound.size() << " differ";
  }
  double worst = 0.0;
  size_t at = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    const double share = error <= bound[i] ? (bound[i] > 0.0 ? error / bound[i] : 0.0)
                                           : std::max(error / bound[i], 2.0);
    if (!(share <= worst)) {  // also true for NaN
      worst = share;
      at = i;
    }
  }
  if (worst <= 1.0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << at << " of " << actual.size() << " is " << actual[at] << ", expected "
         << expected[at] << " within " << bound[at];
}

}  // namespace tril::testing
