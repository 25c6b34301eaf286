// The calls that a device works through in order: copies, prepare and submit.
//
// On a SYNCHRONOUS device each is done when it returns. On any other it is enqueued on a queue of the plugin, with a point of a fence, and
// done when wait() returns. Callers do not ask which: they wait before they read what a call writes, and before they free what it names.
#pragma once

#include "abi_call.hpp"

#include "quern/loader/loader.hpp"
#include "quern/quern_plugin_api.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// What a device may write to after its host has given it up. Such memory is never freed.
class Kept {
 public:
  virtual ~Kept() = default;
  /// Keeps what a lost device may write to; frees what another device is done with.
  static void release(std::unique_ptr<Kept> memory, const loader::Device& device) noexcept;

 private:
  Kept* next_ = nullptr;
};

/// One queue and one fence of an open device. Any thread: calls of several threads are enqueued in some order.
class DeviceQueue {
 public:
  /// Throws Error with the plugin's code and text.
  explicit DeviceQueue(std::shared_ptr<loader::Device> device);
  /// Waits for what is in flight.
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  bool synchronous() const noexcept { return queue_ == nullptr; }

  /// `from` is the caller's again when it returns: a small one is copied, a large one is waited for.
  void upload(const quern_span& to, std::span<const std::byte> from);
  /// `from` has to stay until it was waited for.
  void upload_lasting(const quern_span& to, std::span<const std::byte> from);
  /// `to` is filled when wait() returned.
  void download(std::span<std::byte> to, const quern_span& from);
  /// Between ranges of the device that lie apart. Only where the plugin has `copy`.
  void copy(const quern_span& to, const quern_span& from, std::uint64_t bytes);
  /// Whole words of 4 bytes. Only where the plugin has `fill`.
  void fill(const quern_span& to, std::uint32_t pattern);
  /// `what` names the call for the user.
  void prepare(const quern_array& entries, std::string_view what);
  /// One run after the other. Their statuses are filled when wait() returned. `error` is for the text of a run's failure, where the device
  /// is synchronous.
  void submit(std::span<quern_run> runs, std::string_view what, AbiError& error);
  void pack(const quern_weight_item& item, const quern_array& sources, const quern_array& destinations, std::string_view what);

  /// Stands for all that was enqueued so far.
  std::uint64_t last() const noexcept { return enqueued_.load(std::memory_order_acquire); }
  /// Returns when all up to `point` is done. Throws Error with the plugin's code and text where the device is lost. A device that ends nothing for
  /// ten minutes, or for one behind a cancel, counts as lost from then on: Error(QUERN_DEVICE_LOST).
  void wait(std::uint64_t point);
  void wait() { wait(last()); }
  /// The runs in flight were cancelled, or no longer are. Safe in a signal handler.
  void expect_end(bool cancelled) noexcept { cancelled_ = cancelled; }
  /// Nobody waits for the downloads in flight any longer: what they name on the host may go.
  void forget_results() noexcept;
  /// As wait(), before memory is freed that work in flight may name: a lost device does no more work.
  void drain() noexcept;

 private:
  template <typename Call>
  void enqueue(std::string_view what, AbiError& error, const Call& call);
  template <typename Call>
  void enqueue(std::string_view what, const Call& call);
  template <typename Call>
  void enqueue_locked(std::string_view what, AbiError& error, const Call& call);
  void check(const AbiError& error, quern_status status, std::string_view what) const;
  std::span<std::byte> stage(std::span<const std::byte> from);
  quern_status call_upload(const quern_span& to, std::span<const std::byte> from, const quern_sync* sync, quern_error* error);

  void download_piece(std::span<std::byte> to, const quern_span& from);
  void require_there() const;
  void land(std::uint64_t reached) noexcept;
  [[noreturn]] void lose(std::string_view since) const;

  /// Room for sources of uploads in flight. One half is filled while the device reads the other.
  struct Staging {
    std::vector<std::byte> memory;
    std::size_t used = 0;
    std::uint64_t last = 0;  // point of the last upload from it
  };
  /// Where the device writes a download, so that it never has the address of what its caller may free.
  struct Landing {
    std::vector<std::byte> memory;
    std::span<std::byte> to;  // empty: nobody waits for it
    std::uint64_t point = 0;  // 0: free
  };
  struct Rooms : Kept {
    std::array<Staging, 2> staging;
    std::vector<Landing> landings;
  };

  std::shared_ptr<loader::Device> device_;
  quern_queue* queue_ = nullptr;
  quern_fence* fence_ = nullptr;
  std::mutex mutex_;  // one thread at a time uses the queue [C28]
  std::atomic<std::uint64_t> enqueued_{0}, done_{0};
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<Rooms> rooms_;
  std::size_t filled_ = 0;    // half of the staging
  std::mutex landing_mutex_;  // for the landings, and for done_ to grow behind them
};

}  // namespace quern::runtime
