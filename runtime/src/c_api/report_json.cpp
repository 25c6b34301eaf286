// The load report as one JSON object.
#include "load_report.hpp"

#include "quern/graph/json_writer.hpp"

namespace quern::c_api {
namespace {

void write_plugin(JsonWriter& json, const quern_load_report& report, const loader::ReportEntry& e) {
  json.begin_object();
  json.member("path", e.path);
  json.member("backend", e.id);
  json.member("version", e.version);
  json.member("abi_minor", e.abi_minor);
  json.member("stage", stage_word(e.stage));
  json.member("status", loader::status_name(e.status));
  json.member("code", e.code);
  json.member("usable", usable(e.status));
  json.member("selected", report.is_selected(e));
  json.member("cause", e.cause);
  json.member("remedy", e.remedy);
  json.member("command", e.command);
  json.end_object();
}

void write_device(JsonWriter& json, const loader::ReportEntry& e, const loader::DeviceReport& d) {
  json.begin_object();
  json.member("name", d.label);
  json.member("backend", e.id);
  json.member("description", d.info.name);
  json.member("device_class", loader::class_name(d.info.device_class));
  json.member("architecture", d.info.architecture);
  json.member("pci", d.info.pci_address);
  json.member("uuid", loader::uuid_text(d.info.uuid));
  json.member("driver", d.info.driver_have);
  json.member("usable", usable(d.status));
  json.member("code", d.code);
  json.member("reason", d.reason);
  json.member("command", d.command);
  json.member("rank", d.rank < 0 ? std::optional<int>() : std::optional<int>(static_cast<int>(d.rank)));
  json.end_object();
}

void write_note(JsonWriter& json, const loader::ReportEntry& e) {
  json.begin_object();
  json.member("code", e.code);
  json.member("path", e.path);
  json.member("cause", e.cause);
  json.member("remedy", e.remedy);
  json.member("command", e.command);
  json.end_object();
}

void write_card(JsonWriter& json, const loader::PhysicalDevice& card) {
  json.begin_object();
  json.member("name", card.name);
  json.member("address", card.address);
  json.member("driver", card.driver);
  json.key("verdicts");
  json.begin_array();
  for (const loader::CardVerdict& v : card.verdicts) {
    json.begin_object();
    json.member("backend", v.backend);
    json.member("device", v.label);
    json.member("used", v.used);
    json.member("code", v.code);
    json.member("reason", v.reason);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

/// "name": [...], each element written by write(element).
template <typename List, typename Write>
void write_list(JsonWriter& json, const char* name, const List& list, const Write& write) {
  json.key(name);
  json.begin_array();
  for (const auto& element : list) write(element);
  json.end_array();
}

/// Plugin files and plugins of the program; what else is in the report are notes about the machine.
bool is_plugin(const loader::ReportEntry& e) { return e.stage != loader::Stage::system && (!e.id.empty() || e.path.ends_with(".so")); }

}  // namespace

const char* stage_word(loader::Stage stage) {
  switch (stage) {
    case loader::Stage::inspect: return "inspect";
    case loader::Stage::load: return "load";
    case loader::Stage::negotiate: return "negotiate";
    case loader::Stage::probe: return "probe";
    case loader::Stage::open: return "open";
    default: return "discover";
  }
}

std::string report_json(const quern_load_report& report) {
  JsonWriter json;
  json.begin_object();
  write_list(json, "plugins", report.report.entries, [&](const loader::ReportEntry& e) {
    if (is_plugin(e)) write_plugin(json, report, e);
  });
  write_list(json, "devices", report.report.entries, [&](const loader::ReportEntry& e) {
    for (const loader::DeviceReport& d : e.devices) write_device(json, e, d);
  });
  write_list(json, "notes", report.report.entries, [&](const loader::ReportEntry& e) {
    if (!is_plugin(e)) write_note(json, e);
  });
  write_list(json, "cards", report.machine.devices, [&](const loader::PhysicalDevice& card) { write_card(json, card); });
  json.member("nvidia_driver", report.machine.nvidia_driver);
  write_list(json, "libraries", report.machine.libraries, [&](const loader::MachineLibrary& l) {
    json.begin_object();
    json.member("name", l.soname);
    json.member("path", l.path);
    json.member("version", l.version);
    json.member("usable", l.usable);
    json.end_object();
  });
  write_list(json, "vulkan_drivers", report.machine.vulkan_drivers, [&](const loader::VulkanDriver& d) {
    json.begin_object();
    json.member("manifest", d.manifest);
    json.member("library", d.library);
    json.member("api_version", d.api_version);
    json.member("code", d.code);
    json.end_object();
  });
  write_list(json, "searched", report.report.directories, [&](const auto& folder) { json.value(folder); });
  json.end_object();
  return json.take();
}

}  // namespace quern::c_api
