// The load report as one JSON object.
#include "load_report.hpp"

#include <nlohmann/json.hpp>

namespace quern::c_api {
namespace {

using Json = nlohmann::ordered_json;

Json plugin_json(const quern_load_report& report, const loader::ReportEntry& e) {
  return {{"path", e.path},
          {"backend", e.id},
          {"version", e.version},
          {"abi_minor", e.abi_minor},
          {"stage", stage_word(e.stage)},
          {"status", loader::status_name(e.status)},
          {"code", e.code},
          {"usable", usable(e.status)},
          {"selected", report.is_selected(e)},
          {"cause", e.cause},
          {"remedy", e.remedy},
          {"command", e.command}};
}

Json device_json(const loader::ReportEntry& e, const loader::DeviceReport& d) {
  return {{"name", d.label},
          {"backend", e.id},
          {"description", d.info.name},
          {"device_class", loader::class_name(d.info.device_class)},
          {"architecture", d.info.architecture},
          {"pci", d.info.pci_address},
          {"uuid", loader::uuid_text(d.info.uuid)},
          {"driver", d.info.driver_have},
          {"usable", usable(d.status)},
          {"code", d.code},
          {"reason", d.reason},
          {"command", d.command},
          {"rank", d.rank < 0 ? Json() : Json(d.rank)}};
}

Json card_json(const loader::PhysicalDevice& card) {
  Json verdicts = Json::array();
  for (const loader::CardVerdict& v : card.verdicts)
    verdicts.push_back({{"backend", v.backend}, {"device", v.label}, {"used", v.used}, {"code", v.code}, {"reason", v.reason}});
  return {{"name", card.name}, {"address", card.address}, {"driver", card.driver}, {"verdicts", std::move(verdicts)}};
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
  Json plugins = Json::array(), devices = Json::array(), notes = Json::array(), cards = Json::array(), libraries = Json::array(),
       drivers = Json::array();
  for (const loader::ReportEntry& e : report.report.entries) {
    if (is_plugin(e))
      plugins.push_back(plugin_json(report, e));
    else
      notes.push_back({{"code", e.code}, {"path", e.path}, {"cause", e.cause}, {"remedy", e.remedy}, {"command", e.command}});
    for (const loader::DeviceReport& d : e.devices) devices.push_back(device_json(e, d));
  }
  for (const loader::PhysicalDevice& card : report.machine.devices) cards.push_back(card_json(card));
  for (const loader::MachineLibrary& l : report.machine.libraries)
    libraries.push_back({{"name", l.soname}, {"path", l.path}, {"version", l.version}, {"usable", l.usable}});
  for (const loader::VulkanDriver& d : report.machine.vulkan_drivers)
    drivers.push_back({{"manifest", d.manifest}, {"library", d.library}, {"api_version", d.api_version}, {"code", d.code}});
  const Json json{{"plugins", plugins},
                  {"devices", devices},
                  {"notes", notes},
                  {"cards", cards},
                  {"nvidia_driver", report.machine.nvidia_driver},
                  {"libraries", libraries},
                  {"vulkan_drivers", drivers},
                  {"searched", report.report.directories}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern::c_api
