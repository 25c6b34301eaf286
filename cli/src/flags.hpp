// Groups of flags that several verbs have. Each function adds its group to a verb.
#pragma once

#include "command_line.hpp"

#include <CLI/CLI.hpp>

namespace quern::cli {

/// MODEL, --activations and --kv. Returns the option of MODEL.
CLI::Option* add_model_flags(CLI::App& app, ModelFlags& flags);

/// Everything that shapes the choice of a token.
void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

/// The flags of settings.hpp. `threads_alias` is a short flag for --threads, or null.
void add_setting_flags(CLI::App& app, FlagValues& values, const char* threads_alias = nullptr);

/// -v and -q.
void add_manner_flags(CLI::App& app, bool& verbose, bool& quiet);

/// An option that takes one value each time it is given.
void add_list_option(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* placeholder,
                     const char* help);

/// A number of at least 1.
void add_count_option(CLI::App& app, const char* flag, std::uint32_t& value, const char* help);

}  // namespace quern::cli
