// y = base + alpha B A x, by each row's adapter. Kernel: lora.
#include "lora.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_lora_matmul(const Call& call) { return first_of({check_adapters(call), check_low(call, call.output(0).dims[1])}); }
std::uint64_t scratch_lora_matmul(const Call& call) { return low_bytes(call, call.output(0).dims[1]); }
void emit_lora_matmul(const Call& call, Launcher& launcher) {
  const Tensor &base = call.input(4), &y = call.output(0);
  LoraParams p = lora_params(call, y.dims[1], launcher);
  if (base.present()) p.base = lora_view(base);
  p.out_ = lora_view(y);
  launch_lora(p, low_items(p), lora_h, launcher);
  launcher.barrier();
  launch_lora(p, y.elements(), lora_y, launcher);
}

}  // namespace

const Op lora_matmul_op = offer(QUERN_OP_LORA_MATMUL, "lora_matmul.vulkan", refuse_lora_matmul, emit_lora_matmul, scratch_lora_matmul);

}  // namespace quern::vulkan
