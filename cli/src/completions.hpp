// Completion scripts for shells, generated from the parser.
#pragma once

#include <string>

namespace quern::cli {

/// Scripts that complete verbs, flags, the words that a flag takes, files, folders, and models by the names that `quern list` prints.
/// Bash needs no bash-completion for its own.
std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

}  // namespace quern::cli
