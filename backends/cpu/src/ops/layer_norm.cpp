// y = weight * (x - mean) / sqrt(variance + epsilon) + bias.
//
// The mean is kept in f64 and taken off before anything is squared, so a row far from 0 keeps its digits.
#include "map_rows.hpp"

#include <cmath>

namespace quern::cpu {
namespace {

void run_layer_norm(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &weight = call.input(1), &bias = call.input(2), &y = call.output(0);
  const auto epsilon = static_cast<float>(call.real(QUERN_KEY_EPSILON));
  const std::int64_t n = x.last();
  const auto count = static_cast<double>(n);
  context.parallel(x.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[map_part], factors[map_part];
    for (std::int64_t row = begin; row < end; ++row) {
      const double mean = row_sum(x, row, 0, n, [](float v) { return v; }) / count;
      const auto centred = [mean](float v) { return static_cast<float>(static_cast<double>(v) - mean); };
      const double squares = row_sum(x, row, 0, n, [&centred](float v) { return centred(v) * centred(v); });
      const float inverse = 1.0f / std::sqrt(static_cast<float>(squares / count) + epsilon);
      for (std::int64_t first = 0; first < n; first += map_part) {
        const std::int64_t part = std::min(map_part, n - first);
        load_row(x, row, first, part, buffer);
        for (std::int64_t i = 0; i < part; ++i) buffer[i] = centred(buffer[i]) * inverse;
        if (weight.present()) {
          load_row(weight, 0, first, part, factors);
          for (std::int64_t i = 0; i < part; ++i) buffer[i] *= factors[i];
        }
        if (bias.present()) {
          load_row(bias, 0, first, part, factors);
          for (std::int64_t i = 0; i < part; ++i) buffer[i] += factors[i];
        }
        store_row(y, row, first, part, buffer);
      }
    }
  });
}

constexpr Kernel kernels_layer_norm[] = {{QUERN_OP_LAYER_NORM, "layer_norm.portable", Isa::baseline, accepts_any, run_layer_norm}};

}  // namespace

const std::span<const Kernel> layer_norm_kernels = kernels_layer_norm;

}  // namespace quern::cpu
