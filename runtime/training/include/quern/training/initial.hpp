// What an adapter starts from.
#pragma once

#include <cstdint>
#include <span>

namespace quern::training {

/// The matrices of a layer that may have an adapter, in the order that numbers them.
enum class AdaptedMatrix : std::uint32_t { q = 0, k = 1, v = 2, o = 3, gate = 4, up = 5, down = 6 };

/// The number of a matrix among all of a model: the salt of its initial values and of its dropout.
constexpr std::uint32_t matrix_number(std::uint32_t layer, AdaptedMatrix matrix) noexcept {
  return layer * 7 + static_cast<std::uint32_t>(matrix);
}

/// Fills A [rank, k], row-major: (2u - 1) / sqrt(k), computed in f64 and rounded once. u is uniform() of philox(i / 4, 0, matrix,
/// Purpose::initial), word i % 4, with i = row * k + column. That is U(-1/sqrt(k), 1/sqrt(k)), with equal bits everywhere. B starts at 0.
/// Throws Error(QUERN_INVALID_ARGUMENT) where the size of `a` is no multiple of `k`, and for more than 2^34 values.
void fill_initial_a(std::span<float> a, std::uint64_t k, std::uint32_t matrix, std::uint64_t seed);

}  // namespace quern::training
