// Device memory from one range of addresses that is reserved once: memory is mapped where it is taken, stays mapped for the next taker
// while little of it is idle, and goes back to the driver piece by piece. Addresses never move, so captured graphs stay valid.
#pragma once

#include "driver.hpp"

#include "quern/sdk/scratch.hpp"

#include <map>
#include <mutex>

namespace quern::cuda {

class Pool {
 public:
  /// The card's context is current, here and in every call. `memory`: of the card.
  Pool(const Driver& driver, int card, std::uint64_t memory);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Address, a multiple of 512; or 0 where the card has no memory for it. Throws Failure for any other refusal of the driver.
  DevicePointer take(std::uint64_t bytes, const char* what);
  void give(DevicePointer memory, std::uint64_t bytes) noexcept;
  /// Gives back to the driver what nobody has.
  void trim() noexcept;

  struct Statistics {
    std::uint64_t taken = 0, mapped = 0;  // bytes; what is mapped and nobody has is idle
    std::uint64_t most_mapped = 0;
  };
  Statistics statistics() const noexcept;

  static constexpr std::uint64_t alignment = 512, most_idle = std::uint64_t{64} << 20, largest_piece = std::uint64_t{64} << 20;

 private:
  struct Piece {
    std::uint64_t bytes, taken;
    MemoryHandle handle;
  };
  bool map(std::uint64_t from, std::uint64_t to, const char* what);
  void count(std::uint64_t from, std::uint64_t to, bool takes) noexcept;
  void unmap_idle() noexcept;

  const Driver& driver_;
  int card_;
  std::uint64_t grain_ = 0, reserved_ = 0;
  DevicePointer base_ = 0;
  mutable std::mutex mutex_;
  sdk::FreeRanges ranges_;                 // offsets
  std::map<std::uint64_t, Piece> pieces_;  // mapped, by offset
  Statistics statistics_;
};

}  // namespace quern::cuda
