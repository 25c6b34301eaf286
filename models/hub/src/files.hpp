// Small things that the caches do with files.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace quern::hub {

/// The content of a small file; nothing if it cannot be read.
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
  /// Waits while `go_on` returns true. Throws Error(QUERN_CANCELLED), Error(QUERN_IO).
  Lock(const std::filesystem::path& path, const std::function<bool()>& go_on);
  /// Nothing if another process holds it.
  static std::optional<Lock> try_at_once(const std::filesystem::path& path);
  Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock();

 private:
  explicit Lock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace quern::hub
