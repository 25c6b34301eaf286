// The CPU backend as a device with memory of its own: buffers in place of host pointers, so that the runtime treats it as a card. While
// QUERN_TEST_FAIL_FOLLOWERS is set, each run of a submit but the first fails.
#include "base_plugin.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

struct quern_buffer {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;
};

namespace {

using quern::sdk::guarded;
using quern::sdk::List;

quern_plugin_api base;

std::byte* at(const quern_span& span) {
  return span.buffer == nullptr ? nullptr : reinterpret_cast<std::byte*>(span.buffer->lines.data()) + span.offset;
}
quern_span on_host(const quern_span& span) { return {nullptr, at(span), 0, span.bytes}; }

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  const quern_status status = base.device_info(plugin, index, out, error);
  out->caps &= ~QUERN_CAP_HOST_MEMORY;
  out->heap_count = 1;
  return status;
}

quern_status heap_info(quern_device*, std::uint32_t, quern_heap_info* out, quern_error*) {
  auto info = quern::sdk::made<quern_heap_info>();
  info.total_figure = info.budget_figure = QUERN_FIGURE_EXACT;
  info.total = info.budget = 1 << 30;
  quern::sdk::write(out, info);
  return QUERN_OK;
}

quern_status buffer_create(quern_device*, const quern_buffer_options*, std::uint64_t bytes, quern_buffer** out, quern_error* error) {
  return guarded(error, [&] { *out = new quern_buffer{std::vector<quern_buffer::Line>(bytes / 64 + 1)}; });
}
quern_status buffer_destroy(quern_buffer* buffer, quern_error*) {
  delete buffer;
  return QUERN_OK;
}
quern_status upload(quern_device*, quern_queue*, const quern_span* to, const void* from, std::uint64_t bytes, const quern_sync*,
                    quern_error*) {
  if (std::getenv("QUERN_TEST_FAIL_UPLOADS") != nullptr) return QUERN_DEVICE_LOST;
  std::memcpy(at(*to), from, bytes);
  return QUERN_OK;
}
quern_status download(quern_device*, quern_queue*, void* to, const quern_span* from, std::uint64_t bytes, const quern_sync*, quern_error*) {
  std::memcpy(to, at(*from), bytes);
  return QUERN_OK;
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    for (quern_prepare_entry entry : List<quern_prepare_entry>(*entries, "entries")) {
      std::vector<quern_binding> bindings;
      std::vector<std::vector<quern_span>> spans;
      for (const quern_binding& binding : List<quern_binding>(entry.bindings, "bindings")) {
        std::vector<quern_span>& list = spans.emplace_back();
        for (const quern_span& span : List<quern_span>(binding.spans, "spans")) list.push_back(on_host(span));
        bindings.push_back(binding);
      }
      for (std::size_t i = 0; i < bindings.size(); ++i) bindings[i].spans = {spans[i].data(), spans[i].size(), sizeof(quern_span)};
      entry.bindings = {bindings.data(), bindings.size(), sizeof(quern_binding)};
      entry.scratch = on_host(entry.scratch);
      const quern_array one{&entry, 1, sizeof entry};
      if (const quern_status status = base.prepare(device, queue, &one, sync, error); status != QUERN_OK)
        throw quern::sdk::Failure(status, "the CPU backend refused it");
    }
  });
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  const bool fails = std::getenv("QUERN_TEST_FAIL_FOLLOWERS") != nullptr;
  quern_array taken = *runs;
  if (fails && taken.count > 1) taken.count = 1;
  const quern_status status = base.submit(device, queue, &taken, error);
  for (std::uint64_t i = taken.count; i < runs->count; ++i)
    reinterpret_cast<const quern_run*>(static_cast<const std::byte*>(runs->data) + i * runs->stride)->status->code = QUERN_INTERNAL;
  return status;
}

quern_plugin_api wrapped() {
  quern_plugin_api api = quern::test::base_plugin();
  base = api;
  api.id = quern::sdk::text_of("buffered");
  api.device_info = device_info;
  api.heap_info = heap_info;
  api.memory_limit = nullptr;
  api.buffer_create = buffer_create;
  api.buffer_destroy = buffer_destroy;
  api.trim = nullptr;
  api.upload = upload;
  api.download = download;
  api.copy = nullptr;
  api.fill = nullptr;
  api.weights_plan = nullptr;
  api.weights_pack = nullptr;
  api.weights_release = nullptr;
  api.prepare = prepare;
  api.submit = submit;
  return api;
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = wrapped();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("buffered", "1.0", QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(table())
