// config.json as the keys of a GGUF file.
#pragma once

#include "config.hpp"
#include "families.hpp"

#include "quern/models/gguf_writer.hpp"

#include <cstdint>
#include <vector>

namespace quern::directory {

/// The numbers that later steps need, checked.
struct Shape {
  std::uint64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, context = 0;
  bool tied = false;                // an lm_head is not read even if it is there
  std::vector<float> rope_factors;  // of frequencies; empty for none
};

/// Writes the family's keys and returns what they say. Throws Error(QUERN_BAD_MODEL) or Error(QUERN_UNSUPPORTED) naming the field.
Shape write_model_keys(const Config& config, const Family& family, gguf::Writer& keys);

/// The part of it that rotates q and k. (rope_keys.cpp)
void write_rope_keys(const Config& config, const Family& family, Shape& shape, gguf::Writer& keys);

/// The rotation of Llama 3.1, as `rope_scaling` states it: long waves are stretched, short ones are not.
struct Llama3Rotation {
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::uint64_t original_context = 0;
};

/// The divisors of the frequencies that a GGUF file holds.
std::vector<float> divisors_of(const Llama3Rotation& rotation, double base, std::uint64_t head_size);

}  // namespace quern::directory
