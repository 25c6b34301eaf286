// Names and look-ups of the load report, and its JSON.
#include "quern/loader/report.hpp"

#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <optional>

namespace quern::loader {

const char* class_name(std::uint32_t device_class) {
  switch (device_class) {
    case QUERN_DEVICE_DISCRETE: return "discrete";
    case QUERN_DEVICE_UNIFIED: return "unified";
    case QUERN_DEVICE_INTEGRATED: return "integrated";
    case QUERN_DEVICE_CPU: return "cpu";
    case QUERN_DEVICE_SOFTWARE: return "software";
    default: return "other";
  }
}

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  if (std::ranges::all_of(uuid, [](std::uint8_t b) { return b == 0; })) return {};
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[uuid[i] >> 4];
    text += "0123456789abcdef"[uuid[i] & 15];
  }
  return text;
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::search: return "search";
    case Stage::inspect: return "S0 inspect";
    case Stage::load: return "S1 load";
    case Stage::negotiate: return "S2 negotiate";
    case Stage::probe: return "S3 probe";
    case Stage::open: return "S4 open";
    case Stage::system: return "system";
  }
  return "unknown";
}

const char* status_name(Status status) {
  switch (status) {
    case Status::usable: return "usable";
    case Status::limited: return "limited";
    case Status::skipped: return "skipped";
    case Status::refused: return "refused";
    case Status::warning: return "warning";
  }
  return "unknown";
}

const ReportEntry* Report::plugin(const std::string& id) const {
  const ReportEntry* any = nullptr;
  for (const ReportEntry& e : entries) {
    if (e.id != id) continue;
    if (e.status == Status::usable || e.status == Status::limited) return &e;
    if (!any || any->code == "QUERN-L-0007") any = &e;  // a shadowed file explains least
  }
  return any;
}

namespace {

void write_json(JsonWriter& json, const DeviceReport& d) {
  const DeviceInfo& info = d.info;
  json.begin_object();
  json.member("label", d.label);
  json.member("class", class_name(info.device_class));
  json.member("vendor_id", info.vendor_id);
  json.member("caps", info.caps);
  json.member("name", info.name);
  json.member("architecture", info.architecture);
  json.member("driver_have", info.driver_have);
  json.member("driver_need", info.driver_need);
  json.member("pci_address", info.pci_address);
  json.member("uuid", uuid_text(info.uuid));
  json.member("memory_alignment", info.memory_alignment);
  json.member("max_allocation", info.max_allocation);
  json.member("heap_count", info.heap_count);
  json.member("numa_node", info.numa_node);
  json.member("status", status_name(d.status));
  json.member("code", d.code);
  json.member("reason", d.reason);
  json.member("remedy", d.remedy);
  json.member("rank", d.rank < 0 ? std::nullopt : std::optional(d.rank));
  json.member("bandwidth", d.bandwidth > 0 ? std::optional(d.bandwidth) : std::nullopt);
  json.end_object();
}

void write_json(JsonWriter& json, const ReportEntry& e) {
  json.begin_object();
  json.member("path", e.path);
  json.member("stage", stage_name(e.stage));
  json.member("status", status_name(e.status));
  json.member("code", e.code);
  json.member("cause", e.cause);
  json.member("remedy", e.remedy);
  json.member("raw_error", e.raw_error);
  json.member("id", e.id);
  json.member("version", e.version);
  json.member("build", e.build);
  json.member("abi_minor", e.abi_minor);
  json.member("from_cache", e.from_cache);
  json.member("in_process", e.in_process);
  json.member("milliseconds", e.milliseconds);
  json.member("printed", e.printed);
  json.key("reasons");
  json.begin_array();
  for (const Reason& r : e.reasons) {
    json.begin_object();
    json.member("status", static_cast<std::uint32_t>(r.code));
    json.member("text", r.text);
    json.member("missing", r.missing);
    json.member("remedy", r.remedy);
    json.end_object();
  }
  json.end_array();
  json.key("devices");
  json.begin_array();
  for (const DeviceReport& d : e.devices) write_json(json, d);
  json.end_array();
  json.end_object();
}

}  // namespace

std::string to_json(const Report& report) {
  JsonWriter json;
  json.begin_object();
  json.member("directories", report.directories);
  json.key("entries");
  json.begin_array();
  for (const ReportEntry& e : report.entries) write_json(json, e);
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace quern::loader
