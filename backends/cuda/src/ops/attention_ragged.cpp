// Attention within packed examples.
#include "attention_ragged.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_attention_ragged(const Call& call) { return check_ragged(call, call.output(1)); }

std::uint64_t scratch_attention_ragged(const Call&) { return ragged_valid_bytes; }

void emit_attention_ragged(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = ragged_params(call, call.output(1), launcher);
  p.y = example_rows(call.output(0));
  const OnMatrixUnits* const units = on_matrix_units(call, launcher);
  if (units == nullptr) return attend(p, 1, launcher);
  launcher.launch(units->forward, {matrix_tiles(p), p.heads, 1}, 128, p, static_cast<unsigned>(mma_attention_shared(false, units->size)));
}

}  // namespace

const Op attention_ragged_op{QUERN_OP_ATTENTION_RAGGED, "attention_ragged.cuda", refuse_attention_ragged, emit_attention_ragged,
                             scratch_attention_ragged};

}  // namespace quern::cuda
