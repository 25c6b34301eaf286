// Small things that the caches do with files.
#pragma once

#include "quern/base/files.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace quern::hub {

/// The content of a small file (1 MiB); nothing if it is not there or may not be read. Throws Error naming it for a folder, a pipe, a
/// link to nowhere, an I/O error.
std::optional<std::string> read_small(const std::filesystem::path& path);

/// Writes beside it and renames, so that a reader sees the old content or the new one. Makes the folders. Throws Error(QUERN_IO).
void write_small(const std::filesystem::path& path, const std::string& text);

/// Throws Error(QUERN_IO) naming the folder.
void make_folders(const std::filesystem::path& folder);

/// The system's sentence for errno.
std::string system_reason(int error);

/// An exclusive lock on a file (flock), which other clients of the hub take on the same file. Held until it is destroyed.
class Lock {
 public:
  /// Waits while `go_on` returns true, or with `waits` false not at all. Throws Error(QUERN_CANCELLED), Error(QUERN_BUSY), Error(QUERN_IO).
  Lock(const std::filesystem::path& path, bool waits, const std::function<bool()>& go_on);
  /// Nothing if another process holds it.
  static std::optional<Lock> try_at_once(const std::filesystem::path& path);
  Lock(Lock&& other) noexcept = default;
  Lock& operator=(Lock&&) = delete;

 private:
  explicit Lock(base::GrowingFile file) : file_(std::move(file)) {}
  base::GrowingFile file_;
};

}  // namespace quern::hub
