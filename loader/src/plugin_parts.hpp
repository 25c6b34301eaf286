// One plugin handle and all that must live as long as it.
#pragma once

#include "fault_notes.hpp"
#include "host.hpp"
#include "inspect.hpp"
#include "quern/loader/loader.hpp"
#include "quern/loader/plugin_call.hpp"
#include "verdict.hpp"

#include <memory>
#include <optional>
#include <string>

namespace quern::loader {

struct Plugin::Parts {
  ~Parts();

  std::unique_ptr<Host> host;
  quern_plugin_api api{};
  quern_plugin* handle = nullptr;
  const CallTarget* target = nullptr;   // of calls that are about no device
  std::optional<KeptFault> kept_fault;  // of an earlier program
  std::string path;
  std::string id;
  std::string version;
  std::string build;
};

/// S2 and create(). Not ok: null.
std::unique_ptr<Plugin::Parts> make_plugin(const std::string& path, const CallTarget& target, quern_plugin_query_fn entry,
                                           const std::string& expected_id, const HostFacts& facts, HostOptions options, const LogSink& log,
                                           Verdict& verdict);

/// As make_plugin, for a file: S1 first.
std::unique_ptr<Plugin::Parts> load_plugin(const std::string& path, const CallTarget& target, const Inspection& found,
                                           const HostFacts& facts, HostOptions options, const LogSink& log, Verdict& verdict);

/// Reads and checks the description of one device.
Verdict read_device_info(const Plugin::Parts& plugin, std::uint32_t index, DeviceInfo& info);

/// Runs probe() if there is one. usable: devices that passed, QUERN_NONE if the plugin has no probe.
struct ProbeAnswer {
  std::uint32_t usable = QUERN_NONE;
  std::vector<Reason> reasons;
  std::vector<std::uint32_t> reason_devices;  // 1 + index of the device that a reason is about, 0: the plugin as a whole
};
Verdict run_probe(const Plugin::Parts& plugin, const std::vector<Dependency>& dependencies, ProbeAnswer& answer);

/// "0000:01:00.0" for "01:00.0", "00000000:01:00.0" and upper case; empty for what is no PCI address.
std::string normal_pci_address(const std::string& text);

}  // namespace quern::loader
