// The command line.
#pragma once

#include "case_table/case.hpp"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern::conformance {

/// A mistake of the user in the command line; exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Which plugins and devices, and what they are told.
struct Selection {
  std::string backend, device;       // as the loader takes them; empty: all
  std::vector<std::string> plugins;  // files that are not installed
  std::uint32_t threads = 0;         // of each plugin; 0: its own choice
  std::map<std::string, std::string> plugin_options;  // host options, "key" or "<id>.key"

  /// The flags that say this, for a child process.
  std::vector<std::string> arguments() const;
};

struct Options {
  std::string verb;      // "run", "list", or hidden: "survey", "device-process"
  std::string argument;  // of device-process: the device
  Selection selection;
  Profile profile = Profile::quick;
  int level = level_all;
  std::vector<std::string> filters, dtypes, ops, groups;
  std::uint32_t shard = 0, shards = 0;  // 0: all; else shard 1 .. shards
  std::uint32_t jobs = 0;               // 0: one a processor
  bool resume = false, stop_at_failure = false, help = false, verbose = false;
  std::string journal = "quern-conformance.jsonl";
  std::string exclusions;      // file
  std::string write_manifest;  // list: file
};

/// Throws UsageError naming the flag.
Options parse_options(const std::vector<std::string>& arguments);

extern const char* const usage_text;

}  // namespace quern::conformance
