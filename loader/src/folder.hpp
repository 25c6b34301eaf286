// What lies in a folder. Not std::filesystem's iterator: it allocates in a noexcept function, which ends the process where memory has
// run out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quern::loader {

/// Names of the entries, sorted; the first `most` that the system gives. Empty where the folder is not there or cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::size_t most = 256);

}  // namespace quern::loader
