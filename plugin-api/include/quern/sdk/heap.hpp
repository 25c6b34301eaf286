// A heap whose use is counted exactly, for devices whose memory nobody else takes.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_HEAP_HPP
#define QUERN_SDK_HEAP_HPP

#include "quern/sdk/structs.hpp"

#include <atomic>
#include <utility>

namespace quern {
namespace sdk {

class CountedHeap {
 public:
  explicit CountedHeap(std::uint64_t total) : total_(total) {}
  CountedHeap(const CountedHeap&) = delete;
  CountedHeap& operator=(const CountedHeap&) = delete;

  /// Bytes that count as used until it ends.
  class Share {
   public:
    Share(Share&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(heap_, other.heap_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (heap_ != nullptr) heap_->used_ -= bytes_;
    }

   private:
    friend class CountedHeap;
    Share(CountedHeap& heap, std::uint64_t bytes) noexcept : heap_(&heap), bytes_(bytes) {}
    CountedHeap* heap_;
    std::uint64_t bytes_;
  };

  /// Throws Failure(QUERN_OUT_OF_MEMORY) with the numbers beyond the heap's size or limit.
  Share take(std::uint64_t bytes) {
    const std::uint64_t most = budget();
    std::uint64_t used = used_;
    do {
      if (bytes > most || used > most - bytes) {
        Failure failure(QUERN_OUT_OF_MEMORY, concat(bytes, " bytes asked for, ", used, " of ", most, " in use"));
        failure.requested = bytes;
        failure.available = used > most ? 0 : most - used;
        failure.heap = 0;
        throw failure;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes));
    return Share(*this, bytes);
  }
  void limit(std::uint64_t bytes) noexcept { limit_ = bytes; }
  std::uint64_t budget() const noexcept { return std::min(total_, limit_.load()); }
  quern_heap_info info(std::uint32_t flags) const noexcept {
    quern_heap_info info = made<quern_heap_info>();
    info.flags = flags;
    info.total_figure = info.budget_figure = info.used_figure = QUERN_FIGURE_EXACT;
    info.total = total_;
    info.budget = budget();
    info.used = used_;
    return info;
  }

 private:
  const std::uint64_t total_;
  std::atomic<std::uint64_t> limit_{UINT64_MAX}, used_{0};
};

}  // namespace sdk
}  // namespace quern

#endif
