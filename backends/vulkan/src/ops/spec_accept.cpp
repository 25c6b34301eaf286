// Drafted tokens that the target accepts.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_spec_accept(const Call& call) { return first_of({check_contiguous(call.input(2)), check_contiguous(call.output(1))}); }
void emit_spec_accept(const Call& call, Launcher& launcher) {
  const Tensor &draft = call.input(0), &target = call.input(1), &token = call.output(0);
  const DecodingParams p{draft.data,
                         target.data,
                         call.input(2).data,
                         token.data,
                         call.output(1).data,
                         draft.strides[0],
                         target.strides[0],
                         token.strides[0],
                         static_cast<uint>(draft.dims[0]),
                         static_cast<uint>(draft.dims[1]),
                         static_cast<int>(draft.strides[1]),
                         static_cast<int>(target.strides[1]),
                         static_cast<int>(token.strides[1]),
                         0};
  launcher.launch("decoding", launcher.item_threads(), launcher.spread(p.rows), p, {0});
}

}  // namespace

const Op spec_accept_op = offer(QUERN_OP_SPEC_ACCEPT, "spec_accept.vulkan", refuse_spec_accept, emit_spec_accept);

}  // namespace quern::vulkan
