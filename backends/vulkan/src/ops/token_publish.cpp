// Tokens to a ring that the host reads.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_token_publish(const Call& call) { return check_contiguous(call.input(0)); }
void emit_token_publish(const Call& call, Launcher& launcher) {
  const Tensor& ring = call.output(0);
  const DecodingParams p{call.input(0).data,
                         call.input(1).data,
                         call.predicate.data,
                         ring.data,
                         0,
                         0,
                         0,
                         ring.strides[0],
                         static_cast<uint>(ring.dims[1]),
                         static_cast<uint>(ring.dims[0]),
                         0,
                         0,
                         static_cast<int>(ring.strides[1]),
                         0};
  launcher.launch("decoding", 1, {1, 1, 1}, p, {1});
}

}  // namespace

const Op token_publish_op = offer(QUERN_OP_TOKEN_PUBLISH, "token_publish.vulkan", refuse_token_publish, emit_token_publish, nullptr, true);

}  // namespace quern::vulkan
