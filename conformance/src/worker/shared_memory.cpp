// See shared_memory.hpp.
#include "worker/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace quern::conformance {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

int high_descriptor(int fd) {
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 16);
  const int saved = errno;
  ::close(fd);
  errno = saved;
  if (high < 0) fail("fcntl");
  return high;
}

SharedMemory::SharedMemory(const char* name) : fd_(-1), writable_(true) {
  const int fd = ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) fail("memfd_create");
  fd_ = high_descriptor(fd);
}

SharedMemory::SharedMemory(int fd, bool writable) : fd_(fd), writable_(writable) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

std::span<std::byte> SharedMemory::map(std::uint64_t bytes, bool grow) {
  if (bytes > size_ || data_ == nullptr) {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = nullptr;
    const std::uint64_t size = bytes < 65536 ? 65536 : bytes;
    struct stat now {};
    if (::fstat(fd_, &now) != 0) fail("fstat");
    if (grow && static_cast<std::uint64_t>(now.st_size) < size && ::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("ftruncate");
    if (!grow && static_cast<std::uint64_t>(now.st_size) < size) {
      errno = ENODATA;  // the other side did not write what it announced
      fail("shared memory");
    }
    void* place = ::mmap(nullptr, size, writable_ ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd_, 0);
    if (place == MAP_FAILED) fail("mmap");
    data_ = static_cast<std::byte*>(place);
    size_ = size;
  }
  return {data_, bytes};
}

void SharedMemory::release() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
  if (::ftruncate(fd_, 0) != 0) fail("ftruncate");
}

std::string read_from(int fd, std::uint64_t offset, std::uint64_t limit) {
  std::string text(limit, '\0');
  const ssize_t n = ::pread(fd, text.data(), limit, static_cast<off_t>(offset));
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace quern::conformance
