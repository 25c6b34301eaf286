// The tensors that a model of given hyperparameters must have, and no others.
#pragma once

#include "quern/models/architecture.hpp"

#include <string>
#include <string_view>

namespace quern::models {

/// "blk.3.attn_q.weight".
std::string layer_tensor(std::uint32_t layer, std::string_view suffix);

/// The order of a weight's columns (models::ActOrder::by_groups), beside "blk.3.attn_q.weight" or "output.weight": "blk.3.attn_q.order".
std::string order_tensor(std::string_view product);

/// Whether the file has a tensor of this name.
bool has_tensor(const gguf::File& file, std::string_view name);

/// Checks that every tensor of the model is in the file with its shape and a dtype that the graph takes, and that the file
/// has no further one, whose meaning would be lost. Throws Error(QUERN_BAD_MODEL) naming file and tensor.
void check_tensors(const gguf::File& file, const Hyperparameters& model);

}  // namespace quern::models
