// What lies where a file is to be written.
#pragma once

#include "quern/base/files.hpp"

#include <string>

namespace quern::base {

/// The folder that holds a path ("." or with its last slash) and the last part of the path.
struct SplitPath {
  std::string folder, name;
};
/// A problem where the path is empty, holds a zero byte or names a folder by its form ("a/", "..").
FileProblem split_path(const std::string& path, SplitPath& out);

/// "PATH: is a pipe, and only a file can be written there".
FileProblem not_writable_kind(const std::string& path, mode_t mode);

/// Why nothing can be made at a path: as file_problem(), but a folder that is not there is named.
FileProblem cannot_write(const std::string& path, const SplitPath& split, int error);

bool is_null_device(const struct stat& info) noexcept;

}  // namespace quern::base
