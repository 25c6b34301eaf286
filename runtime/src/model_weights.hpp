// Which tensor of a file has to lie on which device, canonical or packed.
#pragma once

#include "program.hpp"

#include "quern/models/architecture.hpp"

namespace quern::runtime {

/// Where a tensor lies: on which device, and under which layout ("": canonical).
struct WeightPlace {
  std::string tensor;
  std::uint32_t device;
  std::string layout;
  auto operator<=>(const WeightPlace&) const = default;
};

struct WantedWeight {
  WeightPlace place;
  std::uint64_t bytes;
  graph::ValueId value;     // whose packing it is; no_value: canonical
  std::uint64_t alignment;  // of every span of its device, a power of two

  /// What it takes of an arena, padded to the next tensor's alignment.
  std::uint64_t arena_bytes() const noexcept { return (bytes + alignment - 1) / alignment * alignment; }
};

/// Each tensor once for each device and layout that reads it, in the order of the graph's weights.
std::vector<WantedWeight> wanted_weights(const Program& program, const std::vector<models::StepGraph::Weight>& weights,
                                         const gguf::File& file);
/// Of a step, with the factors of its rotations for every device.
std::vector<WantedWeight> wanted_weights(const Program& program, const models::StepGraph& step, const models::RopeGraph& rope,
                                         const gguf::File& file);

/// Bytes of the arenas that hold the weights of a device, each as many of them, in their order, as `largest` bytes hold (0: any number).
/// A weight that is larger has an arena to itself, which its device then refuses in its own words.
std::vector<std::uint64_t> arena_sizes(const std::vector<WantedWeight>& wanted, std::uint32_t device, std::uint64_t largest);

}  // namespace quern::runtime
