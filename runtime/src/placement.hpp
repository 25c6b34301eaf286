// Decides which device computes which node, and says why a node is not on the first one.
#pragma once

#include "plan.hpp"

#include <string>
#include <vector>

namespace quern::runtime {

/// What to do when the first device does not compute a node.
enum class Fallback : std::uint8_t {
  automatic,  // the next device takes it
  warn,       // and the log says so
  strict      // Error(QUERN_UNSUPPORTED) naming the nodes
};

struct Placement {
  std::vector<std::uint32_t> device_of_node;  // index into the devices given to place()
  std::vector<std::string> reason_of_node;    // why no earlier device has it; empty on the first device
};

/// Devices that some nodes do not go to, though they would compute them: they have no room.
struct Assignment {
  std::vector<std::uint32_t> first_device_of_node;  // empty: 0 for all
  std::string reason;
};

/// Each node goes to the first device that computes it, from the assigned one on, except that all nodes that touch one state value go to the same
/// device: state lives in one place. Throws Error(QUERN_UNSUPPORTED) where no device of the list computes a node.
Placement place(const graph::Graph& graph, const std::vector<std::shared_ptr<loader::Device>>& devices, Fallback fallback,
                const Assignment& assignment = {});

/// A run of neighbouring nodes on one device.
struct Segment {
  std::uint32_t device;
  std::vector<std::uint32_t> nodes;
};
std::vector<Segment> segments(const Placement& placement);

/// A value that one device made and another reads: it is copied before the first node there that reads it.
struct Crossing {
  graph::ValueId value;  // no view
  std::uint32_t from, to;
  std::uint32_t maker, reader;  // nodes
};
/// In the order of the readers, each value once for each device.
std::vector<Crossing> crossings(const graph::Graph& graph, const Placement& placement);

}  // namespace quern::runtime
