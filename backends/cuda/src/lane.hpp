// One stream of a card: what is enqueued there is done in its order, and how far it has come can be asked.
//
// Positions number points of the stream. One is made by an event, and only where work was enqueued since the last. Small writes wait in the lane's
// mailbox for the next work; their position is that work's.
#pragma once

#include "mailbox.hpp"

#include <array>
#include <atomic>

namespace quern::cuda {

class Gpu;

/// Under Gpu::order(), but for wait() and id().
class Lane {
 public:
  explicit Lane(Gpu& gpu);
  /// Waits for the stream.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Gpu& gpu() noexcept { return gpu_; }
  Stream stream() const noexcept { return stream_; }
  Mailbox& mailbox() noexcept { return *mailbox_; }
  /// Of no other lane of the process, also of none before; another one after renew().
  std::uint64_t id() const noexcept { return id_; }

  /// Work was enqueued on the stream.
  void touch() noexcept { touched_ = true; }
  /// Behind all that was asked so far, small writes included.
  std::uint64_t mark();
  /// The last position where nothing was enqueued since; else one that is to come.
  std::uint64_t here() const noexcept { return marked_ + (touched_ || !mailbox_->empty() ? 1 : 0); }
  bool reached(std::uint64_t position);
  /// Delivers small writes that wait, if the position stands for them.
  void hasten(std::uint64_t position);
  /// Returns when the position is reached, the time is over or the card has failed. Without the lock.
  void wait(std::uint64_t position, std::uint64_t nanoseconds) noexcept;
  /// Waits for the stream. Throws Failure for what went wrong on the device.
  void synchronize(const char* what);
  /// Waits for the stream, and makes the lane one for another queue, which keeps its pinned memory. False: it has to end.
  bool renew() noexcept;

  /// Brings small writes to their places.
  void deliver();
  /// Of the lane itself, for kernels of no instance; its page is free. Waits for the card where many are in use.
  Slot& slot();
  /// Memory for cuBLASLt, taken at the first call.
  DevicePointer blas_workspace();

  /// Pinned memory for a download; null where so much is not kept. landed() gives it back.
  std::byte* landing(std::uint64_t bytes);
  void landed(const void* memory) noexcept;

 private:
  static constexpr std::size_t event_count = 128, least_slots = 2, most_slots = 16;
  static constexpr std::uint64_t least_landing = 64 << 10, largest_landing = 4 << 20, most_landings = 32 << 20;  // bytes
  struct Landing {
    std::byte* memory;
    std::uint64_t bytes;
    bool taken;
  };
  struct OwnSlot {
    Slot* slot = nullptr;
    std::uint64_t used = 0;  // position behind the last copy of its page
  };
  Event event_of(std::uint64_t position) const noexcept { return events_[position % event_count]; }
  void open();
  void close() noexcept;
  bool add_slot();

  Gpu& gpu_;
  std::uint64_t id_;
  Stream stream_ = nullptr;
  std::unique_ptr<Mailbox> mailbox_;
  std::array<Event, event_count> events_{};
  std::uint64_t marked_ = 0;
  std::atomic<std::uint64_t> reached_{0};
  bool touched_ = false;
  std::vector<OwnSlot> slots_;  // by turns
  std::size_t last_slot_ = 0;
  DevicePointer blas_workspace_ = 0;
  std::vector<Landing> landings_;
  std::uint64_t landing_bytes_ = 0;
};

}  // namespace quern::cuda
