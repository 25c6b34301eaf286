// The last hidden state of a text.
#pragma once

#include "engine.hpp"

#include <vector>

namespace quern::runtime {

enum class Pooling { last, mean, none };

/// Vectors of the model's hidden size, one after another: one, or one a token. Forgets what the sequence held; it holds the ids then.
/// Throws Error(QUERN_INVALID_ARGUMENT), Error(QUERN_CONTEXT_FULL), Error(QUERN_CANCELLED).
std::vector<float> embed(Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, Pooling pooling, bool normalise);

}  // namespace quern::runtime
