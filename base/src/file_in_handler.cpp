// See file_in_handler.hpp.
#include "quern/base/file_in_handler.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace quern::base {
namespace {

bool write_aside(const char* path, std::string_view bytes) noexcept {
  constexpr std::string_view ending = ".new";
  char aside[PATH_MAX];
  const std::size_t length = std::strlen(path);
  if (length == 0 || length + ending.size() >= sizeof aside) return false;
  std::memcpy(aside, path, length);
  std::memcpy(aside + length, ending.data(), ending.size());
  aside[length + ending.size()] = '\0';
  ::unlink(aside);
  const int file = ::open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool written = ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  return written && ::rename(aside, path) == 0;
}

}  // namespace

bool write_file_in_handler(const char* path, std::string_view bytes) noexcept {
  const int before = errno;
  const bool written = write_aside(path, bytes);
  errno = before;
  return written;
}

}  // namespace quern::base
