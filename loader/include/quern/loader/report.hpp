// What became of each plugin and each device, for people and for programs.
//
// Plain data plus two renderings. The codes are stable and listed in loader/README.md; texts may change.
#pragma once

#include "quern/quern_plugin_api.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::loader {

/// A device as its plugin describes it; the strings are copies.
struct DeviceInfo {
  std::uint32_t device_class = QUERN_DEVICE_OTHER;  // QUERN_DEVICE_...
  std::uint32_t vendor_id = 0;                      // PCI vendor, 0 unknown
  std::uint64_t caps = 0;                           // QUERN_CAP_...
  std::string name;
  std::string architecture;
  std::string driver_have;
  std::string driver_need;
  std::string pci_address;              // "0000:01:00.0" in lower case, or empty
  std::array<std::uint8_t, 16> uuid{};  // zero: unknown
  std::uint64_t memory_alignment = 1;
  std::uint64_t max_allocation = 0;  // bytes, 0 unknown
  std::uint32_t heap_count = 0;
  std::uint32_t numa_node = QUERN_NONE;

  bool operator==(const DeviceInfo&) const = default;
};

/// "discrete", "unified", "integrated", "cpu", "software", "other".
const char* class_name(std::uint32_t device_class);

/// "GPU-" style text of a UUID without prefix: 8-4-4-4-12 hex digits; empty if it is unknown.
std::string uuid_text(const std::array<std::uint8_t, 16>& uuid);

enum class Stage { search, inspect, load, negotiate, probe, open, system };  // system: the machine, the cache, the demand
enum class Status {
  usable,   // may be opened, or is open
  limited,  // usable, and something that it could use is missing
  skipped,  // not opened because nobody may (disabled, not demanded, shadowed, hidden)
  refused,  // it cannot be used here; cause and remedy say more
  warning   // not a plugin: something that the user should know
};
const char* stage_name(Stage stage);  // "search", "S0 inspect", "S1 load", ...
const char* status_name(Status status);

/// Something that a plugin misses but can work without, or why a probe failed; in the plugin's own words.
struct Reason {
  quern_status code = QUERN_OK;
  std::string text;
  std::string missing;  // "libcuda.so.1", or empty
  std::string remedy;   // or empty
};

struct DeviceReport {
  std::string label;  // "cuda:0"
  DeviceInfo info;
  Status status = Status::refused;
  std::string code;    // "QUERN-L-0000" for a device that may be used
  std::string reason;  // why it is or is not used, for every status
  std::string remedy;
  std::string command;   // what to type; filled by examine_machine()
  int rank = -1;         // place among the candidates, 0 the best; -1 not a candidate
  double bandwidth = 0;  // bytes/s of a copy on the device where it was measured to break a tie, else 0
};

struct ReportEntry {
  std::string path;             // of the file or directory; "registered:<id>" for a plugin in the program; empty for the machine
  Stage stage = Stage::search;  // the last stage reached
  Status status = Status::refused;
  std::string code;
  std::string cause;                         // one sentence, lower case, no full stop
  std::string remedy;                        // what to do, or empty
  std::string command;                       // what to type; filled by examine_machine()
  std::map<std::string, std::string> words;  // for the command: "group" -> "render"
  std::string raw_error;                     // the linker's, plugin's or system's own words, or empty
  std::string id;                            // of the plugin, as far as known
  std::string version;
  std::string build;            // its build id, else empty
  std::uint32_t abi_minor = 0;  // negotiated; 0 before
  bool from_cache = false;      // the probe result was read from the cache
  bool in_process = false;      // probed without the helper process
  double milliseconds = 0;      // what S1 to S3 took
  std::string printed;          // what it wrote to stdout or stderr while it was probed, cut at 4 KiB
  std::vector<Reason> reasons;
  std::vector<DeviceReport> devices;
};

struct Report {
  std::vector<std::string> directories;  // searched, in order
  std::vector<ReportEntry> entries;      // in the order of the search; notes about the machine at the end

  /// The entry of the plugin that serves this id, or null.
  const ReportEntry* plugin(const std::string& id) const;
};

/// One JSON object. Bytes that are not UTF-8 are replaced.
std::string to_json(const Report& report);

/// Plain sentences, one paragraph an entry, best devices first.
std::string to_words(const Report& report);

}  // namespace quern::loader
