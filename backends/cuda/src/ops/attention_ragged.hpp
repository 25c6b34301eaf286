// What attention_ragged and its gradient share: attention_dense with tiles within packed examples. See kernels/attention_ragged.cu.
#pragma once

#include "attention_dense.hpp"
#include "strided.hpp"

namespace quern::cuda {

constexpr std::uint64_t ragged_valid_bytes = 256;  // of scratch, before the sums of dy y

inline std::string check_ragged(const Call& call, const Tensor& lse) {
  const Tensor &q = call.input(0), &start = call.input(3);
  if (q.dims[0] > 0x3fffffff || start.dims[0] > 0x3fffffff) return "2^30 rows or examples and more are not taken";
  return first_of({check_contiguous(start), check_heads(q, call.input(2)), check_lse(lse)});
}

/// An example's first row is what a batch is to the kernels.
inline Operand example_rows(const Tensor& t) {
  Operand operand = operand_of(t);
  if (!t.present()) return operand;
  operand.strides[0] = operand.strides[1] = t.strides[0];
  operand.strides[2] = t.strides[1];
  return operand;
}

/// Kernels of the matrix units, for heads of up to `size` elements.
struct OnMatrixUnits {
  quern_dtype dtype;
  int size;
  KernelId<DenseAttentionParams> forward, keys, queries;
};

/// Null: the kernels in f32. Operands become bf16 where that is allowed and they are not of f16 already.
inline const OnMatrixUnits* on_matrix_units(const Call& call, Launcher& launcher) {
  static constexpr OnMatrixUnits kernels_of[] = {
      {QUERN_BF16, 64, kernels::attention_mma_bf16_64, kernels::attention_mma_keys_bf16_64, kernels::attention_mma_queries_bf16_64},
      {QUERN_BF16, 128, kernels::attention_mma_bf16_128, kernels::attention_mma_keys_bf16_128, kernels::attention_mma_queries_bf16_128},
      {QUERN_F16, 64, kernels::attention_mma_f16_64, kernels::attention_mma_keys_f16_64, kernels::attention_mma_queries_f16_64},
      {QUERN_F16, 128, kernels::attention_mma_f16_128, kernels::attention_mma_keys_f16_128, kernels::attention_mma_queries_f16_128}};
  const Tensor& q = call.input(0);
  const std::int64_t size = std::max(q.last(), call.input(2).last());
  const bool f16 = q.dtype == QUERN_F16 || (q.dtype == QUERN_F32 && !call.bf16_allowed());
  if (!launcher.card().has_matrix_units() || !(f16 ? call.f16_allowed() : call.bf16_allowed())) return nullptr;
  for (const OnMatrixUnits& k : kernels_of)
    if (k.dtype == (f16 ? QUERN_F16 : QUERN_BF16) && size <= k.size &&
        mma_attention_shared(true, k.size) <= launcher.gpu().facts().shared_limit)
      return &k;
  return nullptr;
}

/// Without y and the gradients; the kernel that finds where examples start is launched.
inline DenseAttentionParams ragged_params(const Call& call, const Tensor& lse, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2), &start = call.input(3);
  DenseAttentionParams p = scores_of(call, q, k, v);
  p.q = example_rows(q);
  p.k = example_rows(k);
  p.v = example_rows(v);
  p.lse = example_rows(lse);
  p.start = start.data;
  p.valid = call.scratch;
  p.examples = static_cast<int>(start.dims[0] - 1);
  p.queries = p.keys = static_cast<int>(q.dims[0]);
  launcher.launch(kernels::attention_starts, {1, 1, 1}, 256,
                  AttentionStartsParams{p.start, p.valid, launcher.faults(), p.examples, p.queries});
  return p;
}
/// Tiles of the matrix units.
inline std::int64_t matrix_tiles(const DenseAttentionParams& p) { return ragged_tiles(p.queries, p.examples, mma_attention_tile); }

}  // namespace quern::cuda
