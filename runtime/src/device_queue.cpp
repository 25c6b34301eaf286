// See device_queue.hpp.
#include "device_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace quern::runtime {
namespace {

constexpr std::size_t staging_bytes = 128 << 10;
constexpr std::size_t landing_bytes = 4 << 20;             // of one download; larger ones come in pieces
constexpr std::uint64_t wait_nanoseconds = 1'000'000'000;  // then asked again: a step of a prompt may take minutes

using Clock = std::chrono::steady_clock;
// A call of the largest prompts takes seconds on a card, and minutes where a driver computes on the processor.
constexpr Clock::duration longest_call = std::chrono::minutes(10), longest_behind_cancel = std::chrono::minutes(1);

}  // namespace

void Kept::release(std::unique_ptr<Kept> memory, const loader::Device& device) noexcept {
  static std::atomic<Kept*> all{nullptr};
  if (!device.lost() || memory == nullptr) return;
  Kept* const kept = memory.release();
  kept->next_ = all.load();
  while (!all.compare_exchange_weak(kept->next_, kept)) {}
}

DeviceQueue::DeviceQueue(std::shared_ptr<loader::Device> device) : device_(std::move(device)) {
  if ((device_->info().caps & QUERN_CAP_SYNCHRONOUS) != 0) return;
  rooms_ = std::make_unique<Rooms>();
  for (Staging& half : rooms_->staging) half.memory.resize(staging_bytes);
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
  Kept::release(std::move(rooms_), *device_);
  if (device_->lost()) return;
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
  require_there();
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
  if (from.size() > staging_bytes - rooms_->staging[filled_].used) {
    filled_ = 1 - filled_;
    wait(rooms_->staging[filled_].last);
    rooms_->staging[filled_].used = 0;
  }
  Staging& half = rooms_->staging[filled_];
  const auto copy = std::span(half.memory).subspan(half.used, from.size());
  std::memcpy(copy.data(), from.data(), from.size());
  half.used += from.size();
  half.last = last() + 1;
  return copy;
}

quern_status DeviceQueue::call_upload(const quern_span& to, std::span<const std::byte> from, const quern_sync* sync, quern_error* error) {
  return device_->call<&quern_plugin_api::upload>(device_->handle(), queue_, &to, from.data(), from.size(), sync, error);
}

void DeviceQueue::upload_lasting(const quern_span& to, std::span<const std::byte> from) {
  enqueue("upload", [&](const quern_sync* sync, quern_error* error) { return call_upload(to, from, sync, error); });
}

void DeviceQueue::upload(const quern_span& to, std::span<const std::byte> from) {
  if (synchronous()) return upload_lasting(to, from);
  bool staged = false;
  {
    const std::scoped_lock lock(mutex_);
    const std::span<std::byte> copy = stage(from);
    staged = !copy.empty();
    AbiError error;
    enqueue_locked("upload", error,
                   [&](const quern_sync* sync, quern_error* out) { return call_upload(to, staged ? copy : from, sync, out); });
  }
  if (!staged) wait();
}

void DeviceQueue::download(std::span<std::byte> to, const quern_span& from) {
  if (synchronous())
    return enqueue("download", [&](const quern_sync* sync, quern_error* error) {
      return device_->call<&quern_plugin_api::download>(device_->handle(), queue_, to.data(), &from, to.size(), sync, error);
    });
  for (std::size_t at = 0; at < to.size(); at += landing_bytes) {
    const std::span<std::byte> piece = to.subspan(at, std::min(landing_bytes, to.size() - at));
    if (at > 0) wait();
    download_piece(piece, {from.buffer, from.host, from.offset + at, piece.size()});
  }
}

void DeviceQueue::download_piece(std::span<std::byte> to, const quern_span& from) {
  const std::scoped_lock lock(mutex_);
  std::size_t at = 0;
  std::byte* there = nullptr;
  {
    const std::scoped_lock landing_lock(landing_mutex_);
    std::vector<Landing>& landings = rooms_->landings;
    const auto free = std::ranges::find(landings, 0u, &Landing::point);
    at = static_cast<std::size_t>(free - landings.begin());
    if (free == landings.end()) landings.emplace_back();
    if (landings[at].memory.size() < to.size()) landings[at].memory.resize(to.size());
    landings[at].point = UINT64_MAX;  // taken
    landings[at].to = {};
    there = landings[at].memory.data();
  }
  const auto set = [&](std::uint64_t point) {
    const std::scoped_lock landing_lock(landing_mutex_);
    rooms_->landings[at].point = point;
    rooms_->landings[at].to = to;
  };
  try {
    AbiError error;
    enqueue_locked("download", error, [&](const quern_sync* sync, quern_error* out) {
      return device_->call<&quern_plugin_api::download>(device_->handle(), queue_, there, &from, to.size(), sync, out);
    });
  } catch (...) {
    set(0);
    throw;
  }
  set(last());
}

void DeviceQueue::copy(const quern_span& to, const quern_span& from, std::uint64_t bytes) {
  enqueue("copy", [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::copy>(device_->handle(), queue_, &to, &from, bytes, sync, error);
  });
}

void DeviceQueue::fill(const quern_span& to, std::uint32_t pattern) {
  enqueue("fill", [&](const quern_sync* sync, quern_error* error) {
    return device_->call<&quern_plugin_api::fill>(device_->handle(), queue_, &to, pattern, to.bytes, sync, error);
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

/// The device is done with all up to there: what was downloaded goes to where it belongs.
void DeviceQueue::land(std::uint64_t reached) noexcept {
  const std::scoped_lock lock(landing_mutex_);
  for (Landing& landing : rooms_->landings) {
    if (landing.point == 0 || landing.point > reached) continue;
    if (!landing.to.empty()) std::memcpy(landing.to.data(), landing.memory.data(), landing.to.size());
    landing.point = 0;
  }
  if (done_ < reached) done_.store(reached, std::memory_order_release);
}

void DeviceQueue::forget_results() noexcept {
  if (synchronous()) return;
  const std::scoped_lock lock(landing_mutex_);
  for (Landing& landing : rooms_->landings) landing.to = {};
}

void DeviceQueue::require_there() const {
  if (device_->lost())
    throw Error(QUERN_DEVICE_LOST,
                concat(device_->label(), ": it counts as lost, since it did not end what it was given; end the program"));
}

void DeviceQueue::lose(std::string_view since) const {
  device_->lose(device_);
  throw Error(QUERN_DEVICE_LOST, concat(device_->label(), ": it ended no call for ", since,
                                        ", and counts as lost from now on; its memory stays taken, so end the program"));
}

void DeviceQueue::wait(std::uint64_t point) {
  if (done_.load(std::memory_order_acquire) >= point) return;
  const loader::OpenCall on_record = device_->on_record<&quern_plugin_api::fence_wait>();
  const quern_point last{fence_, point};
  const quern_array points{&last, 1, sizeof last};
  AbiError error;
  std::uint64_t reached = 0;
  bool cancelled = false;
  Clock::time_point since = Clock::now();
  try {
    for (;;) {
      require_there();
      const quern_status status =
          device_->call<&quern_plugin_api::fence_wait>(device_->handle(), &points, 0, wait_nanoseconds, error.out());
      if (status == QUERN_OK) break;
      if (status != QUERN_TIMEOUT) check(error, status, "waiting for it");
      std::uint64_t now = reached;
      if (device_->api().fence_query != nullptr)
        check(error, device_->call<&quern_plugin_api::fence_query>(fence_, &now, error.out()), "waiting for it");
      if (now != reached || cancelled != cancelled_) {
        reached = now;
        cancelled = cancelled_;
        since = Clock::now();
      } else if (Clock::now() - since >= (cancelled ? longest_behind_cancel : longest_call)) {
        lose(cancelled ? "a minute behind a cancel" : "ten minutes");
      }
    }
  } catch (...) {
    forget_results();
    throw;
  }
  land(point);
}

void DeviceQueue::drain() noexcept {
  try {
    wait();
  } catch (...) {}  // the call that follows has the error too
}

}  // namespace quern::runtime
