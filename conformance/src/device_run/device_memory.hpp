// Memory of the device under test, host or device side, with canaries around each region.
#pragma once

#include "quern/loader/loader.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <vector>

namespace quern::conformance {

/// A call of the ABI that did not answer OK. what() has the call, the code and the plugin's own words.
class AbiFailure : public std::runtime_error {
 public:
  AbiFailure(quern_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  quern_status status() const noexcept { return status_; }

 private:
  quern_status status_;
};

/// A quern_error with room for its text. Not movable: the struct points into it.
class AbiError {
 public:
  AbiError();
  AbiError(const AbiError&) = delete;
  AbiError& operator=(const AbiError&) = delete;
  quern_error* get() noexcept { return &error_; }
  std::string text() const;
  /// Throws AbiFailure naming `call` unless status is OK.
  void check(quern_status status, const char* call) const;

 private:
  char buffer_[1024] = {};
  quern_error error_{};
};

/// Queue and fence of an open device, or nothing where it is SYNCHRONOUS. One thread.
class Queue {
 public:
  explicit Queue(const loader::Device& device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  quern_queue* get() const noexcept { return queue_; }
  /// Signals the next point; null where the device is synchronous. Valid until the next call.
  const quern_sync* next_signal();
  /// Waits for the last point that was handed out. Throws AbiFailure(QUERN_TIMEOUT) after `seconds`.
  void wait(double seconds);

 private:
  const loader::Device& device_;
  quern_queue* queue_ = nullptr;
  quern_fence* fence_ = nullptr;
  std::uint64_t value_ = 0;
  quern_point point_{};
  quern_sync sync_{};
};

/// What memory holds before a run, one for each of two runs: NaN in every float dtype; a small number.
inline constexpr std::byte poisons[] = {std::byte{0xff}, std::byte{0xa5}};

/// `bytes` of device memory between two canaries of 4 KiB, all filled with a poison at first.
class Region {
 public:
  /// `shifted`: starts memory_alignment behind a multiple of 4 KiB, so that nothing but that alignment can be relied on.
  Region(const loader::Device& device, Queue& queue, std::uint64_t bytes, std::uint64_t alignment, bool shifted);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  quern_span span() const noexcept;  // exactly bytes()
  void write(std::span<const std::byte> data);
  void fill(std::byte value);
  std::vector<std::byte> read();
  /// Empty if both canaries are whole, else where the first changed byte lies.
  std::string canary_damage();

 private:
  void upload(std::uint64_t offset, const void* from, std::uint64_t bytes);
  void download(std::uint64_t offset, void* to, std::uint64_t bytes);

  const loader::Device& device_;
  Queue& queue_;
  std::uint64_t bytes_, start_ = 0, total_ = 0;
  std::align_val_t host_alignment_{};
  quern_buffer* buffer_ = nullptr;
  std::byte* host_ = nullptr;
};

}  // namespace quern::conformance
