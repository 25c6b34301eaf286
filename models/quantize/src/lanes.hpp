// Floats side by side, one of each item: a vector of the instruction set's width. An item's numbers meet no other's, and each operation
// rounds as the scalar one does. So an item has the same bits whatever the width and the others are.
//
// Compiled once for each instruction set, in a namespace of its own: QUERN_FITS_ISA, of QUERN_FITS_VECTOR bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace quern::quantize::QUERN_FITS_ISA {

using Lanes = float __attribute__((vector_size(QUERN_FITS_VECTOR)));
using Integers = std::int32_t __attribute__((vector_size(QUERN_FITS_VECTOR)));  // a comparison gives -1 where it holds

inline constexpr int lanes = QUERN_FITS_VECTOR / sizeof(float);

inline Lanes all(float x) noexcept { return x - Lanes{}; }  // -0 too
inline Lanes at(const float* x) noexcept {
  Lanes made;
  std::memcpy(&made, x, sizeof made);
  return made;
}
inline void store(Lanes x, float* to) noexcept { std::memcpy(to, &x, sizeof x); }
inline Integers whole(Lanes x) noexcept { return __builtin_convertvector(x, Integers); }
inline Lanes least_of(Lanes a, Lanes b) noexcept { return b < a ? b : a; }
inline Lanes most_of(Lanes a, Lanes b) noexcept { return a < b ? b : a; }
inline Lanes magnitude(Lanes x) noexcept { return std::bit_cast<Lanes>(std::bit_cast<Integers>(x) & 0x7fffffff); }
inline Integers finite(Lanes x) noexcept { return magnitude(x) <= std::numeric_limits<float>::max(); }

inline Lanes inverse_of(Lanes x) noexcept {
  const Lanes inverse = 1 / x;
  return finite(inverse) ? inverse : Lanes{};
}

/// Vectors a and b as a matrix of squares of `side` numbers: the two squares off the diagonal change places.
template <int side, int... lane>
void exchange(Lanes& a, Lanes& b, std::integer_sequence<int, lane...>) noexcept {
  const Lanes first = __builtin_shufflevector(a, b, (lane & side ? lanes + (lane - side) : lane)...);
  b = __builtin_shufflevector(a, b, (lane & side ? lanes + lane : lane + side)...);
  a = first;
}

/// As many vectors as a vector has lanes: number j of vector i and number i of vector j change places.
template <int side = lanes / 2>
void transpose(Lanes* rows) noexcept {
  for (int i = 0; i < lanes; ++i)
    if ((i & side) == 0) exchange<side>(rows[i], rows[i + side], std::make_integer_sequence<int, lanes>());
  if constexpr (side > 1) transpose<side / 2>(rows);
}

struct Limits {
  Lanes low, high;
};

/// The nearest integer within the limits, ties to even: a float of 2^23 and more has no fraction.
inline Lanes nearest(Lanes x, const Limits& limits) noexcept {
  constexpr float no_fraction = 12582912.0f;  // 1.5 * 2^23
  return (least_of(limits.high, most_of(x, limits.low)) + no_fraction) - no_fraction;
}

/// sdk::to_f16 and sdk::from_f16 in each lane.
inline Integers half_bits(Lanes x) noexcept {
  constexpr float whole_numbers = 0x1p23f;  // the sum with it has the integer in its lowest bits
  const Integers bits = std::bit_cast<Integers>(x), size = bits & 0x7fffffff;
  const Integers tiny =
      std::bit_cast<Integers>(std::bit_cast<Lanes>(size) * 0x1p24f + whole_numbers) - std::bit_cast<std::int32_t>(whole_numbers);
  const Integers rounded = size + 0xfff + (size >> 13 & 1);
  const Integers normal = rounded >= 0x47800000 ? Integers{} + 0x7c00 : (rounded - 0x38000000) >> 13;
  const Integers number = size < 0x38800000 ? tiny : size > 0x7f800000 ? Integers{} + 0x7e00 : normal;
  return number | (bits >> 16 & 0x8000);
}
inline Lanes from_half_bits(Integers bits) noexcept {
  const Integers size = bits & 0x7fff;
  const Integers number = std::bit_cast<Integers>(std::bit_cast<Lanes>(size << 13) * 0x1p112f);
  const Integers special = 0x7f800000 | (size & 0x3ff) << 13;
  return std::bit_cast<Lanes>((size >= 0x7c00 ? special : number) | (bits & 0x8000) << 16);
}
inline Lanes as_f16(Lanes x) noexcept { return from_half_bits(half_bits(x)); }

}  // namespace quern::quantize::QUERN_FITS_ISA
