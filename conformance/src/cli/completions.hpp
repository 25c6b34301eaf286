// Completion scripts of quern-conformance for shells, from its table of flags.
#pragma once

#include <string>

namespace quern::conformance {

/// Scripts that complete verbs, flags, the words that a flag takes, files and folders.
std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

/// Writes quern-conformance.bash, _quern-conformance and quern-conformance.fish into the folder; the exit code. Runs while Quern is built.
int write_completions(const std::string& folder);

}  // namespace quern::conformance
