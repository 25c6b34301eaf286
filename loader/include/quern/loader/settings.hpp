// What a loader is asked to do, and where each wish came from.
//
// Plain data. Flag > environment > file > default is the caller's order: start from
// settings_from_environment(), let a file fill what is still at its default, let flags overwrite.
#pragma once

#include "quern/quern_plugin_api.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::loader {

/// A value and who gave it: "default", "QUERN_BACKEND", "--backend", "/etc/quern/quern.conf", "api". Messages
/// name it.
template <typename T>
struct Setting {
  T value{};
  std::string source = "default";

  bool is_set() const { return source != "default"; }
  void set(T new_value, std::string from) {
    value = std::move(new_value);
    source = std::move(from);
  }
};

/// Who asks for a device node.
struct Identity {
  std::uint32_t user = 0;
  std::vector<std::uint32_t> groups;
};

/// Receives log lines of the loader (component "loader") and of the plugins (component "<id>" or
/// "<id>.<part>"). level is QUERN_LOG_...; may be called from any thread, also while another call runs. What
/// it throws is dropped.
using LogSink = std::function<void(std::uint32_t level, std::string_view component, std::string_view text)>;

struct Settings {
  // Where plugins are looked for. All paths are absolute; a relative one is reported and not searched.
  Setting<std::vector<std::string>> directories;   // searched first, in this order
  Setting<std::vector<std::string>> extra_path;    // searched next
  Setting<std::vector<std::string>> backend_path;  // if set, replaces the default directory
  std::vector<quern_plugin_query_fn> registered;   // plugins linked into the program; before all files, probed in process

  // What may be opened.
  Setting<std::vector<std::string>> backends;    // a demand: only these ids, in this order; empty: no demand
  Setting<std::vector<std::string>> disabled;    // globs over ids; wins over the demand
  Setting<std::string> device;                   // "cuda:0", a PCI address or a UUID; empty: none named
  Setting<bool> force_cpu;                       // CUDA_FORCE_CPU, AXOLOTL_FORCE_CPU: nothing but the backend "cpu"
  Setting<bool> allow_dev_plugins;               // accept another header hash
  std::optional<std::uint32_t> least_abi_minor;  // refuse older plugins; nothing: QUERN_ABI_MINOR_SUPPORTED behind this build's minor
  Setting<std::string> cuda_visible_devices;     // is_set() with an empty value hides every NVIDIA card

  // How plugins are probed.
  Setting<bool> probe_in_process;               // no helper process: a plugin that crashes takes the caller with it
  std::chrono::milliseconds probe_limit{5000};  // of one helper process: then it must go on, loader/README.md
  std::string probe_program;                    // quern-probe; empty: found from this library's own place
  Setting<std::string> cache_directory;         // empty: nothing is kept

  // Roots, so that a test or a container can stage a machine.
  std::string sys_root = "/sys";
  std::string dev_root = "/dev";
  std::string proc_root = "/proc";
  std::string etc_root = "/etc";
  std::string usr_root = "/usr";
  std::optional<Identity> identity;  // nothing: this process

  // What every plugin is given in its host table.
  Setting<std::uint32_t> threads;                            // 0: the processors that this process may use
  std::vector<std::uint32_t> affinity;                       // processor numbers; empty: plugins do not pin
  Setting<std::map<std::string, std::string>> force_kernel;  // backend id -> kernel family; option "force_kernel"
  Setting<bool> deterministic;                               // option "deterministic" = "1"
  std::map<std::string, std::string> options;                // further options; "<id>.<key>" is seen by that plugin only, as "<key>"

  LogSink log;  // empty: nothing is logged

  /// What settings_from_environment() found and did not use, with the reason; it becomes part of the report.
  std::vector<std::string> ignored;
};

/// How the environment is read. secure_get returns null for everything in a setuid or setgid program.
struct Environment {
  std::function<const char*(const char* name)> get;
  std::function<const char*(const char* name)> secure_get;  // for values that are paths
};

/// The process's own environment: getenv and secure_getenv.
Environment process_environment();

/// Reads QUERN_BACKEND, QUERN_BACKEND_DISABLE, QUERN_DEVICE, QUERN_BACKEND_PATH, QUERN_BACKEND_EXTRA_PATH,
/// QUERN_ALLOW_DEV_PLUGINS, QUERN_PROBE_IN_PROCESS, QUERN_CACHE_DIR (default $XDG_CACHE_HOME/quern, then $HOME/.cache/quern),
/// QUERN_THREADS, QUERN_FORCE_KERNEL, QUERN_DETERMINISTIC, CUDA_FORCE_CPU, AXOLOTL_FORCE_CPU,
/// CUDA_VISIBLE_DEVICES. Throws Error(QUERN_INVALID_ARGUMENT) naming the variable if a value cannot be read.
Settings settings_from_environment(const Environment& environment = process_environment());

/// The parsers behind it, for the flag twins: `from` is the flag's name in the error text. Throw as above.
std::vector<std::string> parse_backends(std::string_view text, std::string_view from);
std::map<std::string, std::string> parse_force_kernel(std::string_view text, std::string_view from);
std::uint32_t parse_threads(std::string_view text, std::string_view from);
bool parse_switch(std::string_view text, std::string_view from);

}  // namespace quern::loader
