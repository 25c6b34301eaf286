// libbackend_mutant_device.so: a device with buffers of its own, simulated over the plugin underneath, whose memory is the host's.
//
// Synchronous: copies and runs are done when the call returns. So the suite's way over buffers, spans, uploads and downloads is walked on
// a machine without such a device. See plugin.hpp.
#include "plugin.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::mutant {
namespace {

using sdk::Failure;
using sdk::guarded;

template <class T>
T& given(T* handle, const char* name) {
  if (handle == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, sdk::concat(name, " is null"));
  return *handle;
}

quern_device& alive(quern_device* device) {
  given(device, "device").plugin->process.check();
  if (device->plugin->lost) throw Failure(QUERN_DEVICE_LOST, "the device was lost");
  const auto [to, from, bytes] = std::exchange(device->late_upload, {});
  if (bytes != 0) std::memcpy(to, from, bytes);
  return *device;
}

void check_heap(std::uint32_t heap) {
  if (heap != 0) throw Failure(QUERN_NOT_FOUND, sdk::concat("heap ", heap, " was asked; there is heap 0 only"));
}

void check_sync(const quern_sync* sync) {
  if (sync == nullptr) return;
  const quern_sync s = sdk::read(sync);
  if (s.wait.count != 0 || s.signal.count != 0)
    throw Failure(QUERN_INVALID_ARGUMENT, "this device is synchronous: the host supplies fences", 18);
}

void spoil_figures(const quern_device& device, quern_heap_info& info) {
  switch (device.plugin->behaviour()) {
    case Behaviour::used_not_counted: info.used = 0; return;
    case Behaviour::used_never_falls: info.used = device.used_at_most; return;
    case Behaviour::budget_above_total: info.budget = std::min(device.limit.load(), info.total + 1); return;
    case Behaviour::budget_is_the_limit:  // also where the host gave none, or took it back
      info.budget = device.limit == UINT64_MAX ? info.total : device.limit.load();
      return;
    case Behaviour::total_beyond_all: info.total = std::uint64_t{1} << 50; return;
    default: return;
  }
}

quern_status heap_info(quern_device* device, std::uint32_t heap, quern_heap_info* out, quern_error* error) {
  return guarded(error, [&] {
    const quern_device& d = alive(device);
    check_heap(heap);
    sdk::check(out);
    auto info = sdk::made<quern_heap_info>();
    info.flags = QUERN_HEAP_DEVICE_LOCAL;
    info.total_figure = info.budget_figure = info.used_figure = QUERN_FIGURE_EXACT;
    info.total = d.plugin->memory;
    info.used = d.used;
    info.budget = std::min(d.limit.load(), d.plugin->memory);
    spoil_figures(d, info);
    sdk::write(out, info);
  });
}

quern_status memory_limit(quern_device* device, std::uint32_t heap, std::uint64_t bytes, quern_error* error) {
  return guarded(error, [&] {
    check_heap(heap);
    if (alive(device).plugin->behaviour() != Behaviour::no_limit) device->limit = bytes;
  });
}

[[noreturn]] void out_of_memory(const quern_device& device, std::uint64_t bytes, std::uint64_t available) {
  Failure failure(QUERN_OUT_OF_MEMORY, sdk::concat("a buffer of ", bytes, " bytes; ", available, " are to be had"), 23);
  failure.heap = 0;
  if (device.plugin->behaviour() != Behaviour::silent_out_of_memory) failure.requested = bytes, failure.available = available;
  throw failure;
}

quern_status buffer_create(quern_device* device, const quern_buffer_options* options, std::uint64_t bytes, quern_buffer** out,
                           quern_error* error) {
  return guarded(error, [&] {
    given(out, "out") = nullptr;
    quern_device& d = alive(device);
    if (options != nullptr) {
      const quern_buffer_options o = sdk::read(options);
      check_heap(o.heap);
      sdk::check_flags(o.usage, QUERN_USAGE_WEIGHTS | QUERN_USAGE_STATE | QUERN_USAGE_SCRATCH | QUERN_USAGE_STAGING, "buffer usage");
    }
    const std::uint64_t limit = std::min(d.limit.load(), d.plugin->memory), used = d.used.load();
    if (used > limit || bytes > limit - used) out_of_memory(d, bytes, used > limit ? 0 : limit - used);
    std::unique_ptr<quern_buffer> buffer;
    try {
      buffer = std::make_unique<quern_buffer>(d, bytes, d.plugin->behaviour() == Behaviour::other_memory);
    } catch (const std::bad_alloc&) { out_of_memory(d, bytes, limit - used); }
    d.used += bytes;
    d.used_at_most = std::max(d.used_at_most.load(), d.used.load());
    ++d.buffers;
    *out = buffer.release();
  });
}

quern_status buffer_destroy(quern_buffer* buffer, quern_error* error) {
  return guarded(error, [&] {
    quern_device& d = given(buffer, "buffer").device;
    d.used -= buffer->memory.bytes();
    --d.buffers;
    delete buffer;
  });
}

std::byte* place(quern_device& device, const quern_span* span, std::uint64_t bytes) {
  if (given(span, "span").buffer == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "the span is in no buffer", 16);
  quern_buffer& b = *span->buffer;
  if (&b.device != &device) throw Failure(QUERN_INVALID_ARGUMENT, "the span is in a buffer of another device", 16);
  const std::uint64_t size = b.memory.bytes();
  if (span->offset > size || bytes > size - span->offset || bytes > span->bytes) {
    if (device.plugin->behaviour() == Behaviour::beyond_buffer) return nullptr;
    throw Failure(QUERN_INVALID_ARGUMENT,
                  sdk::concat(bytes, " bytes at ", span->offset, " of a buffer of ", size, ", in a span of ", span->bytes), 16);
  }
  return b.memory.data() + (device.plugin->behaviour() == Behaviour::offsets_of_32_bits ? span->offset & 0xffffffffu : span->offset);
}

/// transfers_end_at_48_mib.
std::uint64_t transferred(const quern_device& device, std::uint64_t bytes) {
  return device.plugin->behaviour() == Behaviour::transfers_end_at_48_mib ? std::min<std::uint64_t>(bytes, 48 << 20) : bytes;
}

quern_status upload(quern_device* device, quern_queue*, const quern_span* to, const void* from, std::uint64_t bytes, const quern_sync* sync,
                    quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    std::byte* target = place(alive(device), to, bytes);
    if (bytes == 0 || target == nullptr) return;
    given(from == nullptr ? nullptr : target, "from");
    if (device->plugin->behaviour() == Behaviour::upload_at_start) target = to->buffer->memory.data();
    if (device->plugin->behaviour() == Behaviour::upload_deferred) device->late_upload = {target, from, bytes};
    else std::memcpy(target, from, transferred(*device, bytes));
  });
}

quern_status download(quern_device* device, quern_queue*, void* to, const quern_span* from, std::uint64_t bytes, const quern_sync* sync,
                      quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    const std::byte* source = place(alive(device), from, bytes);
    if (bytes == 0 || source == nullptr) return;
    given(to == nullptr ? nullptr : source, "to");
    std::memcpy(to, source, transferred(*device, bytes) - (device->plugin->behaviour() == Behaviour::short_download ? 1 : 0));
  });
}

quern_status copy(quern_device* device, quern_queue*, const quern_span* to, const quern_span* from, std::uint64_t bytes,
                  const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    std::byte* target = place(alive(device), to, bytes);
    const std::byte* source = place(*device, from, bytes);
    if (bytes == 0 || target == nullptr || source == nullptr) return;
    if (target < source + bytes && source < target + bytes) {
      if (device->plugin->behaviour() != Behaviour::copy_overlaps)
        throw Failure(QUERN_INVALID_ARGUMENT, "the ranges of the copy have bytes in common", 31);
      for (std::uint64_t i = 0; i < bytes; ++i) target[i] = source[i];
      return;
    }
    std::memcpy(target, source, transferred(*device, bytes) - (device->plugin->behaviour() == Behaviour::short_copy ? 1 : 0));
  });
}

quern_status fill(quern_device* device, quern_queue*, const quern_span* to, std::uint32_t pattern, std::uint64_t bytes,
                  const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    std::byte* target = place(alive(device), to, bytes);
    if (bytes % 4 != 0 || given(to, "span").offset % 4 != 0) throw Failure(QUERN_INVALID_ARGUMENT, "fill writes whole words of 4 bytes");
    if (target == nullptr) return;
    if (device->plugin->behaviour() == Behaviour::byte_fill) pattern = (pattern & 0xffu) * 0x01010101u;
    for (std::uint64_t i = 0; i < bytes; i += 4) std::memcpy(target + i, &pattern, 4);
  });
}

/// Spans of the device as spans of host memory, with an array over them.
class HostSpans {
 public:
  HostSpans(quern_device& device, const quern_array* spans) {
    for (const quern_span& s : sdk::List<quern_span>(given(spans, "spans"), "spans"))
      list_.push_back({nullptr, place(device, &s, s.bytes), 0, s.bytes});
    array_ = {list_.data(), list_.size(), sizeof(quern_span)};
  }
  const quern_array* get() const noexcept { return &array_; }
  const std::vector<quern_span>& list() const noexcept { return list_; }

 private:
  std::vector<quern_span> list_;
  quern_array array_{};
};

quern_status weights_pack(quern_device* device, quern_queue*, const quern_weight_item* item, const quern_array* sources,
                          const quern_array* destination, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    const quern_plugin& plugin = *alive(device).plugin;
    const HostSpans from(*device, sources), to(*device, destination);
    const quern_status status = plugin.api().weights_pack(device->under, nullptr, item, from.get(), to.get(), nullptr, error);
    if (status == QUERN_OK)
      for (const quern_span& span : to.list()) lose_packed_tail(plugin, span);
    return status;
  });
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    check_sync(sync);
    finish_late_runs(alive(device));
    return prepare_entries(*device, queue, given(entries, "entries"), sync, error);
  });
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  throw_across(device, runs);
  return guarded(error, [&] {
    finish_late_runs(alive(device));
    return submit_runs(*device, queue, given(runs, "runs"), error);
  });
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = [] {
    quern_plugin_api t = common_table();
    t.id = sdk::text_of("mutant_device");
    t.version = sdk::text_of(QUERN_MUTANT_VERSION);
    t.build = sdk::text_of(QUERN_MUTANT_VERSION);
    t.heap_info = heap_info;
    t.memory_limit = memory_limit;
    t.buffer_create = buffer_create;
    t.buffer_destroy = buffer_destroy;
    t.upload = upload;
    t.download = download;
    t.copy = copy;
    t.fill = fill;
    t.weights_pack = weights_pack;
    t.prepare = prepare;
    t.submit = submit;
    return t;
  }();
  return api;
}

}  // namespace

void offer(quern_device_info& info) noexcept {
  info.caps &= ~QUERN_CAP_HOST_MEMORY;
  info.heap_count = 1;
}

quern_span host_span(quern_device& device, const quern_span& span) {
  if (span.buffer == nullptr && span.host == nullptr && span.bytes == 0) return span;
  if (span.host != nullptr) throw Failure(QUERN_INVALID_ARGUMENT, "the span is host memory; this device takes buffers", 16);
  std::byte* at = place(device, &span, span.bytes);
  if (device.plugin->behaviour() == Behaviour::bindings_of_32_bits) at = span.buffer->memory.data() + (span.offset & 0xffffffffu);
  if (device.plugin->behaviour() == Behaviour::other_memory) at = span.buffer->other.data() + span.offset;
  return {nullptr, at, 0, span.bytes};
}

bool require_no_children(quern_device& device) {
  const std::uint64_t live = device.buffers.load();
  if (live == 0) return false;
  if (device.plugin->behaviour() == Behaviour::busy_close) return true;
  throw Failure(QUERN_BUSY, sdk::concat("the device still has ", live, " buffers; destroy them first"), 27);
}

}  // namespace quern::mutant

QUERN_PLUGIN_NOTE("mutant_device", QUERN_MUTANT_VERSION, QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(quern::mutant::table())
