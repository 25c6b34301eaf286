// A FileProblem as an Error.
#pragma once

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

namespace quern {

inline quern_status status_of(base::FileFault fault) noexcept {
  switch (fault) {
    case base::FileFault::none: return QUERN_OK;
    case base::FileFault::not_found: return QUERN_NOT_FOUND;
    case base::FileFault::not_allowed: return QUERN_PERMISSION;
    case base::FileFault::wrong_kind:
    case base::FileFault::too_large: return QUERN_BAD_MODEL;
    case base::FileFault::busy: return QUERN_BUSY;
    default: return QUERN_IO;
  }
}

/// Throws what went wrong with a file, if anything did. What names no file for reading is QUERN_IO where it
/// was to be written.
inline void check_read(const base::FileProblem& problem) {
  if (problem) throw Error(status_of(problem.fault), problem.text);
}
inline void check_written(const base::FileProblem& problem) {
  if (problem) throw Error(problem.fault == base::FileFault::not_allowed ? QUERN_PERMISSION : QUERN_IO, problem.text);
}

}  // namespace quern
