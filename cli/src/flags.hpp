// Groups of flags that several verbs have. Each function adds its group to a verb.
#pragma once

#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>

namespace quern::cli {

/// MODEL, --activations and --kv. Returns the option of MODEL.
CLI::Option* add_model_flags(CLI::App& app, ModelFlags& flags);

/// --tokenizer-pre.
void add_tokenizer_flag(CLI::App& app, std::string& rule);

/// Everything that shapes the choice of a token.
void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

/// Everything that shapes an answer, and that a chat may change between two: the sampling, --max-tokens and --prefill.
void add_answer_flags(CLI::App& app, RunFlags& flags);

/// The flags of settings.hpp for these uses (SettingUse). `threads_alias` is a short flag for --threads, or null.
void add_setting_flags(CLI::App& app, FlagValues& values, unsigned uses, const char* threads_alias = nullptr);

/// -v and -q.
void add_manner_flags(CLI::App& app, bool& verbose, bool& quiet);

/// An option that takes one value each time it is given.
void add_list_option(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* placeholder,
                     const char* help);

/// A whole number from `least`; anything else, a sign included, is a usage error.
CLI::Option* add_number_option(CLI::App& app, const char* flag, std::function<void(std::uint64_t)> take,
                               const char* help, std::uint64_t least = 0, std::uint64_t most = UINT64_MAX);
CLI::Option* add_number_option(CLI::App& app, const char* flag, std::uint64_t& value, const char* help);

/// A number of at least 1.
void add_count_option(CLI::App& app, const char* flag, std::uint32_t& value, const char* help);

}  // namespace quern::cli
