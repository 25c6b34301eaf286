// Logits changed by an amount for a few tokens.
#include "logits.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_logit_bias(const Call& call, Launcher& launcher) {
  Address at = call.scratch;
  const Tensor x = packed_input(call, at, launcher), y = packed_at(call.output(0), at), &token = call.input(1);
  const BiasParams p{x.data, y.data, token.data, call.input(2).data, x.dims[0], x.dims[1], token.dims[1], launcher.faults()};
  launcher.launch(kernels::logit_bias, {p.rows, (p.n + 2047) / 2048, 1}, 256, p);
  unpack_output(call, y, launcher);
}

}  // namespace

const Op logit_bias_op{QUERN_OP_LOGIT_BIAS, "logit_bias.cuda", refuse_logits, emit_logit_bias, copies_bytes, false, all_packed};

}  // namespace quern::cuda
