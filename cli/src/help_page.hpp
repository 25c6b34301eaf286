// The pages of --help and --help-all, and the page of `quern` alone. No line is wider than 100 columns.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>

namespace quern::cli {

struct Example {
  const char* verb;
  const char* line;  // "quern run MODEL.gguf"
};

std::span<const Example> all_examples();

/// Of a verb, or of the program. `all`: with the rare flags, the other names of each flag and its variable.
std::string help_page(const CLI::App& app, bool all);

/// What `quern` alone prints.
std::string start_page();

}  // namespace quern::cli
