#include "tril/kernels/adamw.h"

#include "kernels/gradient_check.h"
#include "kernels/rows_support.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/reference/adamw.h"
#include "tril/ops/optimizer.h"

namespace tril::adamw_test {
namespace {

using kernels::AdamW;
using testing::context_here;
using testing::gamma;
using testing::kUnit;
using testing::random_floats;
using testing::same_bits;

// One task does 16,384 elements: this gives every thread something.
constexpr int64_t kManyTasks = 5 * 16384 + 77;

struct State {
  std::vector<float> gradient, m, v, w;

  State(Random& random, int64_t size) {
    gradient = random_floats(random, size);
    m = random_floats(random, size);
    v = random_floats(random, size);
    w = random_floats(random, size);
    for (float& value : v) value = std::fabs(value);
  }
  std::vector<float> all() const {
    std::vector<float> joined = m;
    joined.insert(joined.end(), v.begin(), v.end());
    joined.insert(joined.end(), w.begin(), w.end());
    return joined;
  }
};

State after(const Parallel& parallel, const AdamW& args, State s) {
  kernels::adamw(parallel, args, static_cast<int64_t>(s.w.size()), s.gradient.data(), s.m.data(),
                 s.v.data(), s.w.data());
  return s;
}

// The contract's order, one scalar operation at a time.
State scalar(const AdamW& a, State s) {
  for (size_t i = 0; i < s.w.size(); ++i) {
    const float g = s.gradient[i] * a.factor;
    s.m[i] = std::fma(g, 1.0f - a.beta1, s.m[i] * a.beta1);
    s.v[i] = std::fma(g * g, 1.0f - a.beta2, s.v[i] * a.beta2);
    const float step = (s.m[i] / a.correction1) / (std::sqrt(s.v[i] / a.correction2) + a.epsilon);
    s.w[i] = std::fma(-a.rate, std::fma(s.w[i], a.decay, step), s.w[i]);
  }
  return s;
}

AdamW any_args(Random& random) {
  return {.rate = random.uniform(1e-5f, 1e-2f),
          .beta1 = random.uniform(0.5f, 1.0f),
          .beta2 = random.uniform(0.9f, 1.0f),
          .epsilon = random.uniform(1e-9f, 1e-6f),
          .decay = random.uniform(0.0f, 0.2f),
          .correction1 = random.uniform(0.1f, 1.0f),
          .correction2 = random.uniform(0.02f, 1.0f),
          .factor = random.uniform(0.01f, 2.0f)};
}

// With the same gradient g at every step the averages are g and g² exactly, so each step moves the
// weight by rate g / (|g| + epsilon) and nothing else: the closed form of t steps.
RC_GTEST_PROP(AdamWReference, AConstantGradientMovesAtAConstantRate, ()) {
  Random random = testing::seeded();
  const auto g = static_cast<double>(random.uniform(-2.0f, 2.0f));
  const auto steps = *rc::gen::inRange(1, 40);
  AdamW args{.rate = 0x1p-7f, .beta1 = 0.75f, .beta2 = 0.9375f, .epsilon = 0x1p-20f};
  reference::AdamWState<double> state;
  double power1 = 1.0;
  double power2 = 1.0;
  for (int t = 1; t <= steps; ++t) {
    power1 *= static_cast<double>(args.beta1);
    power2 *= static_cast<double>(args.beta2);
    args.correction1 = static_cast<float>(1.0 - power1);
    args.correction2 = static_cast<float>(1.0 - power2);
    state = reference::adamw<double>(args, g, state);
  }
  const double step = g / (std::fabs(g) + static_cast<double>(args.epsilon));
  const double expected = -static_cast<double>(args.rate) * steps * step;
  // The corrections were rounded to fp32: u of m, and half of that through the root of v.
  RC_ASSERT(std::fabs(state.w - expected) <= gamma(2) * std::fabs(expected));
}

TEST(AdamWReference, DecayShrinksTheWeightAloneWithoutGradient) {
  const AdamW args{.rate = 0.25f, .decay = 0.5f};
  const auto state = reference::adamw<double>(args, 0.0, {.m = 0.0, .v = 1.0, .w = 3.0});
  EXPECT_EQ(state.w, 3.0 - 0.25 * 0.5 * 3.0);
}

// To first order in u: m is two products (of a rounded g and 1 - beta1) and a sum, v likewise with
// g²; then a division, a root, a sum and a division; then two fused operations.
RC_GTEST_PROP(AdamW, IsTheReferenceWithinRounding, ()) {
  if (testing::device() != Device::cpu) return;  // this is the CPU's kernel; Update has CUDA's
  Random random = testing::seeded();
  const AdamW a = any_args(random);
  const State before(random, *rc::gen::inRange<int64_t>(0, 150));
  const State result = after(Parallel(2), a, before);
  std::vector<double> m, v, w, m_bound, v_bound, w_bound;
  for (size_t i = 0; i < before.w.size(); ++i) {
    const reference::AdamWState<double> from{static_cast<double>(before.m[i]),
                                             static_cast<double>(before.v[i]),
                                             static_cast<double>(before.w[i])};
    const auto gradient = static_cast<double>(before.gradient[i]);
    const auto to = reference::adamw<double>(a, gradient, from);
    m.push_back(to.m);
    v.push_back(to.v);
    w.push_back(to.w);
    const double g = std::fabs(gradient * static_cast<double>(a.factor));
    const auto beta1 = static_cast<double>(a.beta1);
    const double d_m = gamma(3) * (beta1 * std::fabs(from.m) + (1.0 - beta1) * g);
    const double d_v = gamma(5) * to.v;  // all its terms are positive
    m_bound.push_back(d_m);
    v_bound.push_back(d_v);
    const auto correction1 = static_cast<double>(a.correction1);
    const double root = std::sqrt(to.v / static_cast<double>(a.correction2));
    const double divisor = root + static_cast<double>(a.epsilon);
    // The root halves the relative error of v and of its division, and rounds.
    const double d_divisor = root * (gamma(6) / 2.0 + kUnit) + kUnit * divisor;
    const double step = std::fabs(to.m) / correction1 / divisor;
    const double d_step = (d_m / correction1 + step * d_divisor) / divisor * (1.0 + gamma(8)) +
                          gamma(2) * (step + d_m / correction1 / divisor);
    const double whole = step + static_cast<double>(a.decay) * std::fabs(from.w);
    w_bound.push_back(static_cast<double>(a.rate) * (d_step + kUnit * (whole + d_step)) +
                      kUnit * (std::fabs(to.w) + static_cast<double>(a.rate) * d_step));
  }
  TRIL_HOLDS(testing::within(result.m, m, m_bound));
  TRIL_HOLDS(testing::within(result.v, v, v_bound));
  TRIL_HOLDS(testing::within(result.w, w, w_bound));
}

RC_GTEST_PROP(AdamW, FollowsItsOrderBitForBit, ()) {
  if (testing::device() != Device::cpu) return;  // this is the CPU's kernel; Update has CUDA's
  Random random = testing::seeded();
  const AdamW a = any_args(random);
  const State before(random, *rc::gen::inRange<int64_t>(0, 150));
  TRIL_HOLDS(same_bits(after(Parallel(2), a, before).all(), scalar(a, before).all()));
}

TEST(AdamW, ThreadsAndTargetsChangeNothing) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "this is the CPU's kernel";
  Random random(1);
  for (const int64_t size : {int64_t{1}, int64_t{133}, kManyTasks}) {
    const AdamW a = any_args(random);
    const State before(random, size);
    EXPECT_TRUE(same_bits(after(Parallel(1), a, before).all(), scalar(a, before).all()));
    EXPECT_TRUE(testing::same_everywhere(
        [&](const Parallel& parallel) { return after(parallel, a, before).all(); }));
  }
}

TEST(AdamW, NanStaysInItsWeightAndSubnormalsAreKept) {
  if (testing::device() != Device::cpu) GTEST_SKIP() << "this is the CPU's kernel";
  Random random(2);
  const AdamW a = any_args(random);
  State state(random, 40);
  state.gradient[21] = NAN;
  state.gradient[5] = 0x1p-70f;  // its square is subnormal
  state.v[5] = 0.0f;
  const State result = after(Parallel(1), a, state);
  EXPECT_TRUE(std::isnan(result.w[21]));
  EXPECT_GT(result.v[5], 0.0f);
  EXPECT_LT(result.v[5], 0x1p-126f);
  State expected = scalar(a, state);
  for (std::vector<float>* part : {&expected.m, &expected.v, &expected.w}) (*part)[21] = 0.0f;
  State rest = result;
  for (std::vector<float>* part : {&rest.m, &rest.v, &rest.w}) (*part)[21] = 0.0f;
  EXPECT_TRUE(same_bits(rest.all(), expected.all()));
}

// ---- whole updates ------------------------------------------------------------------------------
// On either device: the norm in its order, and then the bits of one weight at a time.

// Weights of some shapes; the last has no gradient, and matrices decay.
struct Weights {
  std::vector<Shape> shapes = {{1}, {133}, {4096}, {37, 50}, {64, 128}, {3, 4100}, {7}};
  std::vector<State> states;

  explicit Weights(Random& random) {
    for (const Shape& shape : shapes) states.emplace_back(random, shape.size());
  }
  size_t with_gradient() const { return shapes.size() - 1; }
};

// The sum of the squares of all gradients, as the device of the tests adds it.
double squares_of(const Weights& weights) {
  const bool cpu = testing::device() == Device::cpu;
  double on_cpu = 0.0;
  std::vector<double> chains(1024);
  size_t chunks = 0;
  for (size_t which = 0; which < weights.with_gradient(); ++which) {
    const std::span<const float> gradient = weights.states[which].gradient;
    double of_tensor = 0.0;
    for (size_t begin = 0; begin < gradient.size(); begin += 4096) {
      const std::span<const float> chunk =
          gradient.subspan(begin, std::min<size_t>(4096, gradient.size() - begin));
      of_tensor += static_cast<double>(testing::lane_dot(chunk, chunk));
      std::vector<float> threads(256);
      for (size_t i = 0; i < chunk.size(); ++i) {
        threads[i / 4 % 256] = std::fma(chunk[i], chunk[i], threads[i / 4 % 256]);
      }
      chains[chunks++ % 1024] +=
          testing::folded(std::vector<double>(threads.begin(), threads.end()));
    }
    on_cpu += of_tensor;
  }
  return cpu ? on_cpu : testing::folded(chains);
}

// The same tensors on the device; `rounded` if wanted.
struct OnDevice {
  std::vector<ops::UpdateTensor> tensors;

  OnDevice(Context& context, const Weights& weights) {
    const bool rounds = context.activations == DType::bf16;
    for (size_t which = 0; which < weights.shapes.size(); ++which) {
      const Shape& shape = weights.shapes[which];
      const State& state = weights.states[which];
      ops::UpdateTensor tensor{.decay = shape.rank() == 2 ? 0.1f : 0.0f};
      tensor.weight = testing::tensor_of(context.arena, shape, state.w);
      tensor.first = testing::tensor_of(context.arena, shape, state.m);
      tensor.second = testing::tensor_of(context.arena, shape, state.v);
      if (which < weights.with_gradient()) {
        tensor.gradient = testing::tensor_of(context.arena, shape, state.gradient);
      }
      if (rounds) {
        const auto padded = [](int64_t size) { return (size + 63) / 64 * 64; };
        const Shape to =
            shape.rank() == 2 ? Shape{padded(shape[0]), padded(shape[1])} : Shape{padded(shape[0])};
        tensor.rounded = testing::activations_of(
            context, to, std::vector<float>(static_cast<size_t>(to.size())));
      }
      tensors.push_back(tensor);
    }
  }
};

void expect_equal(const ops::UpdateTensor& tensor, const State& expected, size_t which) {
  EXPECT_TRUE(same_bits(to_floats(tensor.first), expected.m)) << "m of tensor " << which;
  EXPECT_TRUE(same_bits(to_floats(tensor.second), expected.v)) << "v of tensor " << which;
  EXPECT_TRUE(same_bits(to_floats(tensor.weight), expected.w)) << "w of tensor " << which;
}
// The rounded weight, with zeros around it as before.
void expect_rounded(const ops::UpdateTensor& tensor, const State& expected, size_t which) {
  const int64_t columns = tensor.weight.columns();
  const int64_t stride = tensor.rounded.columns();
  std::vector<float> rounded(static_cast<size_t>(tensor.rounded.size()));
  for (int64_t i = 0; i < tensor.weight.size(); ++i) {
    rounded[i / columns * stride + i % columns] = to_f32(to_bf16(expected.w[i]));
  }
  EXPECT_TRUE(same_bits(to_floats(tensor.rounded), rounded)) << "rounded, tensor " << which;
}

TEST(Update, IsTheContractInEveryBit) {
  Random random(7);
  for (const double clip_norm : {0.0, 0.5, 1e9}) {
    Context& context = context_here();
    Weights weights(random);
    const ops::AdamWSettings settings{.beta1 = 0.8f, .beta2 = 0.95f, .clip_norm = clip_norm};
    ops::AdamW adamw(context.device(), settings);
    const OnDevice on_device(context, weights);
    const double norm = std::sqrt(squares_of(weights));
    AdamW args{.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = settings.epsilon};
    if (clip_norm > 0.0 && norm > clip_norm) args.factor = static_cast<float>(clip_norm / norm);
    double power1 = 1.0;
    double power2 = 1.0;
    for (const float rate : {1e-2f, 3e-3f, 7e-4f}) {
      adamw.update(context, on_device.tensors, rate);
      power1 *= static_cast<double>(args.beta1);
      power2 *= static_cast<double>(args.beta2);
      args.rate = rate;
      args.correction1 = static_cast<float>(1.0 - power1);
      args.correction2 = static_cast<float>(1.0 - power2);
      for (size_t which = 0; which < weights.with_gradient(); ++which) {
        args.decay = on_device.tensors[which].decay;
        weights.states[which] = scalar(args, weights.states[which]);
      }
    }
    EXPECT_EQ(adamw.last(context).norm, norm);
    EXPECT_EQ(adamw.last(context).steps, 3);
    for (size_t which = 0; which < weights.shapes.size(); ++which) {
      const ops::UpdateTensor& tensor = on_device.tensors[which];
      expect_equal(tensor, weights.states[which], which);
      if (tensor.rounded.defined() && which < weights.with_gradient()) {
        expect_rounded(tensor, weights.states[which], which);
      }
    }
  }
}

TEST(Update, NothingChangesWhereTheGradientIsNotFinite) {
  Random random(8);
  for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
    Context& context = context_here();
    Weights weights(random);
    weights.states[2].gradient[4095] = bad;
    ops::AdamW adamw(context.device(), {});
    const OnDevice on_device(context, weights);
    adamw.update(context, on_device.tensors, 0.1f);
    EXPECT_FALSE(std::isfinite(adamw.last(context).norm));
    EXPECT_EQ(adamw.last(context).steps, 0);
    for (size_t which = 0; which < weights.shapes.size(); ++which) {
      expect_equal(on_device.tensors[which], weights.states[which], which);
    }
  }
}

// Going on from a number of steps is as if they had been made.
TEST(Update, ARestoredOneGoesOn) {
  Random random(9);
  Context& context = context_here();
  const Weights weights(random);
  const OnDevice on_device(context, weights);
  ops::AdamW one(context.device(), {});
  for (int i = 0; i < 3; ++i) one.update(context, on_device.tensors, 0.01f);
  std::vector<State> after(weights.states);
  for (size_t which = 0; which < after.size(); ++which) {
    after[which].m = to_floats(on_device.tensors[which].first);
    after[which].v = to_floats(on_device.tensors[which].second);
    after[which].w = to_floats(on_device.tensors[which].weight);
  }
  Weights copied = weights;
  copied.states = after;
  const OnDevice again(context, copied);
  ops::AdamW two(context.device(), {});
  two.restore(3);
  one.update(context, on_device.tensors, 0.02f);
  two.update(context, again.tensors, 0.02f);
  EXPECT_EQ(two.last(context).steps, 4);
  for (size_t which = 0; which < after.size(); ++which) {
    EXPECT_TRUE(same_bits(on_device.tensors[which].weight, again.tensors[which].weight));
  }
}

TEST(Update, SaysWhatIsWrong) {
  Context& context = context_here();
  ops::AdamW adamw(context.device(), {});
  ops::UpdateTensor tensor;
  tensor.weight = testing::tensor_of(context.arena, {2, 3}, std::vector<float>(6));
  tensor.first = tensor.weight;
  tensor.second = testing::tensor_of(context.arena, {5}, std::vector<float>(5));
  EXPECT_EQ(testing::raised_by([&] {
              adamw.update(context, {&tensor, 1}, 0.1f);
            }).text,
            "AdamW: a weight [2, 3] with [5]");
}

}  // namespace
}  // namespace tril::adamw_test
