// spec_accept and token_publish.
#include "../kernels/decoding.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_accept(const Call& call, Launcher& launcher) {
  const AcceptParams p{rows_of(call.input(0)),  rows_of(call.input(1)),  rows_of(call.input(2)),
                       rows_of(call.output(0)), rows_of(call.output(1)), call.input(0).dims[1]};
  launcher.launch(kernels::spec_accept, {call.input(0).dims[0], 1, 1}, 32, p);
}

void emit_publish(const Call& call, Launcher& launcher) {
  const Tensor &token = call.input(0), &ring = call.output(0);
  PublishTokenParams p{rows_of(token), rows_of(ring), call.input(1).data, token.dims[0], ring.dims[0], live_of(call)};
  launcher.launch(kernels::token_publish, {1, 1, 1}, 256, p);
}

constexpr Op table[] = {{QUERN_OP_SPEC_ACCEPT, "spec_accept.cuda", nullptr, emit_accept},
                        {QUERN_OP_TOKEN_PUBLISH, "token_publish.cuda", nullptr, emit_publish, nullptr, true}};

}  // namespace

const std::span<const Op> decoding_ops = table;

}  // namespace quern::cuda
