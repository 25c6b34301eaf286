// See weight_codes.hpp.
#include "quern/models/weight_codes.hpp"

#include "e4m3.hpp"
#include "group_fits.hpp"
#include "scaled_weights.hpp"

#include <array>
#include <bit>
#include <cstdlib>

namespace quern::quantize {
namespace {

constexpr int most_code = 15, middle = 8;
constexpr int most_group = 128;

/// The scale as the type holds it, and its two neighbours there.
std::array<float, 3> scales_near(float scale, quern_dtype type) noexcept {
  if (type == QUERN_F16) {
    const int near = sdk::to_f16(scale);
    const auto at = [](int bits) { return sdk::from_f16(static_cast<std::uint16_t>(std::max(0, bits))); };
    return {at(near), at(near - 1), at(near + 1)};
  }
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::int64_t near = (std::int64_t{bits} + 0x7fff + (bits >> 16 & 1u)) >> 16;
  const auto at = [](std::int64_t upper) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(std::max<std::int64_t>(0, upper)) << 16);
  };
  return {at(near), at(near - 1), at(near + 1)};
}

template <int n>
class GroupFit {
 public:
  GroupFit(const float* x, const float* w, quern_dtype type) : x_(x), w_(w), type_(type) {}

  /// The best scale of the type for codes around the zero point. `usual` is the one that rounding has.
  void try_zero(int zero, float usual) noexcept {
    const Limits limits = limits_of(zero);
    keep_best(usual, zero);
    float scale = 0, explained = 0;
    const auto consider = [&](float inverse) {
      const Sums s = sums_of<n>(x_, w_, inverse, 0, limits);
      if (!(s.xc > 0) || !(s.xc * s.xc > explained * s.cc)) return false;
      explained = s.xc * s.xc / s.cc;
      scale = s.xc / s.cc;
      return true;
    };
    constexpr float wider = 2 * step / most_code;  // a group of 128 gains from scales that are farther off
    for (int k = -steps; k <= steps; ++k) consider((1 + wider * static_cast<float>(k)) * inverse_of(usual));
    for (int round = 0; round < rounds; ++round)
      if (!consider(inverse_of(scale))) break;
    keep_best(scale, zero);
  }

  bool found() const noexcept { return std::isfinite(least_); }
  float scale() const noexcept { return scale_; }
  int zero() const noexcept { return zero_; }
  float code(float x) const noexcept { return nearest(x * inverse_of(scale_), limits_of(zero_)) + static_cast<float>(zero_); }

 private:
  static Limits limits_of(int zero) noexcept { return {static_cast<float>(-zero), static_cast<float>(most_code - zero)}; }

  void keep_best(float near, int zero) noexcept {
    for (const float scale : scales_near(near, type_)) {
      const float error = group_error<n>(x_, w_, scale, 0, limits_of(zero));
      if (!std::isfinite(scale) || !(error < least_)) continue;
      least_ = error;
      scale_ = scale;
      zero_ = zero;
    }
  }

  const float *x_, *w_;
  quern_dtype type_;
  float least_ = std::numeric_limits<float>::infinity(), scale_ = 0;
  int zero_ = middle;
};

template <int n>
void encode_group(const GroupForm& form, const float* x, const float* weights, std::uint8_t* codes, float& scale, std::uint8_t& zero) {
  float w[n];
  scale_weights(weights, n, n, w);
  float low = 0, high = 0;
  for (int i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", x[i], " has no place in a group of codes"));
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  GroupFit<n> fit(x, w, form.scale);
  if (form.zero_points) {
    const float usual = high / most_code - low / most_code;
    const int at = static_cast<int>(nearest(-low * inverse_of(usual), Limits(0, most_code)));
    for (const int near : {at, at - 1, at + 1})
      if (near >= 0 && near <= most_code) fit.try_zero(near, usual);
  } else {
    fit.try_zero(middle, std::max(high / (most_code - middle), -low / middle));
  }
  if (!fit.found())
    throw Error(QUERN_INVALID_ARGUMENT, concat("a group with the numbers ", low, " and ", high, " has a scale beyond the largest of its type"));
  scale = fit.scale();
  zero = static_cast<std::uint8_t>(fit.zero());
  for (int i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(fit.code(x[i]));
}

template <int n>
void encode_all(const GroupForm& form, std::span<const float> rows, std::span<const float> weights, const GroupCodes& out) {
  for (std::size_t at = 0; at < rows.size(); at += n)
    encode_group<n>(form, rows.data() + at, weights.data() + at % weights.size(), out.codes.data() + at, out.scales[at / n],
                    out.zeros[at / n]);
}

}  // namespace

void encode_groups(const GroupForm& form, std::span<const float> rows, std::span<const float> weights, const GroupCodes& out) {
  const std::size_t groups = form.group == 0 ? 0 : rows.size() / form.group;
  if (weights.empty() || groups == 0 || weights.size() % form.group != 0 || rows.size() % weights.size() != 0 ||
      out.codes.size() != rows.size() || out.scales.size() != groups || out.zeros.size() != groups)
    throw Error(QUERN_INVALID_ARGUMENT, concat(rows.size(), " numbers in rows of ", weights.size(), " do not fill ", out.codes.size(),
                                               " codes and ", out.scales.size(), " scales in groups of ", form.group));
  switch (form.group) {
    case 32: return encode_all<32>(form, rows, weights, out);
    case 64: return encode_all<64>(form, rows, weights, out);
    case most_group: return encode_all<most_group>(form, rows, weights, out);
    default: throw Error(QUERN_INVALID_ARGUMENT, concat("groups of ", form.group, " columns are not made; 32, 64 and 128 are"));
  }
}

float e4m3_scale(float largest) noexcept {
  const float scale = largest / largest_e4m3;
  return scale > 0 ? scale : 1;
}

float largest_magnitude(std::span<const float> numbers) {
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) throw Error(QUERN_INVALID_ARGUMENT, concat("the number ", number, " has no place in a group of codes"));
    largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

void encode_e4m3(std::span<const float> numbers, float scale, std::span<std::uint8_t> codes) noexcept {
  for (std::size_t i = 0; i < numbers.size(); ++i) codes[i] = to_e4m3(numbers[i] / scale);
}

}  // namespace quern::quantize
