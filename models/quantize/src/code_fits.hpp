// The fit of a group of a quantised directory: codes of four bits around a zero point.
#pragma once

#include "fits.hpp"
#include "group_fits.hpp"

#include <array>
#include <bit>

namespace quern::quantize::QUERN_FITS_ISA {

inline constexpr int most_code = 15, middle = 8;

/// The scale as the type holds it, and its two neighbours there.
inline std::array<float, 3> scales_near(float scale, quern_dtype type) noexcept {
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
    keep_best(usual, zero);
    ScaleSearch<n> search(x_, w_, limits_of(zero), true);
    search.consider_around(1, 2 * step / most_code, inverse_of(usual));  // a group of 128 gains from scales that are farther off
    keep_best(search.refined(), zero);
  }

  bool found() const noexcept { return std::isfinite(least_); }
  float scale() const noexcept { return scale_; }
  int zero() const noexcept { return zero_; }
  void put(std::uint8_t* codes) const noexcept {
    float around[n];
    put_codes(x_, n, scale_, 0, limits_of(zero_), around);
    for (int i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(static_cast<int>(around[i]) + zero_);
  }

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
GroupOfCodes fit_group_of(const GroupRequest& request, const float* x, const float* w, std::uint8_t* codes) noexcept {
  float low = 0, high = 0;
  for (int i = 0; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  GroupFit<n> fit(x, w, request.scale);
  if (request.zero_points) {
    const float usual = high / most_code - low / most_code;
    const int at = static_cast<int>(nearest(-low * inverse_of(usual), Limits(0, most_code)));
    for (const int near : {at, at - 1, at + 1})
      if (near >= 0 && near <= most_code) fit.try_zero(near, usual);
  } else {
    fit.try_zero(middle, std::max(high / (most_code - middle), -low / middle));
  }
  if (fit.found()) fit.put(codes);
  return {fit.scale(), fit.zero(), fit.found()};
}

inline GroupOfCodes fit_group(const GroupRequest& request, const float* x, const float* w, std::uint8_t* codes) noexcept {
  switch (request.numbers) {
    case 32: return fit_group_of<32>(request, x, w, codes);
    case 64: return fit_group_of<64>(request, x, w, codes);
    default: return fit_group_of<128>(request, x, w, codes);
  }
}

}  // namespace quern::quantize::QUERN_FITS_ISA
