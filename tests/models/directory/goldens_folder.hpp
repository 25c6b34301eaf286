// Where the goldens of a tokenizer's files lie.
#pragma once

#include "refused_directory.hpp"

#include <cstdlib>
#include <filesystem>

namespace quern::test {

/// Goldens that are committed, or more and longer ones of the same script in the folder that an environment variable names.
inline std::filesystem::path goldens_folder(const char* variable, const char* committed) {
  const char* const other = std::getenv(variable);
  return other != nullptr ? other : test_data + "tokenizer/" + committed;
}

}  // namespace quern::test
