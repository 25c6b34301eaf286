// attention_ragged and attention_ragged_backward: attention_dense and its gradient with tiles within packed examples. See
// kernels/attention_ragged.cu.
#include "attention_dense.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

enum Input { in_q, in_k, in_v, in_start, in_y, in_lse, in_dy };

constexpr std::uint64_t valid_bytes = 256;  // of scratch, before the sums of dy y

bool is_backward(const Call& call) { return call.op == QUERN_OP_ATTENTION_RAGGED_BACKWARD; }
const Tensor& lse_of(const Call& call) { return is_backward(call) ? call.input(in_lse) : call.output(1); }

std::string refuse(const Call& call) {
  const Tensor &q = call.input(in_q), &start = call.input(in_start);
  if (q.dims[0] > 0x3fffffff || start.dims[0] > 0x3fffffff) return "2^30 rows or examples and more are not taken";
  return first_of({check_contiguous(start), check_heads(q, call.input(in_v)), check_lse(lse_of(call))});
}

/// An example's first row is what a batch is to the kernels.
Operand rows_of(const Tensor& t) {
  Operand operand = operand_of(t);
  if (!t.present()) return operand;
  operand.strides[0] = operand.strides[1] = t.strides[0];
  operand.strides[2] = t.strides[1];
  return operand;
}

std::uint64_t scratch(const Call& call) {
  const Tensor& q = call.input(in_q);
  return valid_bytes + (is_backward(call) ? static_cast<std::uint64_t>(q.dims[0] * q.dims[1]) * sizeof(float) : 0);
}

/// Kernels of the matrix units, for heads of up to `size` elements.
struct OnMatrixUnits {
  quern_dtype dtype;
  int size;
  KernelId<DenseAttentionParams> forward, keys, queries;
};

/// Null: the kernels in f32. Operands become bf16 where that is allowed and they are not of f16 already.
const OnMatrixUnits* on_matrix_units(const Call& call, Launcher& launcher) {
  static constexpr OnMatrixUnits kernels_of[] = {
      {QUERN_BF16, 64, kernels::attention_mma_bf16_64, kernels::attention_mma_keys_bf16_64, kernels::attention_mma_queries_bf16_64},
      {QUERN_BF16, 128, kernels::attention_mma_bf16_128, kernels::attention_mma_keys_bf16_128, kernels::attention_mma_queries_bf16_128},
      {QUERN_F16, 64, kernels::attention_mma_f16_64, kernels::attention_mma_keys_f16_64, kernels::attention_mma_queries_f16_64},
      {QUERN_F16, 128, kernels::attention_mma_f16_128, kernels::attention_mma_keys_f16_128, kernels::attention_mma_queries_f16_128}};
  const Tensor& q = call.input(in_q);
  const std::int64_t size = std::max(q.last(), call.input(in_v).last());
  const bool f16 = q.dtype == QUERN_F16 || (q.dtype == QUERN_F32 && !call.bf16_allowed());
  if (!launcher.card().has_matrix_units() || !(f16 ? call.f16_allowed() : call.bf16_allowed())) return nullptr;
  for (const OnMatrixUnits& k : kernels_of)
    if (k.dtype == (f16 ? QUERN_F16 : QUERN_BF16) && size <= k.size &&
        mma_attention_shared(true, k.size) <= launcher.gpu().facts().shared_limit)
      return &k;
  return nullptr;
}

void emit(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(in_q), &k = call.input(in_k), &v = call.input(in_v), &start = call.input(in_start);
  DenseAttentionParams p = scores_of(call, q, k, v);
  p.q = rows_of(q);
  p.k = rows_of(k);
  p.v = rows_of(v);
  p.lse = rows_of(lse_of(call));
  p.start = start.data;
  p.valid = call.scratch;
  p.examples = static_cast<int>(start.dims[0] - 1);
  p.queries = p.keys = static_cast<int>(q.dims[0]);
  launcher.launch(kernels::attention_starts, {1, 1, 1}, 256,
                  AttentionStartsParams{p.start, p.valid, launcher.faults(), p.examples, p.queries});
  const OnMatrixUnits* const units = on_matrix_units(call, launcher);
  const std::int64_t tiles = ragged_tiles(p.queries, p.examples, mma_attention_tile);
  if (!is_backward(call)) {
    p.y = rows_of(call.output(0));
    if (units == nullptr) return attend(p, 1, launcher);
    return launcher.launch(units->forward, {tiles, p.heads, 1}, 128, p, static_cast<unsigned>(mma_attention_shared(false, units->size)));
  }
  p.y = rows_of(call.input(in_y));
  p.dy = rows_of(call.input(in_dy));
  p.dq = rows_of(call.output(0));
  p.dk = rows_of(call.output(1));
  p.dv = rows_of(call.output(2));
  p.dots = call.scratch + valid_bytes;
  if (units == nullptr) return attend_backward(p, 1, launcher);
  const auto shared = static_cast<unsigned>(mma_attention_shared(true, units->size));
  launcher.launch(kernels::attention_dots, {(p.queries + 7) / 8, p.heads, 1}, 256, p);
  launcher.launch(units->keys, {tiles, p.kv_heads, 1}, 128, p, shared);
  launcher.launch(units->queries, {tiles, p.heads, 1}, 128, p, shared);
}

constexpr Op table[] = {{QUERN_OP_ATTENTION_RAGGED, "attention_ragged.cuda", refuse, emit, scratch},
                        {QUERN_OP_ATTENTION_RAGGED_BACKWARD, "attention_ragged_backward.cuda", refuse, emit, scratch}};

}  // namespace

const std::span<const Op> attention_ragged_ops = table;

}  // namespace quern::cuda
