// The parser: CLI11's tree of verbs and flags over one CommandLine. What a verb's flags are is said in parser.cpp alone; help,
// completions, variables of the environment and --show-config all come from this tree.
#pragma once

#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace quern::cli {

struct VerbApp {
  Verb verb;
  CLI::App* app;  // belongs to the program
};

/// Parsing writes into `line`, which must outlive it. Not to be copied or moved: the flags point into it.
struct Parser {
  Parser(CommandLine& line, const std::string& version);
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  CLI::App program;
  std::vector<VerbApp> verbs;
};

}  // namespace quern::cli
