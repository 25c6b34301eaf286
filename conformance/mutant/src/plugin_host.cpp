// libbackend_mutant.so: the plugin underneath in its own memory. See plugin.hpp.
#include "plugin.hpp"

namespace quern::mutant {
namespace {

using sdk::guarded;

quern_device& alive(quern_device* device) {
  if (device == nullptr) throw sdk::Failure(QUERN_INVALID_ARGUMENT, "device is null");
  if (device->plugin->lost) throw sdk::Failure(QUERN_DEVICE_LOST, "the device was lost");
  return *device;
}

const quern_array& given(const quern_array* list, const char* name) {
  if (list == nullptr) throw sdk::Failure(QUERN_INVALID_ARGUMENT, sdk::concat(name, " is null"));
  return *list;
}

quern_status weights_pack(quern_device* device, quern_queue* queue, const quern_weight_item* item, const quern_array* sources,
                          const quern_array* destination, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
    const quern_plugin& plugin = *alive(device).plugin;
    const quern_status status = plugin.api().weights_pack(device->under, queue, item, sources, destination, sync, error);
    if (status == QUERN_OK)
      for (const quern_span& span : sdk::List<quern_span>(given(destination, "destination"), "destination")) lose_packed_tail(plugin, span);
    return status;
  });
}

quern_status prepare(quern_device* device, quern_queue* queue, const quern_array* entries, const quern_sync* sync, quern_error* error) {
  return guarded(error, [&] {
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
    t.id = sdk::text_of("mutant");
    t.version = sdk::text_of(QUERN_MUTANT_VERSION);
    t.build = sdk::text_of(QUERN_MUTANT_VERSION);
    t.weights_pack = weights_pack;
    t.prepare = prepare;
    t.submit = submit;
    return t;
  }();
  return api;
}

}  // namespace

void offer(quern_device_info&) noexcept {}
quern_span host_span(quern_device&, const quern_span& span) { return span; }  // the plugin underneath says what it thinks of buffers
bool require_no_children(quern_device&) { return false; }

}  // namespace quern::mutant

QUERN_PLUGIN_NOTE("mutant", QUERN_MUTANT_VERSION, QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(quern::mutant::table())
