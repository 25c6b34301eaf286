// See files.hpp.
#include "files.hpp"

#include "quern/graph/file_error.hpp"

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

base::GrowingFile open_lock(const fs::path& path) {
  make_folders(path.parent_path());
  base::GrowingFile file;
  check_written(base::GrowingFile::open(path.string(), base::GrowingFile::Begin::keep, file));
  return file;
}

}  // namespace

std::string system_reason(int error) { return std::generic_category().message(error); }

std::optional<std::string> read_small(const fs::path& path) {
  std::string text;
  const base::FileProblem problem = base::read_file(path.string(), text, {.most = 1 << 20});
  const bool absent = problem.fault == base::FileFault::not_found && base::dangling_target(path.string()).empty();
  if (absent || problem.fault == base::FileFault::not_allowed) return std::nullopt;
  check_read(problem);
  return text;
}

void make_folders(const fs::path& folder) { check_written(base::make_folders(folder.string())); }

void write_small(const fs::path& path, const std::string& text) {
  make_folders(path.parent_path());
  check_written(base::write_file(path.string(), text, base::AtTargetLink::replace));
}

Lock::Lock(const fs::path& path, bool waits, const std::function<bool()>& go_on) : file_(open_lock(path)) {
  while (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const bool busy = error == EWOULDBLOCK || error == EINTR;
    if (busy && waits && go_on()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    if (!busy) throw Error(QUERN_IO, concat(path.string(), ": cannot be locked: ", system_reason(error)));
    if (!waits) {
      throw Error(QUERN_BUSY, concat(path.string(),
                                     ": a download of the same file holds this lock, and a pull in a callback does not wait for it; "
                                     "pull after the callback has returned"));
    }
    throw Error(QUERN_CANCELLED, "cancelled");
  }
}

std::optional<Lock> Lock::try_at_once(const fs::path& path) {
  Lock lock(open_lock(path));
  if (::flock(lock.file_.descriptor(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

}  // namespace quern::hub
