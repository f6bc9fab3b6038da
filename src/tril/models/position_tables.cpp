#include "tril/models/position_tables.h"

#include <bit>
#include <cmath>

#include "tril/base/math.h"
#include "tril/kernels/rotary.h"

namespace tril {
namespace {

// One feature of sinusoidal positions.
struct Wave {
  double frequency = 0.0;
  bool cosine = false;
};
Wave wave_of(Sinusoid kind, int64_t feature, int64_t model) {
  const int64_t half = model / 2;
  if (kind == Sinusoid::fairseq) {
    const auto step = static_cast<float>(-math::log(10000.0) / static_cast<double>(half - 1));
    const float exponent = static_cast<float>(feature % half) * step;
    const auto frequency = static_cast<float>(math::exp(static_cast<double>(exponent)));
    return {static_cast<double>(frequency), feature >= half};
  }
  // The paper's section 3.5: sines in the even features, cosines in the odd ones.
  const int64_t in_paper = kind == Sinusoid::interleaved ? feature
                           : feature < half              ? 2 * feature
                                                         : 2 * (feature - half) + 1;
  const double exponent =
      -static_cast<double>(in_paper - in_paper % 2) / static_cast<double>(model);
  return {math::pow(10000.0, exponent), in_paper % 2 == 1};
}

float rounded(double x) { return static_cast<float>(x); }

// transformers computes frequencies in fp32, each operation rounded.
std::vector<double> rounded_frequencies(int64_t head_dim, double base) {
  std::vector<double> result;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float power = rounded(math::pow(base, static_cast<double>(exponent)));
    result.push_back(static_cast<double>(1.0f / power));
  }
  return result;
}

// One frequency as Llama 3 scales it.
double llama3_scaled(double frequency, const TransformerConfig& c) {
  const double turns =
      static_cast<double>(c.rotary_length) * frequency / (2.0 * math::kPi);  // in that length
  if (turns < c.rotary_low) return frequency / c.rotary_factor;
  if (turns > c.rotary_high) return frequency;
  const double smooth = (turns - c.rotary_low) / (c.rotary_high - c.rotary_low);
  return (1.0 - smooth) * frequency / c.rotary_factor + smooth * frequency;
}
// The same in fp32, in the order of transformers.
double llama3_scaled_rounded(double frequency, const TransformerConfig& c) {
  const auto f = static_cast<float>(frequency);
  const auto factor = rounded(c.rotary_factor);
  const auto length = static_cast<double>(c.rotary_length);
  const float wavelength = rounded(2.0 * math::kPi) / f;
  if (wavelength > rounded(length / c.rotary_low)) return static_cast<double>(f / factor);
  if (wavelength < rounded(length / c.rotary_high)) return frequency;
  const float smooth = (static_cast<float>(length) / wavelength - rounded(c.rotary_low)) /
                       rounded(c.rotary_high - c.rotary_low);
  const float scaled = (1.0f - smooth) * f / factor + smooth * f;
  return static_cast<double>(scaled);
}

double scaled_frequency(double frequency, const TransformerConfig& c) {
  switch (c.rotary_scaling) {
    case RotaryScaling::none: break;
    case RotaryScaling::linear:
      if (!c.rotary_rounded) return frequency / c.rotary_factor;
      return static_cast<double>(static_cast<float>(frequency) / rounded(c.rotary_factor));
    case RotaryScaling::llama3:
      return c.rotary_rounded ? llama3_scaled_rounded(frequency, c) : llama3_scaled(frequency, c);
  }
  return frequency;
}

// Slope `head` of `heads` in a geometric series that ends with 2^-8.
double geometric_slope(int64_t head, int64_t heads) {
  return math::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
}

}  // namespace

std::vector<float> sinusoidal_values(const TransformerConfig& c) {
  std::vector<float> to(static_cast<size_t>(c.max_length * c.model));
  for (int64_t feature = 0; feature < c.model; ++feature) {
    const Wave wave = wave_of(c.sinusoid, feature, c.model);
    for (int64_t row = 0; row < c.max_length; ++row) {
      double angle = static_cast<double>(c.first_position + row) * wave.frequency;
      // fairseq rounds the angle, too: of large positions that shows.
      if (c.sinusoid == Sinusoid::fairseq) angle = static_cast<double>(static_cast<float>(angle));
      to[static_cast<size_t>(row * c.model + feature)] =
          static_cast<float>(wave.cosine ? math::cos(angle) : math::sin(angle));
    }
  }
  return to;
}

std::vector<float> rotary_values(const TransformerConfig& c) {
  std::vector<double> frequencies = c.rotary_rounded
                                        ? rounded_frequencies(c.head_dim, c.rotary_base)
                                        : kernels::rotary_frequencies(c.head_dim, c.rotary_base);
  for (double& frequency : frequencies) frequency = scaled_frequency(frequency, c);
  std::vector<float> values(static_cast<size_t>(c.max_length * c.head_dim));
  const auto angles = c.rotary_rounded ? kernels::Angles::rounded : kernels::Angles::exact;
  kernels::fill_rotary_table(c.max_length, frequencies, angles, values.data());
  return values;
}

std::vector<double> alibi_slopes(const TransformerConfig& c) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(c.heads)));
  std::vector<double> slopes;
  for (int64_t head = 0; head < c.heads; ++head) {
    if (c.alibi_slopes == AlibiSlopes::geometric) {
      slopes.push_back(geometric_slope(head, c.heads));
    } else {
      slopes.push_back(head < power ? geometric_slope(head, power)
                                    : geometric_slope(2 * (head - power), 2 * power));
    }
  }
  return slopes;
}

std::vector<float> alibi_values(const TransformerConfig& c) {
  std::vector<float> to;
  to.reserve(static_cast<size_t>(c.heads * (2 * c.max_length - 1)));
  for (const double slope : alibi_slopes(c)) {
    for (int64_t i = 0; i < 2 * c.max_length - 1; ++i) {
      const double distance = std::fabs(static_cast<double>(i - (c.max_length - 1)));
      to.push_back(static_cast<float>(-slope * distance));
    }
  }
  return to;
}

std::vector<int32_t> relative_buckets(const TransformerConfig& c, ops::BiasDirections directions) {
  std::vector<int32_t> buckets;
  for (int64_t distance = 1 - c.max_length; distance < c.max_length; ++distance) {
    buckets.push_back(static_cast<int32_t>(
        ops::relative_bucket(distance, directions, c.relative_buckets, c.relative_distance)));
  }
  return buckets;
}

}  // namespace tril
