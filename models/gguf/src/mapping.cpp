#include "mapping.hpp"

#include "quern/graph/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace quern::gguf {
namespace {

struct Descriptor {
  explicit Descriptor(int fd) noexcept : value(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  int value;
};

Error system_error(const std::string& path, const char* action, int code) {
  if (code == ENOENT || code == ENOTDIR)
    return Error(QUERN_NOT_FOUND, concat(path, ": there is no such file"));
  const std::string reason = std::generic_category().message(code);
  if (code == EACCES || code == EPERM)
    return Error(QUERN_PERMISSION, concat(path, ": cannot be ", action, ": ", reason));
  if (code == ENOMEM)
    return Error(QUERN_HOST_OUT_OF_MEMORY, concat(path, ": cannot be ", action, ": ", reason));
  return Error(QUERN_IO, concat(path, ": cannot be ", action, ": ", reason));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

}  // namespace

Mapping Mapping::open(const std::string& path) {
  if (path.empty()) throw Error(QUERN_INVALID_ARGUMENT, "the path of the model is empty");
  if (path.find('\0') != std::string::npos)
    throw Error(QUERN_INVALID_ARGUMENT, concat(path.c_str(), ": the path of the model holds a NUL byte"));
  // O_NONBLOCK: opening a FIFO without a writer would wait for one.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.value < 0) {
    if (errno == ENXIO)
      throw Error(QUERN_BAD_MODEL, concat(path, ": is a socket or a device, not a GGUF file"));
    throw system_error(path, "opened", errno);
  }
  struct stat status {};
  if (::fstat(file.value, &status) != 0) throw system_error(path, "examined", errno);
  if (!S_ISREG(status.st_mode))
    throw Error(QUERN_BAD_MODEL, concat(path, ": is ", kind_of(status.st_mode), ", not a GGUF file"));
  if (status.st_size <= 0)
    throw Error(QUERN_BAD_MODEL, concat(path, ": is empty; the download has probably failed"));
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (base == MAP_FAILED) throw system_error(path, "mapped", errno);
  const auto nanoseconds = [](const timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  const FileStamp stamp{size, status.st_ino, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
  return Mapping({static_cast<const std::byte*>(base), size}, true, stamp);
}

Mapping::Mapping(Mapping&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), owned_(std::exchange(other.owned_, false)), stamp_(other.stamp_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(owned_, other.owned_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

Mapping::~Mapping() {
  if (owned_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void Mapping::drop_pages(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (!owned_) return;
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t first = (offset + page - 1) / page * page;
  const std::uint64_t last = (offset + count) / page * page;
  if (first >= last) return;
  // Advice: a failure changes nothing but the memory in use.
  (void)::madvise(const_cast<std::byte*>(bytes_.data()) + first, static_cast<std::size_t>(last - first),
                  MADV_DONTNEED);
}

}  // namespace quern::gguf
