// Groups of flags that several verbs have. Each function adds its group to a verb.
#pragma once

#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>

namespace quern::cli {

/// MODEL, and --model that may stand for it.
void add_model_place(CLI::App& app, std::string& path, NamedPlaces& named,
                     const char* help = "the model: a file, a Hugging Face directory, or a name as quern list prints it");

/// --prompt, which may stand for PROMPT or TEXT.
void add_prompt_flag(CLI::App& app, NamedPlaces& named, const char* help);

/// MODEL, --activations and --kv.
void add_model_flags(CLI::App& app, ModelFlags& flags, NamedPlaces& named);

/// --adapter.
void add_adapter_flag(CLI::App& app, std::optional<std::string>& adapter);

/// --tokenizer-pre.
void add_tokenizer_flag(CLI::App& app, std::string& rule);

/// Everything that shapes the choice of a token.
void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

/// Everything that shapes an answer, and that a chat may change between two: the sampling, --max-tokens and --prefill.
void add_answer_flags(CLI::App& app, RunFlags& flags);

/// The flags of settings.hpp for these uses (SettingUse).
void add_setting_flags(CLI::App& app, FlagValues& values, unsigned uses);

/// -v and -q.
void add_manner_flags(CLI::App& app, bool& verbose, bool& quiet);

/// An option that takes one value each time it is given.
void add_list_option(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* placeholder, const char* help);

/// What a whole number may be. `minus_one` is called for -1 where other programs have a meaning for it.
struct NumberRule {
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;
  std::function<void()> minus_one = {};
  const char* remedy = "";  // behind a refusal: "leave it out for ..."
};

/// A whole number within a rule; anything else, another sign included, is a usage error.
CLI::Option* add_number_option(CLI::App& app, const char* flag, std::function<void(std::uint64_t)> take, const char* help,
                               NumberRule rule = {});
CLI::Option* add_number_option(CLI::App& app, const char* flag, std::uint64_t& value, const char* help, NumberRule rule = {});

/// A number of at least 1.
void add_count_option(CLI::App& app, const char* flag, std::uint32_t& value, const char* help);

/// One number, or several with commas between, each from `least`. What is given replaces `values`, which are the default.
void add_numbers_option(CLI::App& app, const char* flag, std::vector<std::uint32_t>& values, std::uint32_t least, const char* help);
void add_numbers_option(CLI::App& app, const char* flag, std::vector<std::uint64_t>& values, std::uint64_t least, const char* help);

/// "1,2,8" as numbers from `least` to `most`. Throws Failure(exit_usage), which begins with `what`.
std::vector<std::uint64_t> parse_numbers(const std::string& what, const std::string& text, std::uint64_t least, std::uint64_t most);

}  // namespace quern::cli
