// Packs the constants of a case under the layouts that the plugin plans for them.
#pragma once

#include "device_run/case_graph.hpp"
#include "device_run/device_memory.hpp"

#include <map>
#include <memory>
#include <string>

namespace quern::conformance {

/// Whether the plugin plans a layout for any constant of `graph`. Only where it has weights_plan.
bool weights_are_planned(const loader::Device& device, const quern_graph* graph);

struct PackedWeight {
  std::string layout;  // key
  std::unique_ptr<Region> region;
};
/// Value id of `graph` -> what the plugin planned for it, packed. Empty where it plans nothing. Throws AbiFailure where a call fails.
/// `sources`: the canonical region of each constant.
std::map<std::uint32_t, PackedWeight> pack_constants(const loader::Device& device, Queue& queue, const quern_graph* graph,
                                                     const std::map<std::uint32_t, Region*>& sources,
                                                     Region::Guard guard = Region::Guard::canary);

/// Value id -> its packed bytes. Empty where the plugin plans nothing for this graph. Sets the layouts in `graph`.
/// Throws AbiFailure where a call fails. `sources`: the canonical region of each value id.
std::map<std::uint32_t, std::unique_ptr<Region>> pack_weights(const loader::Device& device, Queue& queue, CaseGraph& graph,
                                                              const std::map<std::uint32_t, Region*>& sources, Region::Guard guard);

}  // namespace quern::conformance
