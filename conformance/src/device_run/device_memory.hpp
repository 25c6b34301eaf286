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

/// One open device as its raw handles: the loader's, or one that a script opened with a host of its own. Cheap to copy; what it names
/// outlives it.
class DeviceRef {
 public:
  DeviceRef(const loader::Device& device)  // NOLINT(google-explicit-constructor): wherever memory is made, either will do
      : api_(&device.api()),
        plugin_(device.plugin()->handle()),
        device_(device.handle()),
        caps_(device.info().caps),
        alignment_(device.info().memory_alignment),
        class_(device.info().device_class) {}
  DeviceRef(const quern_plugin_api& api, quern_plugin* plugin, quern_device* device, const quern_device_info& info)
      : api_(&api), plugin_(plugin), device_(device), caps_(info.caps), alignment_(info.memory_alignment), class_(info.device_class) {}

  const quern_plugin_api& api() const noexcept { return *api_; }
  quern_plugin* plugin() const noexcept { return plugin_; }
  quern_device* handle() const noexcept { return device_; }
  std::uint64_t memory_alignment() const noexcept { return alignment_; }
  std::uint32_t device_class() const noexcept { return class_; }
  bool synchronous() const noexcept { return (caps_ & QUERN_CAP_SYNCHRONOUS) != 0; }
  bool host_memory() const noexcept { return (caps_ & QUERN_CAP_HOST_MEMORY) != 0; }
  std::uint64_t caps() const noexcept { return caps_; }

 private:
  const quern_plugin_api* api_;
  quern_plugin* plugin_;
  quern_device* device_;
  std::uint64_t caps_, alignment_;
  std::uint32_t class_;
};

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
  explicit Queue(DeviceRef device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  quern_queue* get() const noexcept { return queue_; }
  /// Signals the next point; null where the device is synchronous. Valid until the next call.
  const quern_sync* next_signal();
  /// The point that next_signal() gave last will not come: the call that it was for was refused.
  void withdraw_signal() noexcept {
    if (fence_ != nullptr) --value_;
  }
  /// Waits for the last point that was handed out. Throws AbiFailure(QUERN_TIMEOUT) after `seconds`.
  void wait(double seconds);

  /// From now on small writes are not waited for: what follows on the queue sees them. Their sources are kept until the next wait. A wait is a
  /// turn on the device, which processes take one after another.
  void write_ahead() noexcept { writes_ahead_ = true; }
  /// From now on small copies are not waited for one by one, but all at settle(), or where there are many. Who reads keeps the place until then.
  void gather() noexcept { gathers_ = true; }
  void settle();
  /// Waits for copies that were not waited for; a failure is told by the next call.
  void quiet() noexcept;
  enum class Copy { write, read };
  /// Whether a copy of so many bytes is waited for later; defer() counts it.
  bool defers(Copy kind, std::uint64_t bytes);
  void defer() noexcept { ++deferred_; }
  bool has_deferred() const noexcept { return deferred_ != 0; }
  /// Where a write that is deferred finds its source.
  const void* keep(const void* from, std::uint64_t bytes);

 private:
  DeviceRef device_;
  bool gathers_ = false, writes_ahead_ = false;
  std::size_t deferred_ = 0;
  std::vector<std::vector<std::byte>> kept_;
  quern_queue* queue_ = nullptr;
  quern_fence* fence_ = nullptr;
  std::uint64_t value_ = 0;
  quern_point point_{};
  quern_sync sync_{};
};

/// Enqueues by `call(sync, error)`. Throws AbiFailure naming `name`. Where the queue is full of copies that were not waited for, they are, once.
template <class Call>
void enqueue(Queue& queue, const char* name, const Call& call) {
  constexpr double seconds = 60;
  AbiError error;
  quern_status status = call(queue.next_signal(), error.get());
  if (status != QUERN_OK) queue.withdraw_signal();
  if (status == QUERN_BUSY && queue.has_deferred()) {
    queue.wait(seconds);
    status = call(queue.next_signal(), error.get());
    if (status != QUERN_OK) queue.withdraw_signal();
  }
  error.check(status, name);
}

/// What memory holds before a run, one for each of two runs: NaN in every float dtype; a small number.
inline constexpr std::byte poisons[] = {std::byte{0xff}, std::byte{0xa5}};

/// One buffer for several regions, as values of a session lie in one arena. Regions read and write a copy here, and the whole is brought to the
/// device and back: each copy of a device is a submit, which costs more than the bytes of a small case.
class Slab {
 public:
  Slab(DeviceRef device, Queue& queue) : device_(device), queue_(queue) {}
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Once, when all regions are there.
  void allocate();
  void send();   // to the device
  void fetch();  // and back

 private:
  friend class Region;
  /// Room for a region of so many bytes, canaries included; where it begins.
  std::uint64_t add(std::uint64_t bytes, std::uint64_t alignment);

  DeviceRef device_;
  Queue& queue_;
  std::vector<std::byte> here_;
  quern_buffer* buffer_ = nullptr;
};

/// `bytes` of device memory between two canaries of 4 KiB, all filled with a poison at first.
class Region {
 public:
  /// `shifted`: starts memory_alignment behind a multiple of 4 KiB, so that nothing but that alignment can be relied on.
  /// `Guard::page`, under HOST_MEMORY: ends before a page that no one may read, as near as the alignment allows. The canary behind is then what
  /// lies between; a read behind the page's start is a crash.
  enum class Guard { canary, page };
  Region(DeviceRef device, Queue& queue, std::uint64_t bytes, std::uint64_t alignment, bool shifted, Guard guard = Guard::canary);
  Region(Slab& slab, std::uint64_t bytes, bool shifted);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  quern_span span() const noexcept;  // exactly bytes()
  void write(std::span<const std::byte> data);
  void fill(std::byte value);
  std::vector<std::byte> read();
  void read_to(std::span<std::byte> data);  // the first of its bytes
  /// Whether it holds exactly these bytes; looks at a part at a time.
  bool holds(std::span<const std::byte> data);
  /// Empty if both canaries are whole, else where the first changed byte lies.
  std::string canary_damage();

 private:
  friend class Contents;
  void place(std::uint64_t step, bool shifted);
  void map_before_closed_page(std::uint64_t step);
  void mark();
  void upload(std::uint64_t offset, const void* from, std::uint64_t bytes);
  void download(std::uint64_t offset, void* to, std::uint64_t bytes);

  DeviceRef device_;
  Queue& queue_;
  std::uint64_t bytes_, start_ = 0, total_ = 0, behind_;  // behind_: of the canary there
  std::uint64_t mapped_ = 0;                              // with the closed page; 0: memory of the heap, or a buffer
  std::align_val_t host_alignment_{};
  quern_buffer* buffer_ = nullptr;
  std::byte* host_ = nullptr;
  Slab* slab_ = nullptr;
};

/// What a region holds behind a run. Of a small one it is brought with the canaries by one download, since each download of a device is a submit;
/// of a large one the canaries are, and the rest by parts, as it is asked for. Look again behind the next write. Made while the queue gathers, it is
/// there once that has settled.
class Contents {
 public:
  explicit Contents(Region& region);

  std::vector<std::byte> read() const;
  void read_to(std::span<std::byte> data) const;
  bool holds(std::span<const std::byte> data) const;
  bool begins_with(std::span<const std::byte> data) const;
  std::string canary_damage() const;

 private:
  std::span<const std::byte> values() const;

  Region& region_;
  bool whole_;
  std::vector<std::byte> bytes_;  // from the first byte of the canary before it to the last of the one behind; of a large one both canaries
};

}  // namespace quern::conformance
