// See weight_set.hpp.
#include "weight_set.hpp"

#include "abi_call.hpp"

#include <utility>

namespace quern::runtime {
namespace {

const quern_weight_item& item_at(const quern_array& items, std::uint64_t i) {
  return *reinterpret_cast<const quern_weight_item*>(static_cast<const std::byte*>(items.data) + i * items.stride);
}

}  // namespace

WeightSet::WeightSet(std::shared_ptr<MemoryBudget> device, const std::vector<const graph::Graph*>& graphs) : device_(std::move(device)) {
  const quern_plugin_api& api = device_->device()->api();
  if (api.weights_plan == nullptr || api.weights_pack == nullptr || api.weights_release == nullptr) return;
  std::vector<graph::GraphView> views;
  std::vector<const quern_graph*> pointers;
  for (const graph::Graph* graph : graphs) pointers.push_back(views.emplace_back(graph->view_for_plugin()).get());
  const quern_array list{pointers.data(), pointers.size(), sizeof(const quern_graph*)};
  const std::string& label = device_->device()->label();
  AbiError error;
  error.check(device_->device()->call<&quern_plugin_api::weights_plan>(device_->device()->handle(), &list, 0, &items_, error.out()),
              concat(label, ": planning its weights"));
  for (std::uint64_t i = 0; i < items_.count; ++i) {
    const quern_weight_item& item = item_at(items_, i);
    PackedWeight weight;
    weight.layout = from_abi(item.layout_key);
    weight.bytes = item.bytes;
    for (std::uint64_t s = 0; s < item.sources.count; ++s) {
      const auto& source =
          *reinterpret_cast<const quern_weight_source*>(static_cast<const std::byte*>(item.sources.data) + s * item.sources.stride);
      if (source.graph >= graphs.size() || source.value >= graphs[source.graph]->values().size()) {
        throw Error(QUERN_INTERNAL, concat(label, ": a packed weight is made of value ", source.value, " of graph ", source.graph,
                                           ", which it was not shown"));
      }
      weight.graphs.push_back(source.graph);
      weight.values.push_back(source.value);
    }
    if (weight.layout.empty() || weight.bytes == 0 || weight.values.empty()) {
      throw Error(QUERN_INTERNAL, concat(label, ": packed weight ", i, " has no layout, no bytes or no source"));
    }
    weights_.push_back(std::move(weight));
  }
}

WeightSet::~WeightSet() {
  if (items_.count != 0 && !device_->device()->lost())
    device_->device()->call<&quern_plugin_api::weights_release>(device_->device()->handle(), &items_, nullptr);
}

WeightSet::WeightSet(WeightSet&& other) noexcept { *this = std::move(other); }

WeightSet& WeightSet::operator=(WeightSet&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(items_, other.items_);
  std::swap(weights_, other.weights_);
  return *this;
}

void WeightSet::pack(std::size_t i, std::span<const std::byte> source, quern_span destination, PackingRoom& room) const {
  quern_span from{nullptr, const_cast<std::byte*>(source.data()), 0, source.size()};  // only read
  if (!device_->host_memory()) {
    if (room.staging_.bytes() < source.size()) {
      room.wait();
      room.staging_ = {};
      room.staging_ = device_->allocate(source.size(), QUERN_USAGE_STAGING, "a weight to pack");
    }
    from = room.staging_.span(0, source.size());
    device_->queue().upload_lasting(from, source);
  }
  const quern_array sources{&from, 1, sizeof(from)}, destinations{&destination, 1, sizeof(destination)};
  device_->queue().pack(item_at(items_, i), sources, destinations, concat("packing a weight as ", weights_[i].layout));
}

PackingRoom::PackingRoom(std::shared_ptr<MemoryBudget> device) : device_(std::move(device)) {}

PackingRoom::~PackingRoom() { device_->queue().drain(); }

void PackingRoom::wait() { device_->queue().wait(); }

}  // namespace quern::runtime
