// Which device of a machine a graph goes to, where the user demanded none.
//
// The loader ranks devices before any model is known. A device that computes all of a graph comes before those that compute a part of it.
#pragma once

#include "runtime.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// What a device makes of a graph, with the CPU behind it.
struct Outcome {
  std::string device;           // label
  std::uint64_t nodes = 0;      // that it computes itself
  std::uint64_t all = 0;        // nodes of the graph
  std::uint64_t crossings = 0;  // values that move between the two in each run
  bool whole() const noexcept { return nodes == all; }
};

/// Index of the best of at least one: the first whole one, else the first of the fewest crossings.
std::size_t best_of(std::span<const Outcome> outcomes);

/// "toy:0 computes 61 of 301 nodes, and 121 values would cross between it and cpu:0 in each step; cpu:0 computes all of them": why `chosen` comes before
/// the first in rank. `behind`: the device that takes the rest.
std::string words_of_choice(const Outcome& first, const Outcome& chosen, const std::string& behind);

struct DeviceChoice {
  std::vector<std::shared_ptr<MemoryBudget>> devices;  // best first, as Runtime::devices()
  std::string reason;                                  // why another one than the first in rank is first; empty where it is the first
};

/// Runtime::devices(), where the first of them computes the whole graph, or was demanded. Else each candidate is asked, in the order of their rank, up
/// to the first that is whole; equal cards are asked once.
DeviceChoice choose_devices(Runtime& runtime, const graph::Graph& graph);

}  // namespace quern::runtime
