// Verbs and flags as a table: what the parser, --help, the completions and --show-config know of each.
#pragma once

#include "cli/options.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace quern::conformance {

struct VerbRow {
  std::string_view name;
  std::string_view argument;  // "JOURNAL", or empty
  std::string_view help;
};

struct Flag {
  std::string_view section;   // of the help
  std::string_view name;      // "--jobs"
  std::string_view value;     // "N", or its words "quick|full|huge"; empty for a switch
  std::string_view standard;  // as its value would be typed; empty: nothing, or what the help says
  bool repeatable;
  void (*set)(Options&, const std::string&);  // throws UsageError that begins with the name; a switch is set by any text
  std::string_view help;
};

/// Hidden verbs are not among them.
const std::vector<VerbRow>& verb_table();
const std::vector<Flag>& flag_table();

/// Its variable: QUERN_CONFORMANCE_JOBS of --jobs; of flags that `quern` has too and the loader reads, QUERN_BACKEND and the like; empty for
/// what asks for a page and no run (--help, --version, --show-config).
std::string variable_of(const Flag& flag);

/// The page of --help.
std::string usage_text();

/// The page of --show-config: each flag's value and where it comes from.
std::string config_page(const Options& options);

}  // namespace quern::conformance
