// The root of the sum of squares over all gradients, in f64, and whether every element is finite.
//
// The square of a finite f32 is below 2^256, so an f64 sum of them cannot overflow: the sum is finite if and only if every element is.
#include "element_parts.hpp"
#include "map_rows.hpp"
#include "optimiser_rows.hpp"

#include <cmath>
#include <cstring>

namespace quern::cpu {
namespace {

/// An f64 a part of the largest input.
std::uint64_t scratch_grad_norm(const Call& call) noexcept {
  std::int64_t most = 0;
  for (const Tensor& x : call.inputs) most = std::max(most, element_parts(x).count);
  return static_cast<std::uint64_t>(most) * 8;
}

/// Eight sums, which add up in pairs.
double squares(const Tensor& x, std::int64_t row, std::int64_t first, std::int64_t last) noexcept {
  constexpr std::int64_t part = 512;
  float buffer[part];
  double lanes[8] = {};
  for (; first < last; first += part) {
    const std::int64_t count = std::min(part, last - first);
    const float* at = part_floats(portable::vectors, x, row, first, count, buffer);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8)
      for (int l = 0; l < 8; ++l) lanes[l] += static_cast<double>(at[i + l]) * static_cast<double>(at[i + l]);
    for (int l = 0; i < count; ++i, ++l) lanes[l] += static_cast<double>(at[i]) * static_cast<double>(at[i]);
  }
  for (int half = 4; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

void run_grad_norm(const Call& call, Context& context) noexcept {
  double total = 0.0;
  for (const Tensor& x : call.inputs) total += sum_parts(x, context, reinterpret_cast<double*>(context.scratch()), squares);
  if (context.cancelled()) return;
  const std::int32_t finite = std::isfinite(total) ? 1 : 0;
  store_scalar(call.output(0), 0, static_cast<float>(std::sqrt(total)));
  std::memcpy(bytes_of(call.output(1)), &finite, sizeof(finite));
}

constexpr Kernel kernels_grad_norm[] = {
    {QUERN_OP_GRAD_NORM, "grad_norm.portable", Isa::baseline, accepts_any, run_grad_norm, scratch_grad_norm}};

}  // namespace

const std::span<const Kernel> grad_norm_kernels = kernels_grad_norm;

}  // namespace quern::cpu
