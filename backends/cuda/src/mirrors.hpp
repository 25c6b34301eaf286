// Copies of small outputs in mapped host memory: a run's last kernel writes them, and a download of them is a memcpy.
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"

#include <memory>
#include <vector>

namespace quern::cuda {

class Mirrors {
 public:
  explicit Mirrors(const Driver& driver);
  ~Mirrors();
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;

  /// Memory for the copy of an output. It holds what the output is once a lane has reached the point, unless that lane went on.
  struct Mirror {
    Address from = 0;  // in device memory
    std::uint32_t bytes = 0;
    void* host = nullptr;
    Address device = 0;      // of `host`
    std::uint64_t lane = 0;  // whose run writes it; 0: it is not up to date
    std::uint64_t point = 0;
  };
  /// Null when there is no more.
  Mirror* add(Address from, std::uint32_t bytes);
  void remove(Mirror* mirror) noexcept;
  /// The host's copy of these bytes as they are behind that point of a lane, or null.
  const void* find(Address from, std::uint64_t bytes, std::uint64_t lane, std::uint64_t point) const noexcept;
  /// Device memory in this range changes by other means.
  void forget(Address from, std::uint64_t bytes) noexcept;

 private:
  static constexpr std::uint32_t mirror_bytes = 4096, mirror_count = 64;

  const Driver& driver_;
  std::byte* memory_ = nullptr;
  Address device_ = 0;
  std::vector<std::unique_ptr<Mirror>> list_;
};

}  // namespace quern::cuda
