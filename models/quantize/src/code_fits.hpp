// The fit of groups of a quantised directory: codes of four bits around a zero point.
#pragma once

#include "group_fits.hpp"

namespace quern::quantize::QUERN_FITS_ISA {

inline constexpr float most_code = 15, middle = 8;

/// The scale as the type holds it, or the number there that is so many places farther.
inline Lanes scale_near(Lanes scale, quern_dtype type, int places) noexcept {
  const auto beside = [places](Integers bits) noexcept { return bits + places < 0 ? Integers{} : bits + places; };
  if (type == QUERN_F16) return from_half_bits(beside(half_bits(scale)));
  const Integers bits = std::bit_cast<Integers>(scale);
  return std::bit_cast<Lanes>(beside((bits + 0x7fff + (bits >> 16 & 1)) >> 16) << 16);
}

template <int n>
class GroupFit {
 public:
  GroupFit(Columns columns, quern_dtype type) noexcept : columns_(columns), type_(type) {}

  /// The best scale of the type for codes around the zero point. `usual` is the one that rounding has.
  void try_zero(Lanes zero, Lanes usual) noexcept {
    constexpr float apart = 0.2f / most_code;  // a group of 128 gains from scales that are farther off
    keep_best(usual, zero);
    ScaleSearch<n> search(columns_, limits_of(zero), true);
    search.consider_around(1, apart, candidates, inverse_of(usual));
    keep_best(search.refined(), zero);
  }

  GroupOfCodes found(int lane) const noexcept { return {scale_[lane], whole(zero_)[lane], finite(least_)[lane] != 0}; }

  /// The codes of the first lanes.
  void put(std::uint8_t* codes, int count) const noexcept {
    const Lanes inverse = inverse_of(scale_);
    for (int i = 0; i < n; ++i) {
      const Integers code = whole(nearest(columns_.x[i] * inverse, limits_of(zero_)) + zero_);
      for (int l = 0; l < count; ++l) codes[n * l + i] = static_cast<std::uint8_t>(code[l]);
    }
  }

 private:
  static Limits limits_of(Lanes zero) noexcept { return {-zero, most_code - zero}; }

  void keep_best(Lanes near, Lanes zero) noexcept {
    for (const int places : {0, -1, 1}) {
      const Lanes scale = scale_near(near, type_, places), error = group_error<n>(columns_, scale, Lanes{}, limits_of(zero));
      const Integers better = finite(scale) & (error < least_);
      least_ = better ? error : least_;
      scale_ = better ? scale : scale_;
      zero_ = better ? zero : zero_;
    }
  }

  Columns columns_;
  quern_dtype type_;
  Lanes least_ = all(std::numeric_limits<float>::infinity()), scale_ = {}, zero_ = all(middle);
};

template <int n>
void fit_lanes_of_groups(const GroupRequest& request, std::span<const FitItem> items, GroupOfCodes* found, std::uint8_t* codes) noexcept {
  const SideBySide<n> numbers(items);
  const Ends ends = ends_of(numbers.x, n);
  const Lanes low = least_of(ends.low, Lanes{}), high = most_of(ends.high, Lanes{});
  GroupFit<n> fit({numbers.x, numbers.w}, request.scale);
  if (request.zero_points) {
    const Limits zeros{Lanes{}, all(most_code)};
    const Lanes usual = high / most_code - low / most_code, at = nearest(-low * inverse_of(usual), zeros);
    for (const float beside : {0.0f, -1.0f, 1.0f}) fit.try_zero(nearest(at + beside, zeros), usual);
  } else {
    fit.try_zero(all(middle), most_of(high / (most_code - middle), -low / middle));
  }
  const int count = static_cast<int>(items.size());
  for (int l = 0; l < count; ++l) found[l] = fit.found(l);
  fit.put(codes, count);
}

inline void fit_groups(const GroupRequest& request, std::span<const FitItem> items, GroupOfCodes* found, std::uint8_t* codes) {
  for (std::size_t first = 0; first < items.size(); first += lanes) {
    const auto some = items.subspan(first, std::min<std::size_t>(lanes, items.size() - first));
    std::uint8_t* const to = codes + first * static_cast<std::size_t>(request.numbers);
    switch (request.numbers) {
      case 32: fit_lanes_of_groups<32>(request, some, found + first, to); break;
      case 64: fit_lanes_of_groups<64>(request, some, found + first, to); break;
      default: fit_lanes_of_groups<128>(request, some, found + first, to);
    }
  }
}

}  // namespace quern::quantize::QUERN_FITS_ISA
