// What matmul and matmul_id share: how rows of b are cut into parts, operands in the form that simd/matmul.cpp takes, and a table row
// for each format of b. An output's bits depend on its two rows alone, whichever of the two ops asks.
#pragma once

#include "vectorised.hpp"

#include "quern/quern_formats.h"

#include <algorithm>

namespace quern::cpu {

constexpr std::int64_t max_part = 64;     // rows of b in a part
constexpr std::int64_t max_tokens = 240;  // whose outputs wait in scratch

/// Floats of a row of packed activations.
inline std::int64_t padded(std::int64_t k) noexcept { return (k + 31) / 32 * 32; }

/// Rows of b in a part: a multiple of 8, about a quarter of a million multiply-adds, and parts enough for every thread.
inline std::int64_t part_rows(std::int64_t k, std::int64_t tokens, std::int64_t rows, std::uint32_t threads) noexcept {
  std::int64_t part = std::clamp<std::int64_t>(262144 / std::max<std::int64_t>(1, k * tokens), 1, max_part / 8) * 8;
  while (part > 8 && rows < part * threads * 2) part /= 2;
  return std::max<std::int64_t>(8, part / 8 * 8);
}

/// May the rows of `a` be multiplied where they lie? `row_stride` is in bytes.
inline bool activations_fit(const Tensor& a, std::int64_t row_stride, std::int64_t k) noexcept {
  return a.dtype == QUERN_F32 && has_packed_rows(a) && k % 32 == 0 && row_stride % 4 == 0;
}

/// A row of activations as padded(k) floats with zeros behind.
inline void pack_activations(const Vectors& vectors, quern_dtype dtype, const std::byte* from, std::int64_t stride, std::int64_t k,
                             float* to) noexcept {
  if (stride == unit_bytes(dtype)) vectors.to_floats(dtype, from, k, to);
  else load_floats(from, dtype, stride, 0, k, to);
  std::fill(to + k, to + padded(k), 0.0f);
}

/// Points `part` at rows first.. first + part.rows of the weights at `data`. With a `copy` of max_part * padded(k) floats, rows that
/// are not packed along k are copied there, which keeps the order of summation.
inline void set_weights(MatmulPart& part, quern_dtype dtype, const std::byte* data, std::int64_t row_stride, std::int64_t k_stride,
                        std::int64_t first, float* copy) noexcept {
  part.dtype = dtype;
  part.w = data + first * row_stride;
  part.w_stride = row_stride;
  if (copy == nullptr) return;
  for (std::int64_t r = 0; r < part.rows; ++r)
    load_floats(data + (first + r) * row_stride, dtype, k_stride, 0, part.k, copy + r * padded(part.k));
  part.dtype = QUERN_F32;
  part.w = reinterpret_cast<const std::byte*>(copy);
  part.w_stride = padded(part.k) * 4;
}

/// A row is for one dtype of b, so that its name says what ran.
template <quern_dtype Weights, Verdict (*accepts)(const Call& call)>
Verdict accepts_weights(const Call& call) {
  return call.input(1).dtype == Weights ? accepts(call) : Verdict::not_mine();
}

#define QUERN_CPU_WEIGHT(op, name, dtype, accepts, run, scratch) \
  QUERN_CPU_KERNELS(op, name, (accepts_weights<dtype, accepts>), run, scratch, false)
#define QUERN_CPU_WEIGHT_OF(FORMAT, format, op, name, accepts, run, scratch) \
  , QUERN_CPU_WEIGHT(op, name "." #format, QUERN_##FORMAT, accepts, run, scratch)
#define QUERN_CPU_WEIGHT_ROW(FORMAT, format, with) QUERN_CPU_EXPAND(QUERN_CPU_WEIGHT_OF, FORMAT, format, QUERN_CPU_SPREAD with)
/// Rows for each dtype of b: QUERN_CPU_WEIGHTS(QUERN_OP_MATMUL, "matmul", accepts, run, scratch).
#define QUERN_CPU_WEIGHTS(op, name, accepts, run, scratch) \
  QUERN_CPU_WEIGHT(op, name ".f32", QUERN_F32, accepts, run, scratch), \
      QUERN_CPU_WEIGHT(op, name ".f16", QUERN_F16, accepts, run, scratch), \
      QUERN_CPU_WEIGHT(op, name ".bf16", QUERN_BF16, accepts, run, scratch) \
          QUERN_EACH_FORMAT(QUERN_CPU_WEIGHT_ROW, (op, name, accepts, run, scratch))

}  // namespace quern::cpu
