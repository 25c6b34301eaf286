// See lane.hpp.
#include "lane.hpp"

#include "error.hpp"
#include "op.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>
#include <utility>

namespace quern::cuda {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Lane::Lane(Gpu& gpu) : gpu_(gpu), id_(next_id()) {
  const Current current(gpu.driver(), gpu.context());
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
}

Lane::~Lane() {
  if (gpu_.driver().cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return;
  close();
  Context ignored = nullptr;
  gpu_.driver().cuCtxPopCurrent_v2(&ignored);
}

void Lane::open() {
  const Driver& driver = gpu_.driver();
  driver.check(driver.cuStreamCreate(&stream_, constant::stream_non_blocking), "making a stream");
  for (Event& event : events_) driver.check(driver.cuEventCreate(&event, constant::event_no_timing), "making an event");
  mailbox_ = std::make_unique<Mailbox>(driver, gpu_.mirrors());
  slots_.reserve(most_slots);
  while (slots_.size() < least_slots) slots_.push_back({gpu_.slots().take()});
}

void Lane::close() noexcept {
  const Driver& driver = gpu_.driver();
  if (stream_ != nullptr) driver.cuStreamSynchronize(stream_);
  for (const Landing& landing : landings_) driver.cuMemFreeHost(landing.memory);
  mailbox_.reset();
  if (blas_workspace_ != 0) gpu_.release(blas_workspace_, Blas::workspace_bytes);
  for (const OwnSlot& own : slots_) gpu_.slots().give(own.slot);
  for (const Event event : events_)
    if (event != nullptr) driver.cuEventDestroy_v2(event);
  if (stream_ != nullptr) driver.cuStreamDestroy_v2(stream_);
}

std::uint64_t Lane::mark() {
  if (touched_) {
    const Driver& driver = gpu_.driver();
    const Current current(driver, gpu_.context());
    const std::uint64_t position = marked_ + 1;
    if (position > event_count && reached_ < position - event_count)  // its event has that one to tell
      driver.check(driver.cuEventSynchronize(event_of(position)), "waiting for the GPU");
    driver.check(driver.cuEventRecord(event_of(position), stream_), "marking work");
    marked_ = position;
    touched_ = false;
  }
  return here();
}

bool Lane::reached(std::uint64_t position) {
  if (position <= reached_) return true;
  if (position > marked_) return false;
  const Driver& driver = gpu_.driver();
  const Current current(driver, gpu_.context());
  const Result result = driver.cuEventQuery(event_of(position));
  if (result == constant::not_ready) return false;
  driver.check(result, "running on the GPU");
  reached_ = position;
  return true;
}

void Lane::hasten(std::uint64_t position) {
  if (position <= marked_) return;
  const Current current(gpu_.driver(), gpu_.context());
  deliver();
  mark();
}

void Lane::wait(std::uint64_t position, std::uint64_t nanoseconds) noexcept {
  using Clock = std::chrono::steady_clock;
  // A step of a small model takes less than this; who waits longer can be late by a small part of it.
  constexpr std::chrono::microseconds busy(20'000), pause(50);
  const Clock::time_point since = Clock::now(), until = since + std::chrono::nanoseconds(nanoseconds);
  const Driver& driver = gpu_.driver();
  if (driver.cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return;
  for (;;) {
    if (reached_ >= position || driver.cuEventQuery(event_of(position)) != constant::not_ready) break;
    const Clock::time_point now = Clock::now();
    if (now >= until) break;
    if (now - since < busy) std::this_thread::yield();
    else std::this_thread::sleep_for(pause);
  }
  Context ignored = nullptr;
  driver.cuCtxPopCurrent_v2(&ignored);
}

void Lane::synchronize(const char* what) {
  gpu_.driver().check(gpu_.driver().cuStreamSynchronize(stream_), what);
  reached_ = marked_;
}

bool Lane::renew() noexcept {
  const Driver& driver = gpu_.driver();
  if (driver.cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return false;
  const bool done = driver.cuStreamSynchronize(stream_) == constant::success;
  if (blas_workspace_ != 0) gpu_.release(std::exchange(blas_workspace_, 0), Blas::workspace_bytes);
  Context ignored = nullptr;
  driver.cuCtxPopCurrent_v2(&ignored);
  if (!done || !mailbox_->empty() || std::ranges::any_of(landings_, &Landing::taken)) return false;
  reached_ = marked_;
  touched_ = false;
  id_ = next_id();
  return true;
}

void Lane::deliver() {
  if (!mailbox_->empty()) Launcher(*this, false, slot()).deliver();
}

/// One more behind the last; false: there are as many as may be, or no pinned memory.
bool Lane::add_slot() {
  if (slots_.size() == most_slots) return false;
  Slot* slot = nullptr;
  try {
    slot = gpu_.slots().take();
  } catch (const Failure&) { return false; }
  slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(last_slot_) + 1, {slot});
  return true;
}

Slot& Lane::slot() {
  const std::size_t next = (last_slot_ + 1) % slots_.size();
  const std::uint64_t used = slots_[next].used;
  if (used > marked_) mark();
  if (reached(used)) {
    last_slot_ = next;
  } else if (add_slot()) {
    ++last_slot_;
  } else {
    gpu_.driver().check(gpu_.driver().cuEventSynchronize(event_of(used)), "waiting for the GPU");
    reached_ = used;
    last_slot_ = next;
  }
  slots_[last_slot_].used = marked_ + 1;
  return *slots_[last_slot_].slot;
}

DevicePointer Lane::blas_workspace() {
  if (blas_workspace_ == 0) blas_workspace_ = gpu_.allocate(Blas::workspace_bytes, "the workspace of cuBLASLt", true);
  return blas_workspace_;
}

std::byte* Lane::landing(std::uint64_t bytes) {
  for (Landing& landing : landings_)
    if (!landing.taken && landing.bytes >= bytes) {
      landing.taken = true;
      return landing.memory;
    }
  const std::uint64_t size = std::bit_ceil(std::max(bytes, least_landing));
  if (size > largest_landing || landing_bytes_ + size > most_landings) return nullptr;
  landings_.reserve(landings_.size() + 1);
  void* memory = nullptr;
  gpu_.driver().check(gpu_.driver().cuMemHostAlloc(&memory, size, 0), "taking pinned host memory");
  landing_bytes_ += size;
  landings_.push_back({static_cast<std::byte*>(memory), size, true});
  return landings_.back().memory;
}

void Lane::landed(const void* memory) noexcept {
  for (Landing& landing : landings_)
    if (landing.memory == memory) landing.taken = false;
}

}  // namespace quern::cuda
