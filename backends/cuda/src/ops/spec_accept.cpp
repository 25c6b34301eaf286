// Drafted tokens that the target accepts.
#include "../kernels/decoding.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_spec_accept(const Call& call, Launcher& launcher) {
  const AcceptParams p{rows_of(call.input(0)),  rows_of(call.input(1)),  rows_of(call.input(2)),
                       rows_of(call.output(0)), rows_of(call.output(1)), call.input(0).dims[1]};
  launcher.launch(kernels::spec_accept, {call.input(0).dims[0], 1, 1}, 32, p);
}

}  // namespace

const Op spec_accept_op{QUERN_OP_SPEC_ACCEPT, "spec_accept.cuda", nullptr, emit_spec_accept};

}  // namespace quern::cuda
