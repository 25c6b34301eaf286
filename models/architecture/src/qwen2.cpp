// Qwen2 and Qwen2.5: llama's layer with biases on q, k and v and rotated pairs half a head apart.
#include "registry.hpp"

namespace quern::models {

const Architecture qwen2 = {.name = "qwen2",
                            .pairing = RopePairing::half_split,
                            .attention_bias = Presence::always,
                            .output_bias = Presence::never,
                            .qk_norm = false,
                            .rope_factors = true};

}  // namespace quern::models
