// Where a file or a directory is written that replaces nothing.
#pragma once

#include "quern/graph/error.hpp"

#include <string>

#include <sys/stat.h>

namespace quern::runtime {

/// Throws Error(QUERN_IO) for a path at which something lies, be it a link to nothing.
inline void require_free(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0)
    throw Error(QUERN_IO, concat(path, ": is there already, and nothing is replaced; remove it or give another name"));
}

}  // namespace quern::runtime
