// Every element is `value`.
#include "elementwise.hpp"
#include "tables.hpp"

#include <bit>
#include <cmath>

namespace quern::vulkan {
namespace {

/// The bits of an attribute in the dtype of an element.
std::uint32_t bits_of(double value, quern_dtype dtype) {
  if (dtype == QUERN_I32) {
    const double cut = std::fmin(std::fmax(value, -2147483648.0), 2147483647.0);
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(cut));
  }
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == QUERN_F32) return bits;
  if (dtype == QUERN_BF16) return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a >= 0x38800000u) return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  return sign | static_cast<std::uint32_t>(std::nearbyint(std::ldexp(static_cast<double>(std::bit_cast<float>(a)), 24)));  // subnormal
}

void emit_fill(const Call& call, Launcher& launcher) { fill_view(call.output(0), call.real(QUERN_KEY_VALUE), launcher); }

}  // namespace

const Op fill_op = offer(QUERN_OP_FILL, "fill.vulkan", nullptr, emit_fill);

void fill_view(const Tensor& y, double value, Launcher& launcher) {
  for_each_part(y, {&y}, [&](const Shape& shape, const View* v) {
    const FillParams p{shape, v[0], bits_of(value, y.dtype), 0};
    launcher.launch("fill", launcher.item_threads(), launcher.spread(shape.count), p);
  });
}

}  // namespace quern::vulkan
