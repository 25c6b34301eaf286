#include "mapping.hpp"

#include "quern/graph/file_error.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace quern::gguf {

Mapping Mapping::open(const std::string& path) {
  if (path.empty()) throw Error(QUERN_INVALID_ARGUMENT, "the path of the model is empty");
  if (path.find('\0') != std::string::npos)
    throw Error(QUERN_INVALID_ARGUMENT, concat(path.c_str(), ": the path of the model holds a NUL byte"));
  base::OpenedFile file;
  check_read(base::open_file(path, file));
  const struct stat& status = file.status;
  if (status.st_size <= 0) throw Error(QUERN_BAD_MODEL, concat(path, ": is empty; the download has probably failed"));
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    if (errno == ENOMEM) throw Error(QUERN_HOST_OUT_OF_MEMORY, base::file_problem(path, "mapped", errno).text);
    check_read(base::file_problem(path, "mapped", errno));
  }
  const auto nanoseconds = [](const timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  const FileStamp stamp{size, status.st_ino, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
  return Mapping({static_cast<const std::byte*>(memory), size}, true, stamp);
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
  (void)::madvise(const_cast<std::byte*>(bytes_.data()) + first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
}

}  // namespace quern::gguf
