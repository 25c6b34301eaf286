// Packs the constants of a case under the layouts that the plugin plans for them.
#pragma once

#include "device_run/case_graph.hpp"
#include "device_run/device_memory.hpp"

#include <map>
#include <memory>

namespace quern::conformance {

/// Value id -> its packed bytes. Empty where the plugin plans nothing for this graph. Sets the layouts in `graph`.
/// Throws AbiFailure where a call fails. `sources`: the canonical region of each value id.
std::map<std::uint32_t, std::unique_ptr<Region>> pack_weights(const loader::Device& device, Queue& queue, CaseGraph& graph,
                                                              const std::map<std::uint32_t, Region*>& sources);

}  // namespace quern::conformance
