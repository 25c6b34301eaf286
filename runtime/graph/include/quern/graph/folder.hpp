// What lies in a folder. Not std::filesystem's iterators, nor what is made of them (remove_all, is_empty): those allocate in noexcept
// functions, which ends the process where memory has run out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quern {

/// Names of the entries, sorted; the first `most` that the system gives. Empty where the folder is not there or cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::size_t most = 256);

/// Relative paths of all that is no folder, in the folder and below it, sorted. Links are not followed; folders that nest deeper than 32
/// are left out.
std::vector<std::string> paths_below(const std::string& folder);

/// Removes the folder with all that is in it; links are removed, not followed. False with errno if something stays.
bool remove_tree(const std::string& folder);

}  // namespace quern
