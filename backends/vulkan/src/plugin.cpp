// The plugin's entry: its note and its table, which the SDK's functions fill; weight sets are its own.
#include "backend.hpp"

#include "quern/sdk/synchronous.hpp"

#include <algorithm>
#include <cstring>

namespace quern::vulkan {
namespace {

template <class T>
T& object(T* handle, const char* what) {
  if (handle == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, concat("the ", what, " is null"));
  return *handle;
}
OpenDevice& opened(quern_device* device) {
  object(device, "device").plugin.process.check();
  return *device->device;
}
/// The address of a span of this device's memory.
std::uint64_t address_of(const quern_span& span, const quern_device* device, const char* what) {
  if (span.buffer == nullptr) refuse(concat("weights_pack: ", what, " is in no buffer"), 16);
  if (&span.buffer->owner != device) refuse(concat("weights_pack: ", what, " is in a buffer of another device"), 16);
  if (span.offset > span.buffer->bytes || span.bytes > span.buffer->bytes - span.offset) refuse(concat("weights_pack: ", what, " is beyond its buffer"), 16);
  return span.buffer->memory.address() + span.offset;
}

quern_status weights_plan(quern_device* device, const quern_array* graphs, std::uint64_t, quern_array* items, quern_error* error) {
  return sdk::guarded(error, [&] {
    OpenDevice& d = opened(device);
    object(items, "place for the items") = {};
    object(graphs, "list of graphs");
    if (d.tier() < Tier::dot) return;  // kernels of the baseline read canonical blocks as fast
    std::vector<std::unique_ptr<sdk::ResolvedGraph>> read;
    for (std::uint64_t i = 0; i < graphs->count; ++i) {
      const quern_graph* graph = nullptr;
      std::memcpy(&graph, static_cast<const char*>(graphs->data) + i * graphs->stride, sizeof graph);
      read.push_back(std::make_unique<sdk::ResolvedGraph>(graph, d.offers()));
    }
    auto list = plan_weights(read);
    *items = {list->items.data(), list->items.size(), sizeof(quern_weight_item)};
    if (list->items.empty()) return;
    const std::lock_guard lock(d.weights_lock);
    d.weights.push_back(std::move(list));
  });
}

quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                          const quern_array* destination, const quern_sync* sync, quern_error* error) {
  return sdk::guarded(error, [&] {
    OpenDevice& d = opened(device);
    if (queue != nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "a queue is named; this device is synchronous, the host keeps its queues", 18);
    if (sync != nullptr && (sync->wait.count != 0 || sync->signal.count != 0))
      throw Failure(QUERN_INVALID_ARGUMENT, "fences are named; this device is synchronous, the host keeps its fences", 18);
    const quern_weight_item i = sdk::read(item);
    const sdk::List<quern_span> from_list(object(sources, "list of sources"), "sources"), to_list(object(destination, "destination"), "destination");
    if (from_list.size() != 1 || to_list.size() != 1) throw Failure(QUERN_UNSUPPORTED, "a packed weight has one source and one destination span");
    const quern_span from = from_list[0], to = to_list[0];
    const std::uint64_t source = address_of(from, device, "the source");
    address_of(to, device, "the destination");
    const std::lock_guard lock(d.order());
    pack_weight(sdk::view(i.layout_key), source, from.bytes, to.buffer->memory, to.offset, to.bytes, d);
  });
}

quern_status weights_release(quern_device* device, quern_array* items, quern_error* error) {
  return sdk::guarded(error, [&] {
    OpenDevice& d = opened(device);
    object(items, "list of items");
    const std::lock_guard lock(d.weights_lock);
    if (std::erase_if(d.weights, [&](const auto& list) { return list->items.data() == items->data; }) == 0)
      refuse("these items were not planned by this device, or were released before");
    *items = {};
  });
}

quern_plugin_api table() noexcept {
  quern_plugin_api api = sdk::Synchronous<Backend>::table("vulkan", QUERN_VULKAN_VERSION, QUERN_VULKAN_BUILD);
  api.weights_plan = weights_plan;
  api.weights_pack = weights_pack;
  api.weights_release = weights_release;
  return api;
}

}  // namespace
}  // namespace quern::vulkan

QUERN_PLUGIN_NOTE("vulkan", QUERN_VULKAN_VERSION, QUERN_DEVICE_DISCRETE, 0, "libvulkan.so.1=libvulkan1");
QUERN_PLUGIN_ENTRY(quern::vulkan::table())
