// Writes to a descriptor until all is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <csignal>
#include <span>

namespace quern::base {

/// Holds SIGXFSZ back on this thread while it lives, and takes the one that came meanwhile away: a write
/// beyond RLIMIT_FSIZE then fails with EFBIG, and the process goes on. One that was pending before stays so.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() noexcept;
  ~FileSizeSignalHeld();
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;

 private:
  sigset_t before_{};
  bool pending_ = false;
  bool held_ = false;
};

/// 0 or an errno. Goes on after interruptions and short writes.
int write_all(int descriptor, std::span<const std::byte> bytes) noexcept;
int write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
/// fallocate(): 0, or an errno. EOPNOTSUPP if the file system cannot.
int take_room(int descriptor, std::uint64_t bytes) noexcept;
int set_length(int descriptor, std::uint64_t bytes) noexcept;
/// fsync(): 0 too where the file system has nothing to sync.
int sync(int descriptor) noexcept;

}  // namespace quern::base
