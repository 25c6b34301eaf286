// See weight_packing.hpp.
#include "device_run/weight_packing.hpp"

namespace quern::conformance {
namespace {

/// Gives the items back to the plugin.
class Items {
 public:
  Items(const loader::Device& device, const quern_graph* graph) : device_(device) {
    const quern_array graphs{&graph, 1, sizeof graph};
    AbiError error;
    error.check(device.api().weights_plan(device.handle(), &graphs, 0, &array_, error.get()), "weights_plan");
  }
  ~Items() {
    if (array_.count != 0 && device_.api().weights_release != nullptr) device_.api().weights_release(device_.handle(), &array_, nullptr);
  }
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;

  std::uint64_t size() const noexcept { return array_.count; }
  const quern_weight_item& operator[](std::uint64_t i) const noexcept {
    return *reinterpret_cast<const quern_weight_item*>(static_cast<const std::byte*>(array_.data) + i * array_.stride);
  }

 private:
  const loader::Device& device_;
  quern_array array_{};
};

}  // namespace

bool weights_are_planned(const loader::Device& device, const quern_graph* graph) { return Items(device, graph).size() != 0; }

std::map<std::uint32_t, PackedWeight> pack_constants(const loader::Device& device, Queue& queue, const quern_graph* graph,
                                                     const std::map<std::uint32_t, Region*>& sources, Region::Guard guard) {
  std::map<std::uint32_t, PackedWeight> packed;
  if (device.api().weights_plan == nullptr || device.api().weights_pack == nullptr) return packed;
  const Items items(device, graph);
  for (std::uint64_t i = 0; i < items.size(); ++i) {
    const quern_weight_item& item = items[i];
    if (item.sources.count != 1) continue;  // an item of several sources: its canonical values serve as well
    const std::uint32_t value = static_cast<const quern_weight_source*>(item.sources.data)->value;
    const auto source = sources.find(value);
    if (source == sources.end())
      throw AbiFailure(QUERN_INTERNAL, "weights_plan names value " + std::to_string(value) + ", which is no constant");
    auto region = std::make_unique<Region>(device, queue, item.bytes, item.alignment, false, guard);
    const quern_span from = source->second->span(), to = region->span();
    const quern_array from_list{&from, 1, sizeof from}, to_list{&to, 1, sizeof to};
    enqueue(queue, "weights_pack", [&](const quern_sync* sync, quern_error* error) {
      return device.api().weights_pack(device.handle(), queue.get(), &item, &from_list, &to_list, sync, error);
    });
    queue.wait(60);
    if (const std::string damage = region->canary_damage(); !damage.empty()) throw AbiFailure(QUERN_INTERNAL, "weights_pack: " + damage);
    packed.emplace(value, PackedWeight{std::string(item.layout_key.data, item.layout_key.size), std::move(region)});
  }
  return packed;
}

std::map<std::uint32_t, std::unique_ptr<Region>> pack_weights(const loader::Device& device, Queue& queue, CaseGraph& graph,
                                                              const std::map<std::uint32_t, Region*>& sources, Region::Guard guard) {
  std::map<std::uint32_t, std::unique_ptr<Region>> packed;
  for (auto& [value, weight] : pack_constants(device, queue, graph.graph(), sources, guard)) {
    graph.set_layout(value, weight.layout);
    packed.emplace(value, std::move(weight.region));
  }
  return packed;
}

}  // namespace quern::conformance
