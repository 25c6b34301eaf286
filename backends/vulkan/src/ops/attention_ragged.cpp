// Attention within packed examples. Kernel: attention_dense.
#include "dense_attention.hpp"
#include "tables.hpp"

namespace quern::vulkan {

const Op attention_ragged_op = offer(QUERN_OP_ATTENTION_RAGGED, "attention_ragged.vulkan", refuse_dense, emit_dense, dense_scratch)
                                   .with_turns(dense_turns)
                                   .with_shared(dense_shared);

}  // namespace quern::vulkan
