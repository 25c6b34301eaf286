// A weight with an adapter in it. Kernel: lora.
#include "lora.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_lora_merge(const Call& call) {
  const Tensor& w = call.input(0);
  return w.elements() >= std::int64_t{1} << 31 ? concat(describe(w), "; fewer than 2^31 elements are taken") : "";
}
void emit_lora_merge(const Call& call, Launcher& launcher) {
  const Tensor &w = call.input(0), &a = call.input(1);
  LoraParams p{};
  p.x = lora_view(w);
  p.base = lora_view(a);
  p.y = lora_view(call.input(2));
  p.out_ = lora_view(call.output(0));
  p.rows = static_cast<uint>(w.dims[0]);
  p.k = static_cast<uint>(w.dims[1]);
  p.most_rank = static_cast<uint>(a.dims[0]);
  p.alpha = call.number(QUERN_KEY_ALPHA);
  launch_lora(p, w.elements(), lora_merged, launcher);
}

}  // namespace

const Op lora_merge_op = offer(QUERN_OP_LORA_MERGE, "lora_merge.vulkan", refuse_lora_merge, emit_lora_merge);

}  // namespace quern::vulkan
