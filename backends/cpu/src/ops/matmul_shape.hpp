// The sizes of a matmul call, and where its batches lie.
#pragma once

#include "../kernel.hpp"

#include <algorithm>

namespace quern::cpu {

struct MatmulShape {
  std::int64_t batches, m, n, k;
  bool a_transposed, b_transposed;
};

inline MatmulShape matmul_shape(const Call& call) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1);
  MatmulShape s{};
  s.a_transposed = call.integer(QUERN_KEY_TRANSPOSE_A) != 0;
  s.b_transposed = call.integer(QUERN_KEY_TRANSPOSE_B) != 0;
  s.m = a.dim_from_end(s.a_transposed ? 0 : 1);
  s.k = a.dim_from_end(s.a_transposed ? 1 : 0);
  s.n = b.dim_from_end(s.b_transposed ? 0 : 1);
  s.batches = 1;
  for (std::uint32_t d = 2; d < a.rank; ++d) s.batches *= a.dim_from_end(d);
  return s;
}

/// The matrix of `view` that belongs to batch `batch` of `a`: leading dims of 1 repeat, smaller ones repeat whole groups.
inline std::byte* matmul_batch(const Tensor& view, const Tensor& a, std::int64_t batch) noexcept {
  std::int64_t offset = 0;
  for (std::uint32_t d = 2; d < a.rank; ++d) {
    const std::int64_t size = a.dim_from_end(d), index = batch % size;
    batch /= size;
    if (view.dim_from_end(d) > 0) offset += index / std::max<std::int64_t>(1, size / view.dim_from_end(d)) * view.stride_from_end(d);
  }
  return bytes_of(view) + offset;
}

}  // namespace quern::cpu
