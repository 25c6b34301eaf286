// The load report and the device list of quern.h, from the loader's report.
#include "boundary.hpp"
#include "handles.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/loader/host_limits.hpp"
#include "load_report.hpp"

#include <algorithm>

using namespace quern;
using namespace quern::c_api;

struct quern_device_list {
  struct Item {
    std::string name, backend, description, device_class, architecture, pci, uuid, driver, reason;
    std::uint64_t total = 0, budget = 0;
    std::uint32_t certainty = QUERN_MEMORY_UNKNOWN, usable = 0, selected = 0, rank = 0;
  };
  std::vector<Item> items;
};

namespace {

quern_status code_of(const loader::ReportEntry& entry) {
  if (usable(entry.status) || entry.status == loader::Status::warning) return QUERN_OK;
  for (const loader::Reason& reason : entry.reasons) {
    if (reason.code != QUERN_OK) return reason.code;
  }
  return QUERN_BACKEND_UNAVAILABLE;
}

/// Labels of the devices that a model loaded now would use. A demand that cannot be met selects nothing.
std::vector<std::string> selected_devices(runtime::Runtime& runtime) {
  std::vector<std::string> labels;
  try {
    for (const auto& budget : runtime.devices()) labels.push_back(budget->device()->label());
  } catch (const Error&) {
    labels.clear();  // the report and quern_runtime_ready() say why
  }
  return labels;
}

void fill_memory(quern_device_list::Item& item, runtime::Runtime& runtime) {
  if (item.usable == 0) return;
  try {
    for (const auto& budget : runtime.devices()) {
      if (budget->device()->label() != item.name) continue;
      quern_heap_info heap{};
      heap.header = {sizeof(heap), QUERN_TYPE_HEAP_INFO, nullptr};
      if (budget->device()->api().heap_info != nullptr &&
          budget->device()->call<&quern_plugin_api::heap_info>(budget->device()->handle(), 0, &heap, nullptr) == QUERN_OK) {
        item.total = heap.total;
        item.certainty = heap.total_figure == QUERN_FIGURE_EXACT ? QUERN_MEMORY_EXACT : QUERN_MEMORY_ESTIMATE;
      }
      if (runtime::shares_host_memory(*budget)) {
        const std::uint64_t host = loader::host_memory().total;
        if (budget->host_memory() || (host != 0 && host < item.total)) {
          item.total = host;
          item.certainty = host != 0 ? QUERN_MEMORY_EXACT : QUERN_MEMORY_UNKNOWN;
        }
      }
      if (const auto available = runtime::room_on(*budget).available) {
        item.budget = *available;
        if (item.certainty == QUERN_MEMORY_UNKNOWN) item.certainty = QUERN_MEMORY_ESTIMATE;
      }
    }
  } catch (const Error&) { item.certainty = QUERN_MEMORY_UNKNOWN; }
}

void write_device(JsonWriter& json, const quern_device_list::Item& item) {
  json.begin_object();
  json.member("name", item.name);
  json.member("backend", item.backend);
  json.member("description", item.description);
  json.member("device_class", item.device_class);
  json.member("architecture", item.architecture);
  json.member("pci", item.pci);
  json.member("uuid", item.uuid);
  json.member("driver", item.driver);
  json.member("reason", item.reason);
  json.member("memory_total", item.total);
  json.member("memory_budget", item.budget);
  json.member("memory_certainty", item.certainty == QUERN_MEMORY_EXACT      ? "exact"
                                  : item.certainty == QUERN_MEMORY_ESTIMATE ? "estimate"
                                                                            : "unknown");
  json.member("usable", item.usable != 0);
  json.member("selected", item.selected != 0);
  json.member("rank", item.usable != 0 ? std::optional(item.rank) : std::nullopt);
  json.end_object();
}

std::vector<quern_device_list::Item> list_devices(runtime::Runtime& runtime) {
  const std::vector<std::string> selected = selected_devices(runtime);
  const loader::Report report = runtime.report();
  std::vector<quern_device_list::Item> items;
  for (const loader::ReportEntry& entry : report.entries) {
    for (const loader::DeviceReport& device : entry.devices) {
      quern_device_list::Item item;
      item.name = device.label;
      item.backend = entry.id;
      item.description = device.info.name;
      item.device_class = loader::class_name(device.info.device_class);
      item.architecture = device.info.architecture;
      item.pci = device.info.pci_address;
      item.uuid = loader::uuid_text(device.info.uuid);
      item.driver = device.info.driver_have;
      item.usable = usable(device.status) ? 1 : 0;
      item.selected = std::ranges::find(selected, device.label) != selected.end() ? 1 : 0;
      item.rank = device.rank < 0 ? UINT32_MAX : static_cast<std::uint32_t>(device.rank);
      if (item.selected == 0) item.reason = device.reason;
      fill_memory(item, runtime);
      items.push_back(std::move(item));
    }
  }
  std::ranges::stable_sort(items, [](const auto& a, const auto& b) {
    return std::tuple(a.usable == 0, a.rank) < std::tuple(b.usable == 0, b.rank);
  });
  return items;
}

}  // namespace

extern "C" {

quern_status quern_runtime_load_report(quern_runtime* runtime, quern_load_report** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(runtime, "runtime");
    auto handle = std::make_unique<quern_load_report>();
    for (const std::string& label : selected_devices(*runtime->runtime)) handle->selected.push_back(backend_of(label));
    handle->report = runtime->runtime->report();
    handle->machine = loader::examine_machine(runtime->runtime->settings().loader, handle->report);
    *out = handle.release();
  });
}

uint64_t quern_load_report_count(const quern_load_report* report) { return report == nullptr ? 0 : report->report.entries.size(); }

quern_status quern_load_report_entry(const quern_load_report* report, uint64_t index, quern_load_entry* out) {
  return guarded<Needs::little>([&] {
    require(report, "report");
    if (index >= report->report.entries.size()) {
      throw Error(QUERN_NOT_FOUND, concat("entry ", index, " was asked for, but there are ", report->report.entries.size()));
    }
    const loader::ReportEntry& entry = report->report.entries[index];
    quern_load_entry info{};
    info.path = entry.path.c_str();
    info.backend = entry.id.c_str();
    info.version = entry.version.c_str();
    info.stage = stage_word(entry.stage);
    info.code = code_of(entry);
    info.selected = report->is_selected(entry) ? 1 : 0;
    info.cause = entry.cause.c_str();
    info.remedy = entry.remedy.c_str();
    info.report_code = entry.code.c_str();
    info.command = entry.command.c_str();
    give(out, info, "quern_load_entry");
  });
}

quern_status quern_load_report_words(const quern_load_report* report, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(report, "report");
    *out = make_text(loader::to_words(report->report, report->machine));
  });
}

quern_status quern_load_report_json(const quern_load_report* report, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(report, "report");
    *out = make_text(report_json(*report));
  });
}

void quern_load_report_release(quern_load_report* report) { delete report; }

quern_status quern_runtime_devices(quern_runtime* runtime, quern_device_list** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(runtime, "runtime");
    auto handle = std::make_unique<quern_device_list>();
    handle->items = list_devices(*runtime->runtime);
    *out = handle.release();
  });
}

uint64_t quern_device_list_count(const quern_device_list* devices) { return devices == nullptr ? 0 : devices->items.size(); }

quern_status quern_device_list_entry(const quern_device_list* devices, uint64_t index, quern_device_entry* out) {
  return guarded<Needs::little>([&] {
    require(devices, "devices");
    if (index >= devices->items.size()) {
      throw Error(QUERN_NOT_FOUND, concat("device ", index, " was asked for, but there are ", devices->items.size()));
    }
    const quern_device_list::Item& item = devices->items[index];
    quern_device_entry info{};
    info.name = item.name.c_str();
    info.backend = item.backend.c_str();
    info.description = item.description.c_str();
    info.device_class = item.device_class.c_str();
    info.architecture = item.architecture.c_str();
    info.pci = item.pci.c_str();
    info.uuid = item.uuid.c_str();
    info.driver = item.driver.c_str();
    info.reason = item.reason.c_str();
    info.memory_total = item.total;
    info.memory_budget = item.budget;
    info.memory_certainty = item.certainty;
    info.usable = item.usable;
    info.selected = item.selected;
    info.rank = item.rank;
    give(out, info, "quern_device_entry");
  });
}

quern_status quern_device_list_json(const quern_device_list* devices, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(devices, "devices");
    JsonWriter json;
    json.begin_array();
    for (const quern_device_list::Item& item : devices->items) write_device(json, item);
    json.end_array();
    *out = make_text(json.take());
  });
}

void quern_device_list_release(quern_device_list* devices) { delete devices; }

}  // extern "C"
