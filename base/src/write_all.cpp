// See write_all.hpp.
#include "write_all.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace quern::base {
namespace {

/// The system writes at most 2 GiB - 4 KiB at once; a smaller piece lets a signal be answered between two.
constexpr std::size_t longest_piece = 64 << 20;

sigset_t file_size_signal() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool is_pending() noexcept {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

template <typename Write>
int write_pieces(std::span<const std::byte> bytes, Write write) noexcept {
  const FileSizeSignalHeld held;
  while (!bytes.empty()) {
    const ssize_t put = write(bytes.data(), std::min(bytes.size(), longest_piece));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

}  // namespace

FileSizeSignalHeld::FileSizeSignalHeld() noexcept : pending_(is_pending()) {
  const sigset_t set = file_size_signal();
  held_ = pthread_sigmask(SIG_BLOCK, &set, &before_) == 0;
}

FileSizeSignalHeld::~FileSizeSignalHeld() {
  if (!held_) return;
  const int error = errno;
  const sigset_t set = file_size_signal();
  if (!pending_ && is_pending()) {
    const timespec at_once{};
    (void)sigtimedwait(&set, nullptr, &at_once);
  }
  (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

int write_all(int descriptor, std::span<const std::byte> bytes) noexcept {
  return write_pieces(bytes, [&](const std::byte* at, std::size_t count) { return ::write(descriptor, at, count); });
}

int write_all_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return write_pieces(bytes, [&](const std::byte* at, std::size_t count) {
    const ssize_t put = ::pwrite(descriptor, at, count, static_cast<off_t>(offset));
    if (put > 0) offset += static_cast<std::uint64_t>(put);
    return put;
  });
}

int take_room(int descriptor, std::uint64_t bytes) noexcept {
  const FileSizeSignalHeld held;
  int failed = 0;
  do { failed = ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno; } while (failed == EINTR);
  return failed == ENOSYS ? EOPNOTSUPP : failed;
}

int set_length(int descriptor, std::uint64_t bytes) noexcept {
  const FileSizeSignalHeld held;
  int failed = 0;
  do { failed = ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 ? 0 : errno; } while (failed == EINTR);
  return failed;
}

int sync(int descriptor) noexcept {
  int failed = 0;
  do { failed = ::fsync(descriptor) == 0 ? 0 : errno; } while (failed == EINTR);
  return failed == EINVAL || failed == EOPNOTSUPP || failed == EROFS ? 0 : failed;
}

}  // namespace quern::base
