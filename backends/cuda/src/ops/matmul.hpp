// Products of few rows with weights: what the op and the fused decode step share.
#pragma once

#include "../op.hpp"

#include <optional>

namespace quern::cuda {

constexpr std::int64_t most_gemv_rows = 8;

/// Whether `weights` times int8 activations has a kernel: a block format in rows of whole blocks.
bool has_int8_kernel(const Tensor& weights);
/// Where int8 activations of up to `rows` rows of k lie in memory that starts at `at`, with room for sums of squares; its size.
/// `dtype`: that of the codes, see Activations.
Activations activations_at(Address at, std::int64_t k, bool sums, int dtype = 0, std::int64_t rows = most_gemv_rows);
std::uint64_t activation_bytes(std::int64_t k, std::int64_t rows = most_gemv_rows);
void launch_quantise(Address x, Address weight, float offset, std::int64_t rows, std::int64_t k, const Activations& out,
                     Launcher& launcher);
/// One row of f32 activations that a product quantises itself, in place of p.x. x 0: none.
struct RawInput {
  Address x = 0, weight = 0;  // weight: of a norm, or 0
  float offset = 0;
  bool norm = false;
  bool settles = false;  // the kernel lets the next one start only when all before it are done
  Front front{};         // what becomes of x before all else; k is at most most_raw
};
/// What kernels of one row have in variants of their own, with which the others would be slower: fronts, activations but SwiGLU, two residuals.
inline bool is_general(const GemvParams& g, const RawInput& raw) {
  return raw.front.kind != front_none || g.residual2 != 0 || g.activation != (g.glu != 0 ? act_silu : act_none);
}
constexpr std::int64_t most_raw = 8192;  // elements

/// How kernels/stream.cu or kernels/tiles.cu computes a product on a card with bulk copies.
struct TilesCard {
  int multiprocessors;
  std::int64_t shared_limit;
};
struct TilesLaunch {
  TilesParams p;
  std::int64_t grid;
  unsigned shared;
  bool stream;
};
/// Nothing where the shapes do not allow it; if `invariant`, whatever the number of activation rows.
/// `adapters`: of one row, in parts of whole tiles of 16 rows that stream_serves() takes, without a front; null: none.
std::optional<TilesLaunch> tiles_launch(const GemvParams& p, bool invariant, const TilesCard& card, const RawInput& raw = {},
                                        const Adapters* adapters = nullptr);
/// The same product by kernels/tiles.cu or kernels/stream.cu, where the card and the shapes allow it; whether it was launched. If `invariant`,
/// what is allowed does not depend on the number of activation rows, nor do the bits of a row.
bool launch_tiles(const GemvParams& p, bool invariant, Launcher& launcher, const RawInput& raw = {}, const Adapters* adapters = nullptr);
/// Whether kernels/stream.cu takes one row, of f32 too, which it quantises itself, of parts in whole tiles of 16 rows (under glu 8).
bool stream_serves(quern_dtype dtype, std::int64_t k, const CardFacts& card);
/// Whether it serves `rows` rows of activations, for weights of f16 or bf16, which have no other kernel with rounded activations.
bool tiles_serve(quern_dtype dtype, std::int64_t k, std::int64_t rows, const CardFacts& card);
/// Launches a product of any number of rows, whose bits do not depend on it if `invariant`.
void launch_gemv(const GemvParams& p, bool invariant, Launcher& launcher);

}  // namespace quern::cuda
