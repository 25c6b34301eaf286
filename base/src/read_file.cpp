// Opens and reads files. Devices are refused before they are opened: opening alone starts some of them.
#include "quern/base/files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace quern::base {
namespace {

constexpr std::size_t smallest_piece = 4096, largest_piece = 4 << 20;

FileProblem wrong_kind(const std::string& path, mode_t mode) {
  return {FileFault::wrong_kind, 0, path + ": is " + kind_of_file(mode) + ", not a file"};
}

FileProblem too_large(const std::string& path, const std::string& size, std::uint64_t most) {
  return {FileFault::too_large, 0, path + ": has " + size + " bytes, and at most " + std::to_string(most) + " are read"};
}

/// Pipes, and terminals where a person types.
bool is_stream(const struct stat& info, int descriptor) noexcept {
  return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || (S_ISCHR(info.st_mode) && ::isatty(descriptor) == 1);
}

/// A terminal that this process has as a standard stream. No device is opened to find out what it is.
bool is_own_terminal(const struct stat& info) noexcept {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (S_ISCHR(info.st_mode) && ::fstat(standard, &own) == 0 && own.st_rdev == info.st_rdev && ::isatty(standard) == 1) return true;
  }
  return false;
}

FileProblem open_allowed(const std::string& path, OpenedFile& out, AtLink links, Pipes pipes) {
  if (path.empty()) return {FileFault::not_found, ENOENT, "the path is empty"};
  if (path.find('\0') != std::string::npos)
    return {FileFault::not_found, ENOENT, std::string(path.c_str()) + ": the path holds a zero byte"};
  struct stat info {};
  if ((links == AtLink::refuse ? ::lstat(path.c_str(), &info) : ::stat(path.c_str(), &info)) != 0)
    return file_problem(path, "opened", errno);
  const bool streams = pipes == Pipes::read;
  if (!S_ISREG(info.st_mode) && !(streams && (S_ISFIFO(info.st_mode) || is_own_terminal(info)))) return wrong_kind(path, info.st_mode);
  const int nofollow = links == AtLink::refuse ? O_NOFOLLOW : 0;
  int fd = -1;
  do { fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | nofollow); } while (fd < 0 && errno == EINTR);
  if (fd < 0) return file_problem(path, "opened", errno);
  OpenedFile opened{Descriptor(fd)};
  if (::fstat(fd, &opened.status) != 0) return file_problem(path, "examined", errno);
  if (!S_ISREG(opened.status.st_mode) && !(streams && is_stream(opened.status, fd))) return wrong_kind(path, opened.status.st_mode);
  out = std::move(opened);
  return {};
}

/// Reads up to the end. Waits where the descriptor has nothing yet and would not wait by itself.
template <typename Bytes>
FileProblem read_rest(int descriptor, const std::string& name, Bytes& out, std::uint64_t expected, std::uint64_t most) {
  Bytes bytes;
  std::size_t have = 0;
  // One byte more than there should be, so that the read that fills the room also finds the end.
  if (expected >= bytes.max_size() / 2) throw std::bad_alloc();
  std::size_t piece = std::max(static_cast<std::size_t>(expected) + 1, smallest_piece);
  for (;;) {
    if (have == bytes.size()) {
      if (have > most) return too_large(name, "more than " + std::to_string(most), most);
      bytes.resize(have + piece);
      piece = std::clamp(have, smallest_piece, largest_piece);
    }
    const ssize_t got = ::read(descriptor, bytes.data() + have, std::min<std::size_t>(bytes.size() - have, largest_piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      struct pollfd waiting {
        descriptor, POLLIN, 0
      };
      (void)::poll(&waiting, 1, -1);
      continue;
    }
    if (got < 0) return file_problem(name, "read", errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have > most) return too_large(name, "more than " + std::to_string(most), most);
  bytes.resize(have);
  out = std::move(bytes);
  return {};
}

template <typename Bytes>
FileProblem read_open(const OpenedFile& file, const std::string& name, Bytes& out, std::uint64_t most) {
  out.clear();
  const bool regular = S_ISREG(file.status.st_mode);
  const auto size = regular ? static_cast<std::uint64_t>(std::max<off_t>(file.status.st_size, 0)) : 0;
  if (size > most) return too_large(name, std::to_string(size), most);
  if (FileProblem problem = read_rest(file.descriptor.get(), name, out, size, most)) return problem;
  // The first read of a pipe without a writer finds its end at once.
  if (S_ISFIFO(file.status.st_mode) && out.empty()) return {FileFault::wrong_kind, 0, name + ": is a pipe that nobody writes to"};
  return {};
}

template <typename Bytes>
FileProblem read_path(const std::string& path, Bytes& out, const ReadRules& rules) {
  out.clear();
  OpenedFile opened;
  if (FileProblem problem = open_allowed(path, opened, rules.links, rules.pipes)) return problem;
  return read_open(opened, path, out, rules.most);
}

template <typename Bytes>
FileProblem read_beginning(const std::string& path, Bytes& out, std::size_t most) {
  out.clear();
  OpenedFile opened;
  if (FileProblem problem = open_allowed(path, opened, AtLink::follow, Pipes::refuse)) return problem;
  Bytes text(most, typename Bytes::value_type{});
  std::size_t have = 0;
  while (have < most) {
    const ssize_t got = ::read(opened.descriptor.get(), text.data() + have, most - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_problem(path, "read", errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  out = std::move(text);
  return {};
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileProblem open_file(const std::string& path, OpenedFile& out, AtLink links) { return open_allowed(path, out, links, Pipes::refuse); }

FileProblem read_opened(const OpenedFile& file, const std::string& name, std::string& out, std::uint64_t most) {
  return read_open(file, name, out, most);
}

FileProblem read_file(const std::string& path, std::string& out, const ReadRules& rules) { return read_path(path, out, rules); }

FileProblem read_file(const std::string& path, std::vector<std::byte>& out, const ReadRules& rules) { return read_path(path, out, rules); }

FileProblem read_head(const std::string& path, std::string& out, std::size_t most) { return read_beginning(path, out, most); }

FileProblem read_head(const std::string& path, std::vector<std::byte>& out, std::size_t most) { return read_beginning(path, out, most); }

FileProblem read_descriptor(int descriptor, const std::string& name, std::string& out, std::uint64_t most) {
  out.clear();
  return read_rest(descriptor, name, out, 0, most);
}

FileProblem read_at(int descriptor, const std::string& name, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor, to.data(), std::min(to.size(), largest_piece), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_problem(name, "read", errno);
    if (got == 0) return {FileFault::failed, 0, name + ": ends after " + std::to_string(offset) + " bytes"};
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace quern::base
