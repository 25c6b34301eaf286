// A file mapped read-only.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quern::gguf {

class Mapping {
 public:
  /// Maps the whole of a regular file. Never waits: a FIFO, a socket or a device is refused at once.
  /// Throws Error as File::open does.
  static Mapping open(const std::string& path);

  /// Bytes of the caller, not owned.
  static Mapping borrow(std::span<const std::byte> bytes) noexcept { return Mapping(bytes, false); }

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// All zeros for borrowed bytes.
  const FileStamp& stamp() const noexcept { return stamp_; }

  /// Lets go of the resident pages that lie wholly inside [offset, offset + count); nothing for borrowed
  /// bytes.
  void drop_pages(std::uint64_t offset, std::uint64_t count) const noexcept;

 private:
  Mapping(std::span<const std::byte> bytes, bool owned, FileStamp stamp = {}) noexcept : bytes_(bytes), owned_(owned), stamp_(stamp) {}

  std::span<const std::byte> bytes_;
  bool owned_ = false;
  FileStamp stamp_;
};

}  // namespace quern::gguf
