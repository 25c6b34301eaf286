// See staging.hpp.
#include "staging.hpp"

#include "error.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace quern::cuda {

Staging::Staging(const Driver& driver, Context context, unsigned threads, std::function<void(const std::string&)> warn)
    : driver_(driver), context_(context), warn_(std::move(warn)), lanes_(std::clamp(threads, 1u, most_threads)) {
  helpers_.reserve(lanes_.size() - 1);
}

Staging::~Staging() { give_back(); }

bool Staging::upload(DevicePointer to, const void* from, std::uint64_t bytes, Stream stream) {
  if (bytes <= piece_bytes || !take(bytes)) return false;
  std::unique_lock lock(mutex_);
  to_ = to;
  stream_ = stream;
  from_ = static_cast<const std::byte*>(from);
  bytes_ = bytes;
  next_ = 0;
  begun_.notify_all();
  work(lanes_.front(), lock);
  ended_.wait(lock, [this] { return working_ == 0; });
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr); failure != nullptr) {
    driver_.cuStreamSynchronize(stream_);  // a piece that was sent may have no event
    std::rethrow_exception(failure);
  }
  return true;
}

/// Whether there is memory for an upload of so many bytes.
bool Staging::take(std::uint64_t bytes) {
  if (memory_ != nullptr) return true;
  if (refused_) return false;
  if (left_to_driver_ + bytes < memory_bytes()) {
    left_to_driver_ += bytes;
    return false;
  }
  try {
    take_memory();
  } catch (const Failure& failure) {
    give_back();
    refused_ = true;
    warn_(concat("uploads go through the driver's own copy, which is slower: ", failure.text));
    return false;
  } catch (...) {
    give_back();
    throw;
  }
  start_helpers();
  return true;
}

void Staging::take_memory() {
  void* memory = nullptr;
  driver_.check(driver_.cuMemHostAlloc(&memory, memory_bytes(), 0), "taking pinned host memory");
  memory_ = static_cast<std::byte*>(memory);
  std::byte* at = memory_;
  for (Lane& lane : lanes_)
    for (Piece& piece : lane.pieces) {
      driver_.check(driver_.cuEventCreate(&piece.fetched, constant::event_no_timing), "making an event");
      piece.memory = std::exchange(at, at + piece_bytes);
    }
}

void Staging::start_helpers() {
  try {
    while (helpers_.size() + 1 < lanes_.size()) helpers_.emplace_back([this, &lane = lanes_[helpers_.size() + 1]] { help(lane); });
  } catch (const std::system_error&) {  // no more threads: those that there are do the work
  } catch (const std::bad_alloc&) {}
}

void Staging::give_back() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  helpers_.clear();
  ending_ = false;
  left_to_driver_ = 0;
  if (memory_ == nullptr) return;
  for (Lane& lane : lanes_)
    for (Piece& piece : lane.pieces)
      if (const Event event = std::exchange(piece.fetched, nullptr); event != nullptr) {
        driver_.cuEventSynchronize(event);
        driver_.cuEventDestroy_v2(event);
      }
  driver_.cuMemFreeHost(std::exchange(memory_, nullptr));
}

void Staging::help(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [this] { return ending_ || next_ < bytes_; });
    if (ending_) return;
    work(lane, lock);
  }
}

/// Takes pieces of the upload until none is left. Copies without the lock.
void Staging::work(Lane& lane, std::unique_lock<std::mutex>& lock) {
  while (next_ < bytes_) {
    const std::uint64_t at = next_, bytes = std::min(piece_bytes, bytes_ - at);
    next_ += bytes;
    ++working_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      send(lane, at, bytes);
    } catch (...) { failure = std::current_exception(); }
    lock.lock();
    --working_;
    if (failure != nullptr) {
      next_ = bytes_;  // the rest is not begun
      if (failure_ == nullptr) failure_ = std::move(failure);
    }
  }
  if (working_ == 0) ended_.notify_one();
}

void Staging::send(Lane& lane, std::uint64_t at, std::uint64_t bytes) {
  const Current current(driver_, context_);  // contexts are current in one thread each
  Piece& piece = lane.pieces[lane.next];
  lane.next = 1 - lane.next;
  driver_.check(driver_.cuEventSynchronize(piece.fetched), "upload");
  std::memcpy(piece.memory, from_ + at, bytes);
  driver_.check(driver_.cuMemcpyHtoDAsync_v2(to_ + at, piece.memory, bytes, stream_), "upload");
  driver_.check(driver_.cuEventRecord(piece.fetched, stream_), "upload");
}

}  // namespace quern::cuda
