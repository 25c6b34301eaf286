// Large uploads: host memory is copied to pinned memory by several threads, and fetched from there by the card meanwhile.
//
// Memory that is not pinned the driver copies itself, with one thread. To pin memory takes longer than to copy as much: it is taken once the driver
// has copied that much, and threads with it. A card that gets few weights never has them.
#pragma once

#include "driver.hpp"

#include "quern/sdk/thread.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace quern::cuda {

class Staging {
 public:
  static constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  static constexpr unsigned most_threads = 8;

  /// `threads`: that may copy, the caller's included. `warn` is told, once, that there is no pinned memory.
  Staging(const Driver& driver, Context context, unsigned threads, std::function<void(const std::string&)> warn);
  /// As give_back().
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns when `from` is no longer needed; the last pieces may still be on their way then, in front of all that the stream gets later.
  /// False, and nothing is done: no more than a piece, too little so far, or no pinned memory. The context is current; one call at a time.
  /// Throws Failure for what the driver refuses: what `to` holds then is not known, and nothing is on its way.
  bool upload(DevicePointer to, const void* from, std::uint64_t bytes, Stream stream);
  /// What is pinned, in bytes, once it is taken.
  std::uint64_t memory_bytes() const noexcept { return lanes_.size() * std::size(lanes_.front().pieces) * piece_bytes; }
  /// Waits for what is on its way and gives memory and threads back; later uploads take them anew. The context is current.
  void give_back() noexcept;

 private:
  struct Piece {
    std::byte* memory = nullptr;
    Event fetched = nullptr;  // by the card: it may be filled again
  };
  /// What one thread fills by turns: one piece while the card fetches the other.
  struct Lane {
    Piece pieces[2];
    unsigned next = 0;
  };
  bool take(std::uint64_t bytes);
  void take_memory();
  void start_helpers();
  void help(Lane& lane);
  void work(Lane& lane, std::unique_lock<std::mutex>& lock);
  void send(Lane& lane, std::uint64_t at, std::uint64_t bytes);

  const Driver& driver_;
  Context context_;
  std::function<void(const std::string&)> warn_;
  std::byte* memory_ = nullptr;
  std::uint64_t left_to_driver_ = 0;  // bytes of large uploads since there is no memory
  bool refused_ = false;
  std::vector<Lane> lanes_;  // one a thread, the first of the caller
  std::vector<sdk::Thread> helpers_;

  std::mutex mutex_;  // of all below
  std::condition_variable begun_, ended_;
  DevicePointer to_ = 0;
  const std::byte* from_ = nullptr;
  Stream stream_ = nullptr;
  std::uint64_t bytes_ = 0, next_ = 0;  // of the upload; of them are taken by a thread
  unsigned working_ = 0;                // threads that have a piece
  std::exception_ptr failure_;          // the first
  bool ending_ = false;
};

}  // namespace quern::cuda
