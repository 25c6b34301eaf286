// How a model file states its rotary embedding.
#pragma once

#include "metadata.hpp"

#include "quern/models/architecture.hpp"

namespace quern::models {

/// Fills the rope_ members of `model`, whose head_size and context are known. Throws Error(QUERN_BAD_MODEL) naming the key.
void read_rope(const Metadata& metadata, Hyperparameters& model);

}  // namespace quern::models
