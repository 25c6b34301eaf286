// The command line.
#pragma once

#include "case_table/case.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  std::string backend, device;                        // as the loader takes them; empty: all
  std::vector<std::string> plugins;                   // files that are not installed
  std::uint32_t threads = 0;                          // of each plugin; 0: its own choice
  std::map<std::string, std::string> plugin_options;  // host options, "key" or "<id>.key"

  /// The flags that say this, for a child process.
  std::vector<std::string> arguments() const;
};

/// A variable of the environment; nothing if it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const char*)>;
std::optional<std::string> process_environment(const char* name);

struct GivenFlag {
  std::string value;      // of a repeatable flag all, a comma between
  bool variable = false;  // by its variable, not on the command line
};

struct Options {
  std::string verb;      // "run", "list", "selftest", "report", "verify", "bench", or hidden: "survey", "device-process", "completions"
  std::string argument;  // of report and verify: the journal; of device-process: the device; of completions: the folder
  std::map<std::string, GivenFlag> given;  // by the flag's name
  Selection selection;
  Profile profile = Profile::quick;
  int level = level_all;
  std::vector<std::string> filters, dtypes, ops, groups;
  std::uint32_t shard = 0, shards = 0;  // 0: all; else shard 1 .. shards
  std::uint32_t jobs = 0;               // 0: one a processor
  bool resume = false, stop_at_failure = false, help = false, version = false, verbose = false, show_config = false;
  std::uint64_t seed = 0;    // other data for every case; 0: those that its name gives
  std::uint32_t repeat = 1;  // runs of each case, which must have one verdict
  std::string journal = "quern-conformance.jsonl";
  std::string exclusions;      // file
  std::string write_manifest;  // list: file
  std::string print_bound;     // list: a case
  std::string junit, html;     // reports to write, or to compare with in verify
  std::string json;            // bench: file
  std::uint32_t samples = 7;   // bench: timed runs of a case
  std::uint32_t models = 6;    // audit: random models of a device
  std::uint32_t deadline = 0;  // seconds of a case at most; 0: the case's own
  std::uint64_t memory = 0;    // bytes of host memory that large cases may take; 0: what there is
  std::string mutants;         // selftest: the folder of the broken plugins; empty: as installed
  std::vector<std::string> mutant_filters;
};

/// What the command line does not give is taken from `environment`, where each flag has a variable. Throws UsageError naming flag or variable.
Options parse_options(const std::vector<std::string>& arguments, const Environment& environment = process_environment);

}  // namespace quern::conformance
