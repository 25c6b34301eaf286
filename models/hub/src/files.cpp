// See files.hpp.
#include "files.hpp"

#include "quern/graph/error.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

int open_lock(const fs::path& path) {
  make_folders(path.parent_path());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) throw Error(QUERN_IO, concat(path.string(), ": cannot be opened: ", system_reason(errno)));
  return fd;
}

}  // namespace

std::string system_reason(int error) { return std::generic_category().message(error); }

std::optional<std::string> read_small(const fs::path& path) {
  // Not a stream: where memory runs out that only stops, and the file would seem to be none.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct Closed {
    int fd;
    ~Closed() { ::close(fd); }
  } closed{fd};
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(piece, static_cast<std::size_t>(got));
  }
}

void make_folders(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(QUERN_IO, concat(folder.string(), ": the folder cannot be made: ", failed.message()));
}

void write_small(const fs::path& path, const std::string& text) {
  make_folders(path.parent_path());
  const fs::path part = path.string() + concat(".", ::getpid(), ".part");
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(part, path, failed);
  if (!out || failed) {
    const std::string reason = failed ? failed.message() : system_reason(errno);
    fs::remove(part, failed);
    throw Error(QUERN_IO, concat(path.string(), ": cannot be written: ", reason));
  }
}

Lock::Lock(const fs::path& path, const std::function<bool()>& go_on) : fd_(open_lock(path)) {
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const bool busy = error == EWOULDBLOCK || error == EINTR;
    if (busy && go_on()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    ::close(fd_);
    if (!busy) throw Error(QUERN_IO, concat(path.string(), ": cannot be locked: ", system_reason(error)));
    throw Error(QUERN_CANCELLED, "cancelled");
  }
}

std::optional<Lock> Lock::try_at_once(const fs::path& path) {
  Lock lock(open_lock(path));
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace quern::hub
