// The plugin's own threads: a parallel loop with short spins and futex sleeps.
//
// One pool a plugin handle. The thread that calls run() is thread 0; size() - 1 more wait for work: they spin for a few
// microseconds, because the next loop of a plan starts at once, then sleep, so that an idle session costs nothing. A thread begins with
// a share of neighbouring parts and then helps the others, so that one that loses its core holds up one part only. Sessions on one handle
// take turns of a few milliseconds, first come first served, so that as many threads compute as the pool has: changing after every loop
// costs a wake-up each, and computing at once would leave more threads than processors.
#pragma once

#include "quern/sdk/thread.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace quern::cpu {

class ThreadPool {
 public:
  using Body = void (*)(const void* body, std::int64_t begin, std::int64_t end, std::uint32_t thread);

  /// What a caller holds from loop to loop: taken by its first loop, given up at the end, and handed on between two loops when another
  /// caller has waited for `slice`, or for as long as this one had waited before if that is more (up to ten slices): so a session of
  /// short loops gets half of the time beside one of long loops. For one thread; not to be held while it waits for another caller.
  class Turn {
   public:
    explicit Turn(ThreadPool& pool) noexcept : pool_(pool) {}
    ~Turn() { give_up(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class ThreadPool;
    void take() noexcept;
    void give_up() noexcept;
    void share() noexcept;  // between two loops

    ThreadPool& pool_;
    bool held_ = false, awaited_ = false;
    std::chrono::steady_clock::time_point since_;  // when this turn saw that another caller waits
    std::chrono::steady_clock::duration length_;   // from then on
  };
  static constexpr std::chrono::milliseconds slice{4};

  /// `size` threads with the caller's, >= 1. affinity: processors of the threads 1 .. size - 1 are affinity[1] ..; empty: not pinned.
  /// Throws std::system_error if threads cannot be started.
  ThreadPool(std::uint32_t size, std::span<const std::uint32_t> affinity);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t size() const noexcept { return size_; }
  /// Calls body for parts of [0, count) of at most `grain` items; skips parts once *cancelled is not 0. Allocates nothing. The turn is
  /// the caller's.
  void run(std::int64_t count, std::int64_t grain, const std::atomic<std::uint32_t>* cancelled, Body body, const void* argument,
           Turn& turn) noexcept;
  /// The same, with a turn for this loop alone.
  void run(std::int64_t count, std::int64_t grain, const std::atomic<std::uint32_t>* cancelled, Body body, const void* argument) noexcept {
    Turn turn(*this);
    run(count, grain, cancelled, body, argument, turn);
  }
  /// True when this process is not the one that made the pool (after fork): no call but the destructor may follow, which then waits for
  /// nobody, since the threads were not copied.
  bool foreign_process() const noexcept;

 private:
  struct State;
  void worker(std::uint32_t thread) noexcept;
  void work(std::uint32_t thread) noexcept;

  std::uint32_t size_;
  std::unique_ptr<State> state_;
  std::vector<sdk::Thread> threads_;
};

}  // namespace quern::cpu
