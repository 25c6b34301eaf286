// Gradients of attention_ragged.
#include "attention_ragged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

enum { ragged_y = 4, ragged_lse, ragged_dy };

std::string refuse_attention_ragged_backward(const Call& call) { return check_ragged(call, call.input(ragged_lse)); }

std::uint64_t scratch_attention_ragged_backward(const Call& call) {
  const Tensor& q = call.input(0);
  return ragged_valid_bytes + static_cast<std::uint64_t>(q.dims[0] * q.dims[1]) * sizeof(float);
}

void emit_attention_ragged_backward(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = ragged_params(call, call.input(ragged_lse), launcher);
  p.y = example_rows(call.input(ragged_y));
  p.dy = example_rows(call.input(ragged_dy));
  p.dq = example_rows(call.output(0));
  p.dk = example_rows(call.output(1));
  p.dv = example_rows(call.output(2));
  p.dots = call.scratch + ragged_valid_bytes;
  const OnMatrixUnits* const units = on_matrix_units(call, launcher);
  if (units == nullptr) return attend_backward(p, 1, launcher);
  const std::int64_t tiles = matrix_tiles(p);
  const auto shared = static_cast<unsigned>(mma_attention_shared(true, units->size));
  launcher.launch(kernels::attention_dots, {(p.queries + 7) / 8, p.heads, 1}, 256, p);
  launcher.launch(units->keys, {tiles, p.kv_heads, 1}, 128, p, shared);
  launcher.launch(units->queries, {tiles, p.heads, 1}, 128, p, shared);
}

}  // namespace

const Op attention_ragged_backward_op{QUERN_OP_ATTENTION_RAGGED_BACKWARD, "attention_ragged_backward.cuda",
                                      refuse_attention_ragged_backward, emit_attention_ragged_backward, scratch_attention_ragged_backward};

}  // namespace quern::cuda
