// Paged attention as the op and the fused decode step launch it.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Fills everything but the fused parts. Splits of the keys and their scratch are chosen for `rows` rows.
AttentionParams attention_params(const Call& call, Launcher& launcher);
/// The paged cache of an attention as kernels see it.
Pages pages_for(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position);
std::uint64_t attention_scratch(const Call& call);
/// Whether launch_rope_kv has a kernel: caches of floats, whole fours.
bool rope_kv_serves(const Tensor& k, const Tensor& v, const Tensor& table);
/// Whether it takes eight elements at a time, and f16.
bool rope_by_eights(std::int64_t d, std::int64_t dv, const Tensor& table);
/// Whether its kernels, those of one row and of a batch make norms of queries and keys too: the eights of a head are lanes of one warp.
/// `rows`: norms of all heads together, for which they need not.
bool head_norms_serve(const Tensor& k, const Tensor& v, const Tensor& table, bool rows);
/// Rotations and writes of keys and values of many rows; fills what the table gives.
void launch_rope_kv(RopeKvParams& params, const Tensor& table, int mode, std::int64_t rows, Launcher& launcher);
void launch_attention(const AttentionParams& params, std::int64_t rows, Launcher& launcher);

/// Rows from which attention runs on the matrix units: fewer are likely of many sequences, and each has its own blocks.
inline constexpr std::int64_t least_attention_rows = 65;
/// Runs of rows of one sequence among 128 up to which those kernels take them, where the host asks both kinds.
inline constexpr int most_attention_runs = 8;
/// Whether those kernels (attention_rows.cu, attention_groups.cu; compute capability 8.0) read such caches, with `shared_limit` bytes of shared memory:
/// heads of any multiple of 16 from 32 to 256.
bool attention_rows_serves(const Tensor& k, const Tensor& v, int shared_limit);
/// Launches them, and what joins the parts where blocks share keys; fills what says how. `scratch`: attention_rows_scratch.
void launch_attention_rows(AttentionRowsParams& params, Address scratch, Launcher& launcher);
/// For up to the rows of `call`; `joined`: the result is an operand, which attention_join.cu alone stores.
std::uint64_t attention_rows_scratch(const Call& call, bool joined);

}  // namespace quern::cuda
