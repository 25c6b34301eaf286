// What is compiled once for each instruction set: work on rows of f32 and on weight blocks, behind one table of functions.
//
// Files in this folder see no Tensor and call no standard-library template: an inline function compiled with AVX flags could
// be the copy that the linker keeps for all. A test holds their objects to that. All sums run in 16 lanes in one order
// (lanes.hpp), so avx2 and avx512 give the same bits; portable multiplies and adds where these fuse.
#pragma once

#include "../isa.hpp"

#include "quern/quern_dtypes.h"

#include <cstddef>
#include <cstdint>

namespace quern::cpu {

/// y[t][r] = sum over k of a[t][k] * w[r][k], for some rows of w.
struct MatmulPart {
  quern_dtype dtype;      // of w: f32, f16, bf16 or a block format
  const std::byte* w;     // rows packed along k
  std::int64_t w_stride;  // bytes from row to row
  std::int64_t rows;
  const float* a;         // each row padded with zeros to a multiple of 32 floats
  std::int64_t a_stride;  // floats from row to row
  std::int64_t tokens;
  std::int64_t k;  // a multiple of the block of w
  float* y;
  std::int64_t y_stride;  // floats from token to token
  float* buffer;          // matmul_buffer_floats() of them
};

constexpr std::int64_t attention_block = 64;

/// scores[t][j] = scale * sum over k of queries[t][k] * keys[j][k], the sum with the bits of `matmul`, for positions first .. end of a block and those that
/// share 16 with them, whatever lies there: keys lie turned around, so that lanes are positions.
struct AttentionScores {
  const float* turned_keys;  // [depth][attention_block], as turn_keys makes them
  std::int64_t depth;        // a multiple of 16
  std::int64_t first, end;
  const float* queries;  // [rows][depth]
  std::int64_t rows;
  float scale;
  float* scores;  // [rows][attention_block]
};

/// Rows t of the tile see scores[t][low[t] .. high[t]) of a block of positions; running maximum, sum and output per row.
struct AttentionBlock {
  std::int64_t rows;
  std::int64_t positions;  // in the block, at most attention_block
  const std::int32_t* low;
  const std::int32_t* high;  // low >= high: the row sees nothing here
  float* scores;             // [rows][attention_block]; overwritten. -inf: not seen
  const float* v;            // [positions][v_size], padded to a multiple of 16 floats
  std::int64_t v_size;       // a multiple of 16
  bool holes;                // scores inside [low, high) may be -inf, for positions whose v must not be touched
  float* maximum;            // [rows]
  float* sum;                // [rows]
  float* output;             // [rows][v_size]
};

/// y[r] += sum over j of w[r][j] * x[j] for rows of x along the columns: one sum from 0 in the order of j, then one addition to y.
/// A caller cuts the depth into blocks of accumulate_block, so that errors grow with the root of the length.
struct AccumulatePart {
  const float* w;  // w[r][j] is w[r * w_row + j * w_step]
  std::int64_t w_row, w_step;
  const float* x;  // [depth][x_stride]
  std::int64_t x_stride;
  float* y;
  std::int64_t y_stride;
  const std::int64_t* y_rows;  // row r of the part is row y_rows[r] of y, which may stand twice; null: row r
  std::int64_t rows, depth;
  std::int64_t columns;  // a multiple of 16
};
constexpr std::int64_t accumulate_block = 64;

/// One step of AdamW for n elements: moments, then the weight. All f32 and packed.
struct AdamwRow {
  const float* gradient;
  float *w, *m, *v;
  std::int64_t n;
  float scale;         // of the gradient
  float beta1, rest1;  // rest1 = 1 - beta1
  float beta2, rest2;
  float rate;  // lr / (1 - beta1^step)
  float root;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // lr * weight_decay
};

constexpr std::int64_t gemm_rows = 12, gemm_columns = 32;  // of a panel of a, of a strip of b
constexpr std::int64_t gemm_depth = 192;                   // of k multiplied together; a multiple of 32

/// out[k][lane] for `depth` of k and `width` lanes: gemm_rows of floats, or gemm_columns of any dtype. Lanes from `count` on are zeros.
struct GemmPanel {
  quern_dtype dtype;
  const std::byte* data;
  std::int64_t stride;  // bytes from lane to lane where the source is packed along k, else from k to k
  bool along_k;
  std::int64_t first;  // element of a row of the source: a multiple of gemm_depth along k, else of the width
  std::int64_t count, width, depth;
  float* out;
  std::int64_t next = 0;  // bytes from data to what is packed next from plain rows; they are fetched meanwhile
};

/// c[r][j] = sum over k of a[k][r] * b[k][j], or c plus that, for panels of a one after another.
struct GemmPart {
  const float* a;  // [panels][depth][gemm_rows]
  const float* b;  // [depth][gemm_columns]
  std::int64_t depth, panels;
  bool first;
  float* c;  // [panels * gemm_rows][gemm_columns]
};

enum GluKind : std::int64_t { glu_silu = 0, glu_gelu_erf = 1, glu_gelu_tanh = 2, glu_relu = 3, glu_sigmoid = 4 };

/// y = f(gate) * up. With a finite limit gate is cut from above, up on both sides, silu is x sigmoid(alpha x), and up + 1 is the factor.
/// y may be gate or up.
struct GluRow {
  std::int64_t kind;  // a GluKind
  float alpha, limit;
  const float *gate, *up;
  std::int64_t n;
  float* y;
};

enum class Activation : std::uint8_t { gelu_erf, gelu_tanh, gelu_quick, sigmoid, tanh };

constexpr std::int64_t matmul_row_block = 8;     // rows decoded together
constexpr std::int64_t matmul_max_depth = 576;   // of k decoded together: 18 KiB of f32, half of a first-level cache
constexpr std::int64_t matmul_max_tokens = 240;  // that pass over decoded weights
constexpr std::int64_t matmul_buffer_floats() { return matmul_row_block * matmul_max_depth + matmul_max_tokens * matmul_row_block * 16; }

struct Vectors {
  void (*matmul)(const MatmulPart& part) noexcept;
  /// out[0..count) of packed f32, f16, bf16, or blocks of a format; count a multiple of the block.
  void (*to_floats)(quern_dtype dtype, const std::byte* from, std::int64_t count, float* out) noexcept;
  /// f32 to packed f32, f16 or bf16.
  void (*from_floats)(quern_dtype dtype, const float* from, std::int64_t count, std::byte* out) noexcept;
  /// y = x / sqrt(mean(x^2) + epsilon) * (weight + offset); weight may be null. y may be x.
  void (*rms_norm)(const float* x, const float* weight, float offset, float epsilon, std::int64_t n, float* y) noexcept;
  void (*silu)(const float* x, std::int64_t n, float* y) noexcept;
  /// y may be x.
  void (*activate)(Activation activation, const float* x, std::int64_t n, float* y) noexcept;
  void (*glu)(const GluRow& row) noexcept;
  /// y = cap * tanh(x / cap). y may be x.
  void (*softcap)(const float* x, float cap, std::int64_t n, float* y) noexcept;
  void (*add)(const float* a, const float* b, std::int64_t n, float* y) noexcept;
  void (*mul)(const float* a, const float* b, std::int64_t n, float* y) noexcept;
  void (*scale)(const float* x, float factor, std::int64_t n, float* y) noexcept;
  /// Largest, NaN ignored; -inf for n = 0.
  float (*maximum)(const float* x, std::int64_t n) noexcept;
  /// y = exp(x - shift); returns the sum, in 16 lanes and blocks of 4096.
  float (*exp_sum)(const float* x, float shift, std::int64_t n, float* y) noexcept;
  float (*sum)(const float* x, std::int64_t n) noexcept;
  /// turned[k][j] = keys[j][k] for j in first .. end and those that share 4 with them, of [attention_block][depth] keys; depth a multiple of 4.
  void (*turn_keys)(const float* keys, std::int64_t first, std::int64_t end, std::int64_t depth, float* turned) noexcept;
  void (*attention_scores)(const AttentionScores& part) noexcept;
  void (*attention)(const AttentionBlock& block) noexcept;
  void (*accumulate)(const AccumulatePart& part) noexcept;
  float (*dot)(const float* a, const float* b, std::int64_t n) noexcept;
  /// out = a * x + b * y. out may be x or y.
  void (*combine)(const float* x, float a, const float* y, float b, std::int64_t n, float* out) noexcept;
  /// dx = scale * y * (dy - shift), and 0 where y is 0 whatever dy is there. dx may be y or dy.
  void (*softmax_backward)(const float* y, const float* dy, float shift, float scale, std::int64_t n, float* dx) noexcept;
  /// dx may be x or dy.
  void (*silu_backward)(const float* x, const float* dy, std::int64_t n, float* dx) noexcept;
  /// Of silu(gate) * up. dup may be null; an output may be any of the inputs.
  void (*silu_mul_backward)(const float* gate, const float* up, const float* dy, std::int64_t n, float* dgate, float* dup) noexcept;
  void (*adamw)(const AdamwRow& row) noexcept;
  void (*pack_panel)(const GemmPanel& panel) noexcept;
  void (*gemm)(const GemmPart& part) noexcept;
};

namespace portable {
extern const Vectors vectors;
}
namespace avx2 {
extern const Vectors vectors;
}
namespace avx512 {
extern const Vectors vectors;
}

inline const Vectors& vectors_of(Isa isa) noexcept {
  return isa >= Isa::avx512 ? avx512::vectors : isa == Isa::avx2 ? avx2::vectors : portable::vectors;
}

}  // namespace quern::cpu
