// Products of 2 and more rows with quantised weights by kernels/kquants_rows.cuh and warpgroup_rows.cuh, and of 1 and more with f16 and bf16 ones by
// kernels/mixed.cu: activations of f16 (bf16).
#pragma once

#include "../kernels/mixed.hpp"
#include "../kernels/operand.hpp"
#include "../op.hpp"

#include <algorithm>

namespace quern::cuda {

constexpr std::int64_t operand_rows = 64;      // of one operand; more have one behind another
constexpr std::int64_t mixed_span = 4;         // blocks of 256 that a warp takes between two barriers
constexpr std::int64_t mixed_reserved = 1024;  // shared memory that the system takes for each block

/// How many rows an operand has room for that holds `rows`, and its bytes.
constexpr std::int64_t operand_columns(std::int64_t rows) {
  return rows <= 1 ? 1 : rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : operand_rows;
}
constexpr std::int64_t operand_bytes(std::int64_t rows, std::int64_t k) {
  return (rows + operand_rows - 1) / operand_rows * operand_columns(rows) * ((k + 255) / 256) * operand_pitch;
}

/// Shared memory that blocks of kernels/kquants.cuh may have, two of them or one on a multiprocessor.
inline std::int64_t kquants_shared_limit(Launcher& launcher, bool halves) {
  const std::int64_t all = launcher.gpu().facts().shared_limit;
  return (halves ? (all - mixed_reserved) / 2 : all) - mixed_barrier_bytes;
}
/// Fills ways and span of a block whose p.tiles tiles of outputs share an operand of p.columns and `blocks` blocks of 256. Its warps have rings of
/// p.ring bytes; fewer tiles where `limit` bytes hold no more. A tile has as many of the `warps` as there is room for, if each has less to do by
/// them. Returns the bytes of shared memory, `tail` included. P: MixedParams, or parameters with its shares.
template <class P>
unsigned share_kquants_block(P& p, std::int64_t blocks, std::int64_t warps, std::int64_t limit, std::int64_t tail, std::int64_t most_span) {
  const std::int64_t column_bytes = std::int64_t{p.columns} * operand_pitch;
  while (p.tiles > 1 && p.tiles * p.ring + 2 * column_bytes + tail > limit) --p.tiles;  // of cards with less than an H100
  std::int64_t ways = std::clamp<std::int64_t>(warps / p.tiles, 1, blocks);
  while (ways > 1 && ways * (p.tiles * p.ring + 2 * column_bytes) + tail > limit) --ways;
  const std::int64_t rounds = (blocks + ways - 1) / ways;
  ways = (blocks + rounds - 1) / rounds;
  const std::int64_t left = limit - p.tiles * ways * p.ring - tail;
  p.ways = static_cast<int>(ways);
  p.span = static_cast<int>(std::clamp<std::int64_t>(left / (2 * ways * column_bytes), 1, std::min(most_span, rounds)));
  return static_cast<unsigned>(2 * ways * p.span * column_bytes + mixed_barrier_bytes + p.tiles * ways * p.ring + tail);
}

/// How many rows steps have whose products are these: more have products of 16-bit copies of the weights.
constexpr std::int64_t most_mixed_rows = 64;
/// Whether a kernel takes these weights: f16, bf16 or a half format (is_half_format); rows of whole blocks of 256.
bool mixed_serves(const Tensor& weights, const CardFacts& card);
/// Fills how the work is shared among blocks and warps, and launches. All but that is filled, `columns` too, which is that of a larger
/// operand of which these are some; rows of parts before the last are a multiple of 16 (under glu: rows of both are equal).
void launch_mixed(const MixedParams& p, Launcher& launcher);

}  // namespace quern::cuda
