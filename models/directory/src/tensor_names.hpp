// Names of a directory's tensors to those of the graph, with what is done to each: one table for both.
#pragma once

#include "families.hpp"
#include "model_keys.hpp"
#include "shards.hpp"

#include "quern/models/gguf.hpp"

#include <vector>

namespace quern::directory {

/// All tensors that the graph reads; those that no inference needs are left out. Shards are numbered from `first_file` on. Throws
/// Error(QUERN_UNSUPPORTED) for a tensor that the table does not have, or of a type that holds no weights.
std::vector<gguf::AssembledTensor> assembled_tensors(const Shards& shards, const Family& family, const Shape& shape,
                                                     std::uint32_t first_file);

}  // namespace quern::directory
