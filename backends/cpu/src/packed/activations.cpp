// Where the parts of a quantised activation row lie. See packed.hpp.
#include "packed.hpp"

namespace quern::cpu {
namespace {

std::int64_t scale_count(Activations kind, std::int64_t k) noexcept { return kind == Activations::int8_256 ? k / 256 : k / 32; }
std::int64_t aligned(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

}  // namespace

std::int64_t activation_row_bytes(Activations kind, std::int64_t k) noexcept {
  if (kind == Activations::f32) return aligned(k * 4) + 64;
  if (kind == Activations::bf16) return aligned((k + 1) / 2 * 4) + 64;
  return (aligned(k) + aligned(scale_count(kind, k) * 4) + aligned(k / 32 * 4) + aligned(activation_starts(kind, k) * 4)) | 64;
}

std::int64_t activation_starts(Activations kind, std::int64_t k) noexcept {
  return kind == Activations::int8_256 ? k / 256 * 36 + (k + 16383) / 16384 * 4 : kind == Activations::int8_32 ? k / 32 : 0;
}

ActivationRow activation_row(Activations kind, const std::byte* row, std::int64_t k) noexcept {
  const std::byte *scales = row + aligned(k), *sums = scales + aligned(scale_count(kind, k) * 4), *starts = sums + aligned(k / 32 * 4);
  return {reinterpret_cast<const std::int8_t*>(row), reinterpret_cast<const float*>(scales), reinterpret_cast<const float*>(sums),
          reinterpret_cast<const std::int32_t*>(starts)};
}

}  // namespace quern::cpu
