// Gradients of attention_dense. Kernel: attention_backward.
#include "dense_attention.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op attention_backward_op =
    offer(QUERN_OP_ATTENTION_BACKWARD, "attention_backward.vulkan", refuse_dense, emit_dense_backward, dense_backward_scratch)
        .with_turns(dense_backward_turns)
        .with_shared(dense_shared);

}  // namespace quern::vulkan
