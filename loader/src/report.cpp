// Names and look-ups of the load report, and its JSON.
#include "quern/loader/report.hpp"

#include "exchange.hpp"

#include <algorithm>

namespace quern::loader {

const char* class_name(std::uint32_t device_class) {
  switch (device_class) {
    case QUERN_DEVICE_DISCRETE:
      return "discrete";
    case QUERN_DEVICE_UNIFIED:
      return "unified";
    case QUERN_DEVICE_INTEGRATED:
      return "integrated";
    case QUERN_DEVICE_CPU:
      return "cpu";
    case QUERN_DEVICE_SOFTWARE:
      return "software";
    default:
      return "other";
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
    case Stage::search:
      return "search";
    case Stage::inspect:
      return "S0 inspect";
    case Stage::load:
      return "S1 load";
    case Stage::negotiate:
      return "S2 negotiate";
    case Stage::probe:
      return "S3 probe";
    case Stage::open:
      return "S4 open";
    case Stage::system:
      return "system";
  }
  return "unknown";
}

const char* status_name(Status status) {
  switch (status) {
    case Status::usable:
      return "usable";
    case Status::limited:
      return "limited";
    case Status::skipped:
      return "skipped";
    case Status::refused:
      return "refused";
    case Status::warning:
      return "warning";
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

std::string to_json(const Report& report, int indent) {
  using nlohmann::json;
  json entries = json::array();
  for (const ReportEntry& e : report.entries) {
    json reasons = json::array(), devices = json::array();
    for (const Reason& r : e.reasons)
      reasons.push_back({{"status", r.code}, {"text", r.text}, {"missing", r.missing}, {"remedy", r.remedy}});
    for (const DeviceReport& d : e.devices) {
      json device = to_value(d.info);
      device["class"] = class_name(d.info.device_class);
      device["uuid"] = uuid_text(d.info.uuid);
      device["label"] = d.label;
      device["status"] = status_name(d.status);
      device["code"] = d.code;
      device["reason"] = d.reason;
      device["remedy"] = d.remedy;
      device["rank"] = d.rank < 0 ? json() : json(d.rank);
      device["bandwidth"] = d.bandwidth > 0 ? json(d.bandwidth) : json();
      devices.push_back(std::move(device));
    }
    entries.push_back({{"path", e.path},
                       {"stage", stage_name(e.stage)},
                       {"status", status_name(e.status)},
                       {"code", e.code},
                       {"cause", e.cause},
                       {"remedy", e.remedy},
                       {"raw_error", e.raw_error},
                       {"id", e.id},
                       {"version", e.version},
                       {"build", e.build},
                       {"abi_minor", e.abi_minor},
                       {"from_cache", e.from_cache},
                       {"in_process", e.in_process},
                       {"milliseconds", e.milliseconds},
                       {"printed", e.printed},
                       {"reasons", std::move(reasons)},
                       {"devices", std::move(devices)}});
  }
  return dump({{"directories", report.directories}, {"entries", std::move(entries)}}, indent);
}

}  // namespace quern::loader
