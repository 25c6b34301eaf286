// Where this library is, and what is found from there.
#pragma once

#include <string>
#include <vector>

namespace quern::loader {

/// The absolute folder of the file that this code was loaded from (the program itself where it is linked
/// statically). Empty if it cannot be told: a library that was loaded by a relative path is not looked for
/// again.
std::string code_directory();

/// Where plugins may be by default, seen from the folder `code`: beside a library, or beside bin/ for a
/// program. In order.
std::vector<std::string> plugin_directories_from(const std::string& code);

/// Where the helper may be, in order.
std::vector<std::string> helper_paths_from(const std::string& code);

/// The helper to run: the first of the above that can be executed; empty if none.
std::string find_helper();

}  // namespace quern::loader
