// A file of memory that two processes map: how inputs and outputs travel without copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quern::conformance {

/// Owns a memfd and its mapping. Movable by no one; one thread.
class SharedMemory {
 public:
  /// A new one; its descriptor is at least 16 and closed on exec. Throws std::system_error.
  explicit SharedMemory(const char* name);
  /// One that was inherited as `fd`; `writable`: mapped for writing too.
  SharedMemory(int fd, bool writable);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int fd() const noexcept { return fd_; }
  /// At least `bytes`, mapped. Grows the file (`grow`) or trusts the other side to have done so. Earlier spans die.
  std::span<std::byte> map(std::uint64_t bytes, bool grow);
  /// Gives its memory back. Nobody else may have it mapped.
  void release();

 private:
  int fd_;
  bool writable_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// A duplicate of `fd` at 16 or above, closed on exec, so that fixed descriptors of a child never collide with it.
int high_descriptor(int fd);
/// Everything in the file from `offset` on, at most `limit` bytes.
std::string read_from(int fd, std::uint64_t offset, std::uint64_t limit);

}  // namespace quern::conformance
