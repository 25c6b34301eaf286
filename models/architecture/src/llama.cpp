// LLaMA and what is built like it: SmolLM2, TinyLlama, Mistral.
//
// A GGUF file holds the rows of q and k permuted so that the pairs of the rotation lie next to each other; a Hugging Face
// checkpoint has them half a head apart.
#include "registry.hpp"

namespace quern::models {

const Architecture llama = {.name = "llama",
                            .pairing = RopePairing::interleaved,
                            .attention_bias = Presence::optional,
                            .output_bias = Presence::optional,
                            .qk_norm = false,
                            .rope_factors = true};

}  // namespace quern::models
