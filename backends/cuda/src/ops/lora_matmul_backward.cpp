// Gradients of lora_matmul: dx, and those of the adapters in their pool.
// Kernels: lora_down_row or lora_down_tile, lora_back, lora_dx and lora_pool.
#include "lora.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op lora_matmul_backward_op{
    QUERN_OP_LORA_MATMUL_BACKWARD, "lora_matmul_backward.cuda", refuse_lora, emit_lora_backward, scratch_lora, true};

}  // namespace quern::cuda
