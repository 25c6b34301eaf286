// Logits changed for the tokens of a row's history.
#include "logits.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_penalize(const Call& call, Launcher& launcher) {
  Address at = call.scratch;
  const Tensor x = packed_input(call, at, launcher), y = packed_at(call.output(0), at), &history = call.input(1);
  const PenalizeParams p{x.data,    y.data,    history.data,    call.input(2).data, call.input(3).data,
                         x.dims[0], x.dims[1], history.dims[1], launcher.faults()};
  launcher.launch(kernels::penalize, {p.rows, (p.n + 2047) / 2048, 1}, 256, p);
  unpack_output(call, y, launcher);
}

}  // namespace

const Op penalize_op{QUERN_OP_PENALIZE, "penalize.cuda", refuse_logits, emit_penalize, copies_bytes, false, all_packed};

}  // namespace quern::cuda
