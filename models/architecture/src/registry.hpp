// What sets one architecture apart from another, and the table of those known.
#pragma once

#include "quern/models/architecture.hpp"

#include <string>
#include <string_view>

namespace quern::models {

enum class Presence : std::uint8_t { never, optional, always };

/// The traits of a decoder of the llama family; what they share is in decoder_layer.cpp.
struct Architecture {
  std::string_view name;  // as general.architecture spells it, and the prefix of its keys
  RopePairing pairing;
  Presence attention_bias;  // of q, k and v
  Presence output_bias;     // of the attention's output; in all layers or in none
  bool qk_norm;             // each head of q and k is normed before the rotation
  bool rope_factors;        // the file may hold rope_freqs.weight
};

extern const Architecture llama;
extern const Architecture qwen2;
extern const Architecture qwen3;

/// Null for an unknown name.
const Architecture* find_architecture(std::string_view name);
/// "llama, qwen2, qwen3".
std::string known_architectures();

}  // namespace quern::models
