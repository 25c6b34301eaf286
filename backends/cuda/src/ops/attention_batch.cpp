// See attention_batch.hpp.
#include "attention_batch.hpp"

#include <algorithm>

namespace quern::cuda {
namespace {

/// Query heads of a block.
int group_of(std::int64_t heads, std::int64_t kv_heads) { return heads == kv_heads ? 1 : 4; }
std::int64_t blocks_of(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads) {
  const int group = group_of(heads, kv_heads);
  return rows * kv_heads * ((heads / kv_heads + group - 1) / group);
}

}  // namespace

bool attention_batch_serves(const Tensor& cache, std::int64_t rows, std::int64_t heads, const Tensor& table, const CardFacts& card) {
  const std::int64_t d = cache.last();
  if (!card.has_bulk_copies() || (cache.dtype != QUERN_F16 && cache.dtype != QUERN_BF16) || (d != 64 && d != 128) ||
      cache.dims[2] % 16 != 0 || table.dims[1] % 8 != 0)
    return false;
  return rows > 1 && rows <= batch_most_rows && heads % cache.dims[1] == 0 && blocks_of(rows, heads, cache.dims[1]) >= card.multiprocessors;
}

void launch_attention_batch(AttentionBatchParams& p, Launcher& launcher) {
  p.faults = launcher.faults();
  const int group = group_of(p.heads, p.k.kv_heads), d = p.k.d;
  const std::int64_t blocks = blocks_of(p.rows, p.heads, p.k.kv_heads);
  // All blocks at once: as many warps each as a multiprocessor then has room for, sixteen in all.
  const std::int64_t each = (blocks + launcher.multiprocessors() - 1) / launcher.multiprocessors();
  const std::int64_t warps =
      std::clamp<std::int64_t>(16 / each, 2, group == 1 ? batch_most_warps : batch_most_warps / 2);  // four heads take twice the registers
  static constexpr KernelId<AttentionBatchParams> names[2][2][2] = {
      {{kernels::attention_batch_f16_64_1, kernels::attention_batch_f16_64_4},
       {kernels::attention_batch_f16_128_1, kernels::attention_batch_f16_128_4}},
      {{kernels::attention_batch_bf16_64_1, kernels::attention_batch_bf16_64_4},
       {kernels::attention_batch_bf16_128_1, kernels::attention_batch_bf16_128_4}}};
  launcher.launch(names[p.k.dtype == QUERN_BF16][d == 128][group == 4], {blocks / p.rows, p.rows, 1}, static_cast<unsigned>(32 * warps), p,
                  static_cast<unsigned>(batch_bytes(group, d, warps)));
}

}  // namespace quern::cuda
