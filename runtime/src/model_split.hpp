// What the layers of a model take of its devices, and the nodes that a split of them assigns.
#pragma once

#include "layer_split.hpp"
#include "model_weights.hpp"

namespace quern::runtime {

/// A device that has less than a program and its weights need of it.
struct Lack {
  std::uint32_t device;
  std::uint64_t weights, session;  // bytes that are needed
  std::uint64_t available;
  // Where it is the host's memory that lacks and not the user's limit:
  std::string limit;          // what makes it less than the machine has
  std::uint64_t process = 0;  // bytes that the program itself needs
  std::uint64_t needed() const noexcept { return weights + session + process; }
};
/// The first one. Devices that share the host's memory share what it has left.
std::optional<Lack> find_lack(const Program& program, const models::StepGraph& step, const std::vector<WantedWeight>& wanted);

/// What a load takes of the host beside the `bytes` of weights and sessions: code, stacks, tables of pages, the table of rotations on its way.
std::uint64_t process_bytes(const models::StepGraph& step, std::uint64_t bytes);

/// Of the first device, from a program that is there as a whole.
LayerBytes layer_bytes(const Program& program, const models::StepGraph& step, const std::vector<WantedWeight>& wanted);

/// Layers to their devices, what comes before them to the last one, the tail where the last layer is.
Assignment assign_layers(const models::StepGraph& step, const LayerSplit& split, std::string reason);

/// "layers 0 to 14 on cpu:0, layers 15 to 29 and the head on vulkan:0".
std::string describe_split(const LayerSplit& split, const std::vector<std::shared_ptr<MemoryBudget>>& devices);

}  // namespace quern::runtime
