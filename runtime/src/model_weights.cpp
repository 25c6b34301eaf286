// See model_weights.hpp.
#include "model_weights.hpp"

#include <algorithm>
#include <set>

namespace quern::runtime {
namespace {

/// At least a cache line: tensors of an arena share none.
std::uint64_t alignment_of(const MemoryBudget& device) { return std::max<std::uint64_t>(64, device.device()->info().memory_alignment); }

}  // namespace

std::vector<WantedWeight> wanted_weights(const Program& program, const models::StepGraph& step, const models::RopeGraph& rope,
                                         const gguf::File& file) {
  std::vector<WantedWeight> wanted;
  std::set<WeightPlace> known;
  const auto want = [&](const std::string& tensor, std::uint32_t device, graph::ValueId value) {
    const PackedWeight* packed = value == graph::no_value ? nullptr : program.packed(value, device);
    WeightPlace place{tensor, device, packed != nullptr ? packed->layout : ""};
    if (!known.insert(place).second) return;
    wanted.push_back({std::move(place), packed != nullptr ? packed->bytes : file.require_tensor(tensor).bytes,
                      packed != nullptr ? value : graph::no_value, alignment_of(*program.devices()[device])});
  };
  for (const models::StepGraph::Weight& weight : step.weights) {
    for (const std::uint32_t device : program.readers(weight.value)) want(weight.tensor, device, weight.value);
  }
  if (rope.factors != graph::no_value) {
    for (std::uint32_t d = 0; d < program.devices().size(); ++d) want("rope_freqs.weight", d, graph::no_value);
  }
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
