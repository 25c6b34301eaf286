// What follows the products of a matmul: alpha, bias, c, and the store in the dtype of y. Shared by all its kernels.
#pragma once

#include "matmul_shape.hpp"

namespace quern::cpu {

/// False: the products may be written to y as they are.
inline bool matmul_stages_y(const Call& call) noexcept {
  const Tensor& y = call.output(0);
  return y.dtype != QUERN_F32 || !has_packed_rows(y) || y.stride_from_end(1) % 4 != 0 || call.input(2).present() ||
         call.input(3).present() || call.real(QUERN_KEY_ALPHA) != 1.0;
}

/// Finishes and stores the products of `tokens` x `rows` at `from`, each token's `stride` floats from the last; overwrites them.
inline void matmul_finish(const Call& call, float* from, std::int64_t stride, std::int64_t batch, std::int64_t first_token,
                          std::int64_t tokens, std::int64_t first_row, std::int64_t rows) noexcept {
  const Tensor &a = call.input(0), &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  const auto alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA)), beta = static_cast<float>(call.real(QUERN_KEY_BETA));
  constexpr std::int64_t piece = 64;
  float other[piece];
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t at = 0; at < rows; at += piece) {
      const std::int64_t count = std::min(piece, rows - at), row = first_row + at;
      float* out = from + t * stride + at;
      if (alpha != 1.0f)
        for (std::int64_t r = 0; r < count; ++r) out[r] *= alpha;
      if (bias.present()) {
        load_floats(bytes_of(bias), bias.dtype, bias.stride_from_end(0), row, count, other);
        for (std::int64_t r = 0; r < count; ++r) out[r] += other[r];
      }
      if (c.present()) {
        load_floats(matmul_batch(c, a, batch) + (first_token + t) * c.stride_from_end(1), c.dtype, c.stride_from_end(0), row, count, other);
        for (std::int64_t r = 0; r < count; ++r) out[r] += beta * other[r];
      }
      store_floats(matmul_batch(y, a, batch) + (first_token + t) * y.stride_from_end(1), y.dtype, y.stride_from_end(0), row, count, out);
    }
  }
}

}  // namespace quern::cpu
