// Making, probing and describing one plugin handle; every answer is checked before it is believed.
#include "plugin_parts.hpp"

#include "library.hpp"
#include "negotiate.hpp"
#include "quern/graph/error.hpp"
#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <set>
#include <cstring>

namespace quern::loader {
namespace {

constexpr std::uint32_t max_reasons = 32;
constexpr std::uint64_t most_alignment = std::uint64_t{1} << 30;  // sizes rounded up to it stay far from 2^64

constexpr std::uint64_t most_host_alignment = 4096;  // of the mappings that the runtime makes

const char* const ask_author = "install another version of the plugin, or tell its author";

/// The functions that a device without HOST_MEMORY, or without SYNCHRONOUS, cannot do without [C24].
const char* first_missing(const quern_plugin_api& api, std::uint64_t caps) {
  if (!(caps & QUERN_CAP_HOST_MEMORY)) {
    if (!api.buffer_create) return "buffer_create";
    if (!api.buffer_destroy) return "buffer_destroy";
    if (!api.upload) return "upload";
    if (!api.download) return "download";
  }
  if (!(caps & QUERN_CAP_SYNCHRONOUS)) {
    if (!api.queue_create) return "queue_create";
    if (!api.queue_destroy) return "queue_destroy";
    if (!api.fence_create) return "fence_create";
    if (!api.fence_destroy) return "fence_destroy";
    if (!api.fence_wait) return "fence_wait";
  }
  return nullptr;
}

}  // namespace

Plugin::Parts::~Parts() {
  std::string thrown;
  if (handle)
    guarded(
        *target, call_name<&quern_plugin_api::destroy>, [this] { return api.destroy(handle), QUERN_OK; }, thrown);
  if (!thrown.empty()) keep_fault(*target, call_name<&quern_plugin_api::destroy>, FaultKind::threw, 0);
  forget_passed_fault(target->path);
}

std::unique_ptr<Plugin::Parts> make_plugin(const std::string& path, const CallTarget& target, quern_plugin_query_fn entry,
                                           const std::string& expected_id, const HostFacts& facts, HostOptions options, const LogSink& log,
                                           Verdict& verdict) {
  auto parts = std::make_unique<Plugin::Parts>();
  parts->target = &target;
  {
    const OpenCall open(target, query_call);
    verdict = negotiate(path, entry, expected_id, facts, parts->api);
    target.returned(query_call);
  }
  if (!verdict.ok()) return nullptr;
  parts->path = path;
  parts->id = copy_string(parts->api.id);
  parts->version = copy_string(parts->api.version);
  parts->build = copy_string(parts->api.build);
  parts->host = std::make_unique<Host>(parts->id, std::move(options), log);
  ErrorBuffer error;
  std::string thrown;
  const quern_status status = guarded(
      target, call_name<&quern_plugin_api::create>, [&] { return parts->api.create(parts->host->table(), &parts->handle, error.get()); },
      thrown);
  if (status != QUERN_OK || !parts->handle) {
    parts->handle = nullptr;
    const std::string why = !thrown.empty()      ? "it let an exception out: " + thrown
                            : status == QUERN_OK ? "it said ok but gave no handle"
                                                 : error.words(status);
    verdict = {code::create_failed, concat(path, ": could not be created: ", why), ask_author, error.text()};
    return nullptr;
  }
  return parts;
}

std::unique_ptr<Plugin::Parts> load_plugin(const std::string& path, const CallTarget& target, const Inspection& found,
                                           const HostFacts& facts, HostOptions options, const LogSink& log, Verdict& verdict) {
  LoadedLibrary library;
  {
    const OpenCall open(target, load_call);
    verdict = load_library(path, found, library);
    target.returned(load_call);
  }
  if (!verdict.ok()) return nullptr;
  return make_plugin(path, target, library.entry, found.id, facts, std::move(options), log, verdict);
}

Verdict read_device_info(const Plugin::Parts& plugin, std::uint32_t index, DeviceInfo& info) {
  quern_device_info said{};
  said.header = {sizeof said, QUERN_TYPE_DEVICE_INFO, nullptr};
  said.numa_node = QUERN_NONE;
  ErrorBuffer error;
  std::string thrown;
  const quern_status status = guarded(
      *plugin.target, call_name<&quern_plugin_api::device_info>,
      [&] { return plugin.api.device_info(plugin.handle, index, &said, error.get()); }, thrown);
  const auto malformed = [&](const std::string& what) {
    return Verdict{code::device_malformed, concat(plugin.id, ":", index, ": ", what), ask_author, error.text()};
  };
  if (status != QUERN_OK)
    return {code::device_failed,
            concat(plugin.id, ":", index, ": cannot be described: ", thrown.empty() ? error.words(status) : thrown),
            {},
            error.text()};
  if (said.header.struct_size < QUERN_MIN_SIZE_quern_device_info || said.header.struct_size > sizeof said)
    return malformed(concat("its description has ", said.header.struct_size, " bytes; expected ", QUERN_MIN_SIZE_quern_device_info, " to ",
                            sizeof said));
  if (said.device_class < QUERN_DEVICE_DISCRETE || said.device_class > QUERN_DEVICE_OTHER)
    return malformed(concat("device class ", said.device_class, " is unknown"));
  if (!std::has_single_bit(said.memory_alignment) || said.memory_alignment > most_alignment)
    return malformed(concat("memory alignment ", said.memory_alignment, " is not a power of two up to ", most_alignment));
  if ((said.caps & QUERN_CAP_HOST_MEMORY) != 0 && said.memory_alignment > most_host_alignment)
    return {code::device_not_driven,
            concat(plugin.id, ":", index, ": cannot be driven: it computes in the host's memory at multiples of ", said.memory_alignment,
                   " bytes, and the runtime gives multiples of ", most_host_alignment),
            ask_author,
            {}};
  if (const char* missing = first_missing(plugin.api, said.caps))
    return malformed(concat("its capabilities need the function '", missing, "', which the plugin does not have"));
  info.device_class = said.device_class;
  info.vendor_id = said.vendor_id;
  info.caps = said.caps;
  info.name = copy_string(said.name);
  info.architecture = copy_string(said.architecture);
  info.driver_have = copy_string(said.driver_have);
  info.driver_need = copy_string(said.driver_need);
  info.pci_address = normal_pci_address(copy_string(said.pci_address));
  std::copy(std::begin(said.uuid), std::end(said.uuid), info.uuid.begin());
  info.memory_alignment = said.memory_alignment;
  info.max_allocation = said.max_allocation;
  info.heap_count = said.heap_count;
  info.numa_node = said.numa_node;
  return {};
}

Verdict run_probe(const Plugin::Parts& plugin, const std::vector<Dependency>& dependencies, ProbeAnswer& answer) {
  if (!plugin.api.probe) return {};
  quern_reason given[max_reasons] = {};
  for (quern_reason& r : given) r.header = {sizeof r, QUERN_TYPE_REASON, nullptr};
  quern_probe_report report{};
  report.header = {sizeof report, QUERN_TYPE_PROBE_REPORT, nullptr};
  report.reasons = given;
  report.reason_capacity = max_reasons;
  ErrorBuffer error;
  std::string thrown;
  const quern_status status = guarded(
      *plugin.target, call_name<&quern_plugin_api::probe>, [&] { return plugin.api.probe(plugin.handle, &report, error.get()); }, thrown);
  if (!thrown.empty()) return {code::probe_threw, concat(plugin.id, ": its probe let an exception out: ", thrown), ask_author, thrown};

  for (std::uint32_t i = 0; i < std::min(report.reason_count, max_reasons); ++i) {
    Reason r{given[i].code, copy_string(given[i].text), copy_string(given[i].missing), copy_string(given[i].remedy)};
    if (r.remedy.empty() && !r.missing.empty()) r.remedy = remedy_for_library(r.missing, dependencies);
    answer.reasons.push_back(std::move(r));
    answer.reason_devices.push_back(given[i].reserved);
  }
  answer.usable = report.usable;
  if (status == QUERN_OK && report.usable > 0) return {};

  std::string remedy;
  std::string cause;
  std::set<std::string> said;  // several devices may fail in the same words
  for (const Reason& r : answer.reasons) {
    if (!r.text.empty() && said.insert(r.text).second) cause += (cause.empty() ? "" : "; ") + r.text;
    if (remedy.empty()) remedy = r.remedy;
  }
  if (status != QUERN_OK && (cause.empty() || !error.text().empty())) cause = error.words(status) + (cause.empty() ? "" : "; " + cause);
  if (cause.empty()) cause = "no device passed its test, and it gave no reason";
  return {status == QUERN_OK ? code::no_device : code::probe_failed, concat(plugin.id, ": not usable here: ", cause), remedy, error.text()};
}

std::string normal_pci_address(const std::string& text) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  int used = 0;
  const int size = static_cast<int>(text.size());
  const bool full = std::sscanf(text.c_str(), "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) == 4 && used == size;
  if (!full) {
    domain = 0;
    if (std::sscanf(text.c_str(), "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3 || used != size) return {};
  }
  char normal[32];
  std::snprintf(normal, sizeof normal, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return normal;
}

}  // namespace quern::loader
