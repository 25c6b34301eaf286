// Device memory: small requests share blocks, large ones have their own.
#pragma once

#include "card.hpp"

#include <atomic>
#include <map>
#include <mutex>

namespace quern::vulkan {

class MemoryPool;

/// A piece of device memory; given back when it ends.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Memory();

  explicit operator bool() const noexcept { return pool_ != nullptr; }
  std::uint64_t address() const noexcept { return address_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Where the processor sees it, or null.
  std::byte* mapped() const noexcept { return mapped_; }
  VkBuffer buffer() const noexcept { return buffer_; }
  std::uint64_t offset() const noexcept { return offset_; }  // in the buffer

 private:
  friend class MemoryPool;
  void swap(Memory& other) noexcept;
  MemoryPool* pool_ = nullptr;
  std::uint64_t block_ = 0;  // its address
  std::uint64_t address_ = 0, offset_ = 0, bytes_ = 0;
  std::byte* mapped_ = nullptr;
  VkBuffer buffer_ = VK_NULL_HANDLE;
};

class MemoryPool {
 public:
  /// `families`: of the queues that use it.
  MemoryPool(const Calls& calls, VkDevice device, std::vector<std::uint32_t> families, std::uint32_t type, bool mapped,
             std::uint64_t largest)
      : calls_(calls), device_(device), families_(std::move(families)), type_(type), mapped_(mapped), largest_(largest) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Throws Failure(OUT_OF_MEMORY) with requested and available bytes. `budget`: what may be used in all.
  Memory take(std::uint64_t bytes, std::uint64_t budget, const char* what);
  std::uint64_t used() const noexcept { return used_; }
  /// The buffer around an address and the offset in it; the processor's view of it, or null.
  std::byte* locate(std::uint64_t address, VkBuffer& buffer, std::uint64_t& offset) const;

 private:
  friend class Memory;
  struct Block {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::uint64_t bytes = 0;
    std::byte* mapped = nullptr;
    bool shared = false;
    sdk::FreeRanges ranges;
    std::uint64_t taken = 0;
  };
  std::uint64_t add_block(std::uint64_t bytes, bool shared, const char* what);
  void drop(std::uint64_t address);
  void give(Memory& memory) noexcept;

  const Calls& calls_;
  VkDevice device_;
  std::vector<std::uint32_t> families_;
  std::uint32_t type_;
  bool mapped_;
  std::uint64_t largest_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;  // by address
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace quern::vulkan
