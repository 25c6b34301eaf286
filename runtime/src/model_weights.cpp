// See model_weights.hpp.
#include "model_weights.hpp"

#include <algorithm>
#include <set>

namespace quern::runtime {
namespace {

/// At least a cache line: tensors of an arena share none.
std::uint64_t alignment_of(const MemoryBudget& device) { return std::max<std::uint64_t>(64, device.device()->info().memory_alignment); }

}  // namespace

std::vector<WantedWeight> wanted_weights(const Program& program, const std::vector<models::StepGraph::Weight>& weights,
                                         const gguf::File& file) {
  std::vector<WantedWeight> wanted;
  std::set<WeightPlace> known;
  for (const models::StepGraph::Weight& weight : weights) {
    for (const std::uint32_t device : program.readers(weight.value)) {
      const PackedWeight* packed = program.packed(weight.value, device);
      WeightPlace place{weight.tensor, device, packed != nullptr ? packed->layout : ""};
      if (!known.insert(place).second) continue;
      wanted.push_back({std::move(place), packed != nullptr ? packed->bytes : file.require_tensor(weight.tensor).bytes,
                        packed != nullptr ? weight.value : graph::no_value, alignment_of(*program.devices()[device])});
    }
  }
  return wanted;
}

std::vector<WantedWeight> wanted_weights(const Program& program, const models::StepGraph& step, const models::RopeGraph& rope,
                                         const gguf::File& file) {
  std::vector<WantedWeight> wanted = wanted_weights(program, step.weights, file);
  if (rope.factors == graph::no_value) return wanted;
  const std::uint64_t bytes = file.require_tensor("rope_freqs.weight").bytes;
  for (std::uint32_t d = 0; d < program.devices().size(); ++d)
    wanted.push_back({{"rope_freqs.weight", d, ""}, bytes, graph::no_value, alignment_of(*program.devices()[d])});
  return wanted;
}

std::vector<std::uint64_t> arena_sizes(const std::vector<WantedWeight>& wanted, std::uint32_t device, std::uint64_t largest) {
  std::vector<std::uint64_t> sizes;
  for (const WantedWeight& weight : wanted) {
    if (weight.place.device != device) continue;
    const std::uint64_t bytes = weight.arena_bytes();
    if (sizes.empty() || (largest != 0 && bytes > largest - std::min(largest, sizes.back()))) sizes.push_back(0);
    sizes.back() += bytes;
  }
  return sizes;
}

}  // namespace quern::runtime
