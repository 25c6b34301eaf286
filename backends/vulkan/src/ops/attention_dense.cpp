// Attention over dense keys. Kernel: attention_dense.
#include "dense_attention.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op attention_dense_op =
    offer(QUERN_OP_ATTENTION_DENSE, "attention_dense.vulkan", refuse_dense, emit_dense).with_turns(dense_turns).with_shared(dense_shared);

}  // namespace quern::vulkan
