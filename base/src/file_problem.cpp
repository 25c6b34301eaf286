// The sentence for what a file cannot do.
#include "quern/base/files.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <system_error>

namespace quern::base {
namespace {

constexpr int longest_chain = 40;  // of links, as the system's

FileFault fault_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP: return FileFault::not_found;
    case EACCES:
    case EPERM:
    case EROFS: return FileFault::not_allowed;
    case EISDIR:
    case ENXIO: return FileFault::wrong_kind;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return FileFault::no_room;
    default: return FileFault::failed;
  }
}

/// The limit of `ulimit -f`, if that is what stopped the write.
std::string limit_words(int error) {
  struct rlimit limit {};
  if (error != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; this process may write files of at most " + std::to_string(limit.rlim_cur) + " bytes (ulimit -f)";
}

std::string target_of_link(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
  return length <= 0 ? std::string() : std::string(target, static_cast<std::size_t>(length));
}

}  // namespace

const char* kind_of_file(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

std::string dangling_target(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ELOOP && errno != ENOTDIR)) return {};
  std::string at = path, target;
  for (int hop = 0; hop < longest_chain && ::lstat(at.c_str(), &info) == 0 && S_ISLNK(info.st_mode); ++hop) {
    target = target_of_link(at);
    if (target.empty()) break;
    const std::size_t slash = at.rfind('/');
    at = target.front() == '/' || slash == std::string::npos ? target : at.substr(0, slash + 1) + target;
  }
  return target;
}

FileProblem file_problem(const std::string& path, const char* action, int error) {
  FileProblem problem{fault_of(error), error, path + ": "};
  const std::string target = problem.fault == FileFault::not_found ? dangling_target(path) : std::string();
  if (error == ELOOP && !target.empty()) {
    problem.text += "is a link that leads back to itself (by '" + target + "')";
  } else if (!target.empty()) {
    problem.text += "is a link to '" + target + "', and there is no such file";
  } else if (error == ENOENT || error == ENOTDIR) {
    problem.text += "there is no such file";
  } else if (error == ENXIO) {
    problem.text += "is a socket or a device, not a file";
  } else {
    problem.text += std::string("cannot be ") + action + ": " + std::generic_category().message(error) + limit_words(error);
  }
  return problem;
}

}  // namespace quern::base
