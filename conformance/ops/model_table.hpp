// The models of models.def, as numbers.
#pragma once

#include <cstdint>

namespace quern::conformance {

struct Model {
  const char* name;
  std::int64_t heads, kv_heads, key, value, width, ffn, vocab, experts, used, rope, context;
};

inline constexpr Model model_table[] = {
#define QUERN_MODEL(name, heads, kv_heads, key, value, width, ffn, vocab, experts, used, rope, context) \
  {#name, heads, kv_heads, key, value, width, ffn, vocab, experts, used, rope, context},
#include "ops/models.def"
#undef QUERN_MODEL
};

}  // namespace quern::conformance
