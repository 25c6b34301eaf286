// A file that grows in place.
#include "quern/base/files.hpp"

#include "target.hpp"
#include "write_all.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace quern::base {

FileProblem GrowingFile::open(const std::string& path, Begin begin, GrowingFile& out) {
  SplitPath split;
  if (FileProblem problem = split_path(path, split)) return problem;
  GrowingFile made;
  made.path_ = path;
  struct stat info {};
  const auto is_right = [&] { return S_ISREG(info.st_mode) || is_null_device(info); };
  // Looked at before it is opened: opening a device alone may start it.
  if (::lstat(path.c_str(), &info) == 0 && !is_right()) return not_writable_kind(path, info.st_mode);
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0 && errno == ELOOP) return not_writable_kind(path, S_IFLNK);
  if (fd < 0) return cannot_write(path, split, errno);
  made.file_ = Descriptor(fd);
  if (::fstat(fd, &info) != 0) return file_problem(path, "examined", errno);
  if (!is_right()) return not_writable_kind(path, info.st_mode);
  if (S_ISREG(info.st_mode) && info.st_nlink > 1) {
    return {FileFault::wrong_kind, 0,
            path + ": has " + std::to_string(info.st_nlink) +
                " names (hard links), and another's file may not be written; remove this name"};
  }
  if (begin == Begin::empty) {
    if (FileProblem problem = made.truncate(0)) return problem;
  }
  std::swap(out.path_, made.path_);
  std::swap(out.file_, made.file_);
  return {};
}

FileProblem GrowingFile::append(std::span<const std::byte> bytes) {
  if (const int error = write_all(file_.get(), bytes); error != 0) return file_problem(path_, "written", error);
  return {};
}

FileProblem GrowingFile::truncate(std::uint64_t bytes) {
  const int error = set_length(file_.get(), bytes);
  if (error != 0 && error != EINVAL) return file_problem(path_, "written", error);  // EINVAL: the null device
  return {};
}

FileProblem GrowingFile::allocate(std::uint64_t bytes) {
  int error = take_room(file_.get(), bytes);
  if (error == EOPNOTSUPP) error = set_length(file_.get(), bytes);
  if (error != 0) return file_problem(path_, "written", error);
  return {};
}

FileProblem GrowingFile::sync() {
  if (const int error = base::sync(file_.get()); error != 0) return file_problem(path_, "written", error);
  return {};
}

}  // namespace quern::base
