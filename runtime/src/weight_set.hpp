// The packed weights that a plugin asks for: planned over all parts of a program on one device, packed once, bound by every
// program that plans the same.
#pragma once

#include "memory.hpp"

#include "quern/graph/graph.hpp"

#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// One packed constant. `values[i]` is its id in graph `graphs[i]` of those given to WeightSet.
struct PackedWeight {
  std::string layout;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> graphs;
  std::vector<graph::ValueId> values;
};

/// What packing takes of a device beside its ends, for one weight after the other: a copy of the canonical bytes, where the device has its own
/// memory. It grows to the largest.
class PackingRoom {
 public:
  explicit PackingRoom(std::shared_ptr<MemoryBudget> device);
  /// Waits for what is in flight.
  ~PackingRoom();
  PackingRoom(const PackingRoom&) = delete;
  PackingRoom& operator=(const PackingRoom&) = delete;

  /// All that its device was given is done when it returns. Throws as DeviceQueue::wait.
  void wait();

 private:
  friend class WeightSet;
  std::shared_ptr<MemoryBudget> device_;
  Memory staging_;
};

/// What weights_plan of one device returned; released with the object. Empty for a plugin without weight sets.
class WeightSet {
 public:
  WeightSet() = default;
  /// Throws Error with the plugin's code and text, and QUERN_INTERNAL for an answer that contradicts itself.
  WeightSet(std::shared_ptr<MemoryBudget> device, const std::vector<const graph::Graph*>& graphs);
  ~WeightSet();
  WeightSet(WeightSet&& other) noexcept;
  WeightSet& operator=(WeightSet&& other) noexcept;

  const std::vector<PackedWeight>& weights() const noexcept { return weights_; }
  /// Packs the canonical bytes `source` into `destination`, which has weights()[i].bytes. Both have to stay until `room` was waited for, which is of
  /// this device alone.
  void pack(std::size_t i, std::span<const std::byte> source, quern_span destination, PackingRoom& room) const;

 private:
  std::shared_ptr<MemoryBudget> device_;
  quern_array items_{};
  std::vector<PackedWeight> weights_;
};

}  // namespace quern::runtime
