// See device_queue.hpp.
#include "device_queue.hpp"

#include <algorithm>
#include <cstring>

namespace quern::runtime {
namespace {

constexpr std::size_t staging_bytes = 128 << 10;
constexpr std::uint64_t wait_nanoseconds = 1'000'000'000;  // then asked again: a step of a prompt may take minutes

}  // namespace

DeviceQueue::DeviceQueue(std::shared_ptr<loader::Device> device) : device_(std::move(device)) {
  if ((device_->info().caps & QUERN_CAP_SYNCHRONOUS) != 0) return;
  for (Staging& half : staging_) half.memory.resize(staging_bytes);
  AbiError error;
  check(error, device_->call<&quern_plugin_api::queue_create>(device_->handle(), QUERN_QUEUE_COMPUTE, &queue_, error.out()),
        "making a queue");
  const quern_status status = device_->call<&quern_plugin_api::fence_create>(device_->handle(), 0, 0, &fence_, error.out());
  if (status != QUERN_OK) device_->call<&quern_plugin_api::queue_destroy>(queue_, nullptr);  // a constructor that throws has no destructor
  check(error, status, "making a fence");
}

DeviceQueue::~DeviceQueue() {
  if (synchronous()) return;
  drain();
  device_->call<&quern_plugin_api::fence_destroy>(fence_, nullptr);
  device_->call<&quern_plugin_api::queue_destroy>(queue_, nullptr);
}

void DeviceQueue::check(const AbiError& error, quern_status status, std::string_view what) const {
  if (status != QUERN_OK) error.check(status, concat(device_->label(), ": ", what));
}

template <typename Call>
void DeviceQueue::enqueue(std::string_view what, AbiError& error, const Call& call) {
  if (synchronous()) return check(error, call(nullptr, error.out()), what);
  const std::scoped_lock lock(mutex_);
  enqueue_locked(what, error, call);
}

template <typename Call>
void DeviceQueue::enqueue(std::string_view what, const Call& call) {
  AbiError error;
  enqueue(what, error, call);
}

template <typename Call>
void DeviceQueue::enqueue_locked(std::string_view what, AbiError& error, const Call& call) {
  const std::uint64_t before = last();
  const quern_point point{fence_, before + 1};
  quern_sync sync{};
  sync.header = {sizeof sync, QUERN_TYPE_SYNC, nullptr};
  sync.signal = {&point, 1, sizeof point};
  quern_status status = call(&sync, error.out());
  if (status == QUERN_BUSY && done_ < before) {  // the queue is full, or so many runs of the instance are in flight
    wait(before);
    status = call(&sync, error.out());
  }
  check(error, status, what);
  enqueued_.store(point.value, std::memory_order_release);
}

/// A copy of `from` that stays until its upload is done; empty where that needs more than a half.
std::span<std::byte> DeviceQueue::stage(std::span<const std::byte> from) {
  if (from.size() > staging_bytes) return {};
  if (from.size() > staging_bytes - staging_[filled_].used) {
    filled_ = 1 - filled_;
    wait(staging_[filled_].last);
    staging_[filled_].used = 0;
  }
  Staging& half = staging_[filled_];
  const auto copy = std::span(half.memory).subspan(half.used, from.size());
  std::memcpy(copy.data(), from.data(), from.size());
  half.used += from.size();
  half.last = last() + 1;
  return copy;
}

void DeviceQueue::upload(const quern_span& to, std::span<const std::byte> from) {
  const auto call = [&](const std::byte* source) {
    return [this, &to, source, bytes = from.size()](const quern_sync* sync, quern_error* error) {
      return device_->call<&quern_plugin_api::upload>(device_->handle(), queue_, &to, source, bytes, sync, error);
    };
  };
  if (synchronous()) return enqueue("upload", call(from.data()));
  bool staged = false;
  {
    const std::scoped_lock lock(mutex_);
    const std::span<std::byte> copy = stage(from);
    staged = !copy.empty();
    AbiError error;
    enqueue_locked("upload", error, call(staged ? copy.data() : from.data()));
  }
  if (!staged) wait();
}

void DeviceQueue::download(std::span<std::byte> to, const quern_span& from) {
  enqueue("download", [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::download>(device_->handle(), queue_, to.data(), &from, to.size(), sync, error);
  });
}

void DeviceQueue::copy(const quern_span& to, const quern_span& from, std::uint64_t bytes) {
  enqueue("copy", [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::copy>(device_->handle(), queue_, &to, &from, bytes, sync, error);
  });
}

void DeviceQueue::prepare(const quern_array& entries, std::string_view what) {
  enqueue(what, [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::prepare>(device_->handle(), queue_, &entries, sync, error);
  });
}

void DeviceQueue::submit(std::span<quern_run> runs, std::string_view what, AbiError& error) {
  const quern_array list{runs.data(), runs.size(), sizeof(quern_run)};
  error.clear();
  enqueue(what, error, [&](const quern_sync* sync, quern_error* out) {
    runs.back().sync = sync;
    return device_->call<&quern_plugin_api::submit>(device_->handle(), queue_, &list, out);
  });
}

void DeviceQueue::pack(const quern_weight_item& item, const quern_array& sources, const quern_array& destinations, std::string_view what) {
  enqueue(what, [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::weights_pack>(device_->handle(), queue_, &item, &sources, &destinations, sync, error);
  });
}

void DeviceQueue::wait(std::uint64_t point) {
  if (done_.load(std::memory_order_acquire) >= point) return;
  const quern_point last{fence_, point};
  const quern_array points{&last, 1, sizeof last};
  AbiError error;
  quern_status status = QUERN_TIMEOUT;
  while (status == QUERN_TIMEOUT)
    status = device_->call<&quern_plugin_api::fence_wait>(device_->handle(), &points, 0, wait_nanoseconds, error.out());
  check(error, status, "waiting for it");
  std::uint64_t before = done_.load();
  while (before < point && !done_.compare_exchange_weak(before, point)) {}
}

void DeviceQueue::drain() noexcept {
  try {
    wait();
  } catch (...) {}  // the call that follows has the error too
}

}  // namespace quern::runtime
