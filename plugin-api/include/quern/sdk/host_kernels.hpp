// For kernels that are loops on the host's processor: references, invented devices, and an op that a device
// does not have yet. Device addresses are the host's there.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_HOST_KERNELS_HPP
#define QUERN_SDK_HOST_KERNELS_HPP

#include "quern/sdk/calls.hpp"

#include <cmath>
#include <cstring>

namespace quern {
namespace sdk {

inline float from_f16(std::uint16_t h) noexcept {
  const std::uint32_t magnitude = h & 0x7fffu, sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  std::uint32_t bits = magnitude << 13;  // the value times 2^-112, subnormals too
  float f;
  std::memcpy(&f, &bits, sizeof f);
  f *= 0x1p112f;
  std::memcpy(&bits, &f, sizeof bits);
  if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;  // infinity and NaN
  bits |= sign;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// To nearest, ties to even; beyond the largest number to infinity.
inline std::uint16_t to_f16(float f) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude < 0x38800000u)  // below 2^-14: a multiple of 2^-24, which nearbyint rounds
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::fabs(f), 24))));
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >= 0x47800000u ? 0x7c00u : (rounded - 0x38000000u) >> 13));
}

template <class T = char>
T* at(std::uint64_t address) noexcept {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

/// A number of f32 or f16.
inline float load(std::uint64_t address, quern_dtype dtype) noexcept {
  return dtype == QUERN_F32 ? *at<float>(address) : from_f16(*at<std::uint16_t>(address));
}
inline void store(std::uint64_t address, quern_dtype dtype, float x) noexcept {
  if (dtype == QUERN_F32) *at<float>(address) = x;
  else *at<std::uint16_t>(address) = to_f16(x);
}

/// term(0) + ... + term(n - 1) in 16 sums, so that the error grows with the root of n.
template <class Term>
float sum_of(std::int64_t n, const Term& term) {
  float part[16] = {};
  for (std::int64_t i = 0; i < n; ++i) part[i % 16] += term(i);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

/// What for_each_row() asks of a predicate.
inline std::string check_row_predicate(const Call& call) {
  return call.predicate.present() && call.output(0).rank < 2 ? "a predicate of one number a row needs rows" : "";
}

/// Bytes between neighbours of t along dimension d of y; 0 where t broadcasts to it.
inline std::int64_t step_of(const Tensor& t, const Tensor& y, std::uint32_t d) noexcept {
  if (d + t.rank < y.rank) return 0;
  const std::uint32_t e = d + t.rank - y.rank;
  return t.dims[e] == 1 ? 0 : t.strides[e];
}

/// Calls row(y, a, b) with the addresses of the first output's row and of the first two inputs', as they
/// broadcast, for each row that the predicate lets pass [C14].
template <class Row>
void for_each_row(const Call& call, const Row& row) {
  const Tensor &y = call.output(0), &a = call.input(0), &b = call.input(1);
  const std::int64_t rows = y.elements() == 0 ? 0 : y.rows();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t to = 0, from_a = 0, from_b = 0, rest = r, index = 0;
    for (std::uint32_t d = y.rank == 0 ? 0 : y.rank - 1; d-- > 0; rest /= y.dims[d]) {
      index = rest % y.dims[d];
      to += index * y.strides[d];
      from_a += index * step_of(a, y, d);
      from_b += index * step_of(b, y, d);
    }
    const bool live = !call.predicate.present() ||
                      *at<std::int32_t>(call.predicate.data + sizeof(std::int32_t) * static_cast<std::uint64_t>(index)) != 0;
    if (live)
      row(y.data + static_cast<std::uint64_t>(to), a.data + static_cast<std::uint64_t>(from_a),
          b.data + static_cast<std::uint64_t>(from_b));
  }
}

}  // namespace sdk
}  // namespace quern

#endif
