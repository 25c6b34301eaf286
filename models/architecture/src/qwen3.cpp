// Qwen3: a norm on each head of q and k, heads of a size of their own, rotated pairs half a head apart.
#include "registry.hpp"

namespace quern::models {

const Architecture qwen3 = {.name = "qwen3",
                            .pairing = RopePairing::half_split,
                            .attention_bias = Presence::optional,
                            .output_bias = Presence::optional,
                            .qk_norm = true,
                            .rope_factors = true};

}  // namespace quern::models
