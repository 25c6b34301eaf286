// Gradients of lora_matmul: dx, and those of the adapters in their pool.
#include "lora.hpp"
#include "tables.hpp"

namespace quern::cuda {

const Op lora_matmul_backward_op{
    QUERN_OP_LORA_MATMUL_BACKWARD, "lora_matmul_backward.cuda", refuse_lora, emit_lora_backward, scratch_lora, true};

}  // namespace quern::cuda
