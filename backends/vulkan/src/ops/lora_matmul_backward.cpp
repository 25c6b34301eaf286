// Gradients of lora_matmul: dx, and those of the adapters in their pool. Kernel: lora.
#include "lora.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_lora_matmul_backward(const Call& call) {
  return first_of({check_adapters(call), check_low(call, call.input(4).dims[1])});
}
std::uint64_t scratch_lora_matmul_backward(const Call& call) { return 2 * low_bytes(call, call.input(4).dims[1]); }
void emit_lora_matmul_backward(const Call& call, Launcher& launcher) {
  const Tensor &dy = call.input(4), &dx = call.output(0), &dpool = call.output(1);
  LoraParams p = lora_params(call, dy.dims[1], launcher);
  p.y = lora_view(dy);
  p.accumulate = call.flag(QUERN_KEY_ACCUMULATE) ? 1 : 0;
  launch_lora(p, low_items(p), lora_h, launcher);
  launch_lora(p, low_items(p), lora_g, launcher);
  launcher.barrier();
  p.out_ = lora_view(dx);
  launch_lora(p, dx.elements(), lora_dx, launcher);
  p.out_ = lora_view(dpool);
  launch_lora(p, dpool.elements(), lora_pool, launcher);
}

}  // namespace

const Op lora_matmul_backward_op = offer(QUERN_OP_LORA_MATMUL_BACKWARD, "lora_matmul_backward.vulkan", refuse_lora_matmul_backward,
                                         emit_lora_matmul_backward, scratch_lora_matmul_backward, true);

}  // namespace quern::vulkan
