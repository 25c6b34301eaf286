// Tokens to a ring that the host reads.
#include "../kernels/decoding.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_token_publish(const Call& call, Launcher& launcher) {
  const Tensor &token = call.input(0), &ring = call.output(0);
  PublishTokenParams p{rows_of(token), rows_of(ring), call.input(1).data, token.dims[0], ring.dims[0], live_of(call)};
  launcher.launch(kernels::token_publish, {1, 1, 1}, 256, p);
}

}  // namespace

const Op token_publish_op{QUERN_OP_TOKEN_PUBLISH, "token_publish.cuda", nullptr, emit_token_publish, nullptr, true};

}  // namespace quern::cuda
