// S1 to S3 of one plugin in this process.
//
// A probe says how many devices passed. Which ones failed comes from its reasons (quern_reason.reserved: 1 +
// the device's index, 0 the whole plugin), else from opening them, and if that does not settle it, no device
// of the plugin counts as proven.
#include "examine.hpp"

#include "bandwidth.hpp"
#include "library.hpp"
#include "negotiate.hpp"
#include "plugin_parts.hpp"
#include "queue_proof.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::loader {
namespace {

constexpr std::uint32_t max_devices = 256;

/// Opens a device for the length of one use.
class OpenDevice {
 public:
  OpenDevice(const Plugin::Parts& plugin, std::uint32_t index) : plugin_(plugin) {
    ErrorBuffer error;
    std::string thrown;
    const quern_status status = guarded(
        *plugin.target, call_name<&quern_plugin_api::device_open>,
        [&] { return plugin.api.device_open(plugin.handle, index, &handle_, error.get()); }, thrown);
    if (status == QUERN_OK && handle_) return;
    handle_ = nullptr;
    verdict_ = {code::device_failed,
                concat(plugin.id, ":", index, ": cannot be opened: ", thrown.empty() ? error.words(status) : thrown),
                {},
                error.text()};
  }
  ~OpenDevice() {
    std::string thrown;
    if (handle_)
      guarded(
          *plugin_.target, call_name<&quern_plugin_api::device_close>, [this] { return plugin_.api.device_close(handle_, nullptr); },
          thrown);
  }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  quern_device* get() const { return handle_; }
  const Verdict& verdict() const { return verdict_; }

 private:
  const Plugin::Parts& plugin_;
  quern_device* handle_ = nullptr;
  Verdict verdict_;
};

Verdict list_devices(const Plugin::Parts& plugin, std::vector<ProbedDevice>& devices) {
  std::uint32_t count = 0;
  ErrorBuffer error;
  std::string thrown;
  const quern_status status = guarded(
      *plugin.target, call_name<&quern_plugin_api::device_count>,
      [&] { return plugin.api.device_count(plugin.handle, &count, error.get()); }, thrown);
  if (status != QUERN_OK)
    return {code::probe_failed,
            concat(plugin.id, ": cannot count its devices: ", thrown.empty() ? error.words(status) : thrown),
            {},
            error.text()};
  if (count > max_devices)
    return {code::bad_answer,
            concat(plugin.id, ": its count of devices is ", count, "; at most ", max_devices, " are taken"),
            "install another version of the plugin, or tell its author",
            {}};
  for (std::uint32_t i = 0; i < count; ++i) {
    ProbedDevice device;
    device.verdict = read_device_info(plugin, i, device.info);
    devices.push_back(std::move(device));
  }
  return {};
}

/// Gives each device the reason that names it.
void attribute_reasons(const Plugin::Parts& plugin, const ProbeAnswer& answer, std::vector<ProbedDevice>& devices) {
  for (std::size_t r = 0; r < answer.reasons.size(); ++r) {
    const std::uint32_t about = answer.reason_devices[r];
    if (about == 0 || about > devices.size() || !devices[about - 1].verdict.ok()) continue;
    devices[about - 1].verdict = {
        code::device_failed, concat(plugin.id, ":", about - 1, ": ", answer.reasons[r].text), answer.reasons[r].remedy, {}};
  }
}

void attribute_failures(const Plugin::Parts& plugin, const ProbeAnswer& answer, bool thorough, std::vector<ProbedDevice>& devices) {
  const auto label = [&](std::size_t i) { return concat(plugin.id, ":", i); };
  attribute_reasons(plugin, answer, devices);
  const auto standing = [&] {
    return static_cast<std::uint32_t>(std::ranges::count_if(devices, [](const ProbedDevice& d) { return d.verdict.ok(); }));
  };
  if (answer.usable == QUERN_NONE || standing() <= answer.usable) return;
  if (thorough)
    for (std::uint32_t i = 0; i < devices.size(); ++i)
      if (devices[i].verdict.ok()) devices[i].verdict = OpenDevice(plugin, i).verdict();
  if (standing() <= answer.usable) return;
  std::string why;
  for (const Reason& r : answer.reasons) why += "; " + r.text;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].verdict.ok())
      devices[i].verdict = {code::device_unproven,
                            concat(label(i), ": ", answer.usable, " of ", devices.size(),
                                   " devices passed the probe, and the plugin does not say which", why),
                            "name the failing device to the plugin's author, or hide it from the plugin",
                            {}};
}

}  // namespace

Examination examine(const ExamineRequest& request, const Inspection& found) {
  Examination result;
  result.id = found.id;
  result.version = found.version;
  result.build = found.build_id;
  const auto enter = [&](Stage stage) {
    result.stage = stage;
    if (request.entering) request.entering(stage);
  };
  std::unique_ptr<Plugin::Parts> plugin;
  const CallTarget& target = call_target(texts_of_plugin(found.id, request.path));
  if (request.registered) {
    enter(Stage::negotiate);
    plugin = make_plugin(request.path, target, request.registered, found.id, request.facts, request.options, request.log, result.verdict);
  } else {
    enter(Stage::load);
    LoadedLibrary library;
    {
      const OpenCall open(target, load_call);
      result.verdict = load_library(request.path, found, library);
    }
    if (result.verdict.code == code::no_entry) result.stage = Stage::negotiate;
    if (!result.verdict.ok()) return result;
    enter(Stage::negotiate);
    plugin = make_plugin(request.path, target, library.entry, found.id, request.facts, request.options, request.log, result.verdict);
  }
  if (result.verdict.code == code::create_failed) result.stage = Stage::probe;
  if (!plugin) return result;
  result.id = plugin->id;
  result.version = plugin->version;
  if (!plugin->build.empty()) result.build = plugin->build;
  result.abi_minor = plugin->api.abi_minor;

  enter(Stage::probe);
  ProbeAnswer answer;
  result.verdict = run_probe(*plugin, found.dependencies, answer);
  result.reasons = answer.reasons;
  if (!result.verdict.ok()) {
    // The devices are wanted all the same, for the report; a plugin without its driver may have none to tell.
    list_devices(*plugin, result.devices);
    attribute_reasons(*plugin, answer, result.devices);
    for (ProbedDevice& d : result.devices)
      if (d.verdict.ok()) d.verdict = result.verdict;
    return result;
  }
  result.verdict = list_devices(*plugin, result.devices);
  if (!result.verdict.ok()) return result;
  if (answer.usable != QUERN_NONE && answer.usable > result.devices.size()) {
    result.verdict = {code::bad_answer,
                      concat(result.id, ": its answer is that ", answer.usable, " of ", result.devices.size(), " devices passed"),
                      "install another version of the plugin, or tell its author",
                      {}};
    return result;
  }
  attribute_failures(*plugin, answer, request.thorough, result.devices);
  for (std::uint32_t i = 0; i < result.devices.size(); ++i)
    if (ProbedDevice& d = result.devices[i]; d.verdict.ok() && !(d.info.caps & QUERN_CAP_SYNCHRONOUS)) {
      const OpenDevice open(*plugin, i);
      d.verdict = open.get() ? prove_queue(*plugin, i, open.get()) : open.verdict();
    }
  const auto is_usable = [](const ProbedDevice& d) { return d.verdict.ok(); };
  if (std::ranges::none_of(result.devices, is_usable)) {
    result.verdict = {code::no_device,
                      result.devices.empty() ? concat(result.id, ": has no device on this machine") : result.devices.front().verdict.cause,
                      result.devices.empty() ? "" : result.devices.front().verdict.remedy,
                      {}};
    return result;
  }
  if (request.measure)
    for (std::uint32_t i = 0; i < result.devices.size(); ++i)
      if (ProbedDevice& d = result.devices[i]; d.verdict.ok())
        if (const OpenDevice open(*plugin, i); open.get()) {
          std::string thrown;
          guarded(
              target, call_name<&quern_plugin_api::copy>,
              [&] { return d.bandwidth = measure_copy_bandwidth(plugin->api, open.get(), d.info), QUERN_OK; }, thrown);
        }
  return result;
}

}  // namespace quern::loader
