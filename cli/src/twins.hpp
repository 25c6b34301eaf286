// The environment twin of each flag: --top-k is QUERN_TOP_K. Settings have theirs in settings.hpp, and other clients' names where
// those exist (HF_ENDPOINT).
#pragma once

#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace quern::cli {

/// "--top-k" of "-k,--top-k"; "" for a positional argument.
std::string flag_name(const CLI::Option& option);

/// Whether a value follows; not for a flag such as --raw.
bool takes_value(const CLI::Option& option);

/// Its variable; "" for a positional argument, and for what asks for a page and no run: --help, --version, --show-config.
std::string variable_of(const CLI::Option& option);

/// After parsing: gives each flag of `verb` that the command line lacks the value of its variable, and returns what all of them
/// have. A flag that may be repeated takes one value; a flag without value 1 or 0. Settings are listed only: the value they
/// take is resolve_settings()'s. Throws Failure(exit_usage) naming the variable.
std::vector<FlagState> take_twins(CLI::App& verb, const Environment& environment);

/// After that: gives each flag that still has its default, and that quern.conf may give, what the file has for the first of these names of
/// the model, or for all models. Throws Failure(exit_usage) naming the line.
void take_file(CLI::App& verb, std::vector<FlagState>& states, const Config& config, const std::vector<std::string>& model_names);

}  // namespace quern::cli
