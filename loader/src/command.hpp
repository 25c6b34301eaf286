// The one command that a user may type about an entry of the report.
#pragma once

#include "quern/loader/report.hpp"
#include "quern/loader/settings.hpp"

#include <string>

namespace quern::loader {

/// What a code means, in a few words; empty for a code that is not ours.
std::string meaning_of(const std::string& code);

/// Fills `command` of every entry and device: from the remedy where that names a package, else from codes.def. `etc_root` says how
/// this system installs packages.
void add_commands(Report& report, const std::string& etc_root);

/// The text as one word of a shell.
std::string shell_word(const std::string& text);

}  // namespace quern::loader
