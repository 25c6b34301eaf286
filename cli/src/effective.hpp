// What --show-config asks this machine and the model: the values that a run would have where nothing is given.
#pragma once

#include "command_line.hpp"
#include "show_config.hpp"

namespace quern::cli {

/// Computes nothing and downloads nothing. What cannot be found out is left to the words of the table.
EffectiveDefaults effective_defaults(CommandLine line, const Settings& settings);

}  // namespace quern::cli
