// Memory of one device: owned ranges, and the copies that reach them.
//
// A device under QUERN_CAP_HOST_MEMORY has plain host memory; every other has plugin buffers, reached by upload and download.
// The rest of the runtime does not know which.
#pragma once

#include "device_queue.hpp"

#include "quern/loader/loader.hpp"
#include "quern/quern_plugin_api.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace quern::runtime {

/// What the arenas of a device hold, in bytes. One writer at a time per counter is not needed: they are atomics.
struct MemoryStatistics {
  std::uint64_t in_use = 0;
  std::uint64_t peak = 0;
  std::uint64_t allocations = 0;
};

class MemoryBudget;

/// One allocation on one device. Move-only; freed with the object. Not zeroed unless asked.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::uint64_t bytes() const noexcept { return bytes_; }
  /// The range [offset, offset + bytes) as the ABI names it.
  quern_span span(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  quern_span span() const noexcept { return span(0, bytes_); }
  /// Host address, or null where the device has its own memory.
  std::byte* host() const noexcept { return host_; }

  /// Done when they return.
  void write(std::uint64_t offset, std::span<const std::byte> from);
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  void fill_zero();
  /// The same behind what `queue` has: the bytes are there for the calls that follow on it, and `to` is filled when the queue is waited for.
  /// Host memory is reached at once, so first all of the queue is waited for.
  void write(DeviceQueue& queue, std::uint64_t offset, std::span<const std::byte> from);
  void read(DeviceQueue& queue, std::uint64_t offset, std::span<std::byte> to) const;
  /// Between ranges that lie apart; on the device, where its plugin copies there.
  void copy_within(DeviceQueue& queue, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

 private:
  friend class MemoryBudget;
  std::shared_ptr<MemoryBudget> budget_;
  std::byte* host_ = nullptr;
  quern_buffer* buffer_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::byte* mapping_ = nullptr;  // which host_ lies in
  std::uint64_t mapped_ = 0;      // bytes of it
};

/// Allocates on one device under a limit, and counts. Any thread.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// limit 0: none. Throws Error where the device's plugin makes no queue.
  MemoryBudget(std::shared_ptr<loader::Device> device, std::uint64_t limit);
  ~MemoryBudget();

  /// Throws Error(QUERN_OUT_OF_MEMORY) naming device, use, requested and available bytes.
  Memory allocate(std::uint64_t bytes, std::uint32_t usage, const char* what);
  /// Counts and owns a host mapping that somebody else made, read-only perhaps: all of it from `offset` on. Only for host memory. Throws
  /// as allocate, for the limit; the mapping is then the caller's still.
  Memory adopt(std::byte* mapping, std::uint64_t mapped_bytes, std::uint64_t offset, const char* what);
  /// Counts what somebody else allocates there, for as long as the object lives: what a plan keeps for itself. Throws as allocate, for the limit.
  Memory reserve(std::uint64_t bytes, const char* what);
  MemoryStatistics statistics() const;
  std::uint64_t limit() const noexcept { return limit_; }
  const std::shared_ptr<loader::Device>& device() const noexcept { return device_; }
  bool host_memory() const noexcept;
  /// For copies that belong to no program; each is waited for.
  DeviceQueue& queue() noexcept { return queue_; }

 private:
  friend class Memory;
  void release(Memory& memory) noexcept;
  std::uint64_t count(std::uint64_t bytes, const char* what);
  void own(Memory& memory, std::uint64_t bytes, std::uint64_t before);
  struct Counters;
  std::shared_ptr<loader::Device> device_;
  std::uint64_t limit_;
  std::unique_ptr<Counters> counters_;
  DeviceQueue queue_;
};

}  // namespace quern::runtime
