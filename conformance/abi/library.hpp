// The plugin's library as it lies in this process: what it exports, needs and notes.
#pragma once

#include "device_run/script.hpp"

#include <string>
#include <vector>

namespace quern::conformance::abi {

struct Library {
  std::vector<std::string> exported;  // defined dynamic symbols that others can bind to
  bool has_unique = false;            // one of them is GNU-unique
  std::vector<std::string> needed;    // DT_NEEDED
  quern_note note{};
  bool has_note = false;
};

/// Reads the tables of the loaded library. Ends the script as waived where the plugin was registered without one.
Library inspect_library(ScriptContext& t);
/// The one exported function, found in the loaded library.
quern_plugin_query_fn query_of(ScriptContext& t);

}  // namespace quern::conformance::abi
