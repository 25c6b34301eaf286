// `generation` announces a loop to the workers and is what they sleep on; `gate` says who is inside it.
//
//   run():    write the loop, open the gate, generation + 1, wake sleepers, take parts, close the gate, wait until it is empty
//   worker(): spin on generation, else futex wait; enter the gate if it is open; take parts; leave
// The submitter waits only for workers that have entered: on a busy machine a loop never waits for a worker to be scheduled first.
// A worker reads the loop only between entering an open gate and leaving it, and the loop is written only while the gate
// is closed and empty.
#include "thread_pool.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quern::cpu {
namespace {

// Spins of about 15 us in all: longer than the gap between two loops of a plan, far shorter than a time slice.
constexpr int spins = 600;
constexpr std::uint32_t open_bit = 0x80000000u;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct ThreadPool::State {
  std::mutex serial;  // one loop at a time
  pid_t owner = 0;
  alignas(64) std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<std::int64_t> next{0};
  alignas(64) std::atomic<std::uint32_t> gate{0};  // open_bit, and how many workers are inside
  std::atomic<std::uint32_t> submitter_sleeps{0};
  std::int64_t count = 0, grain = 1;
  const std::atomic<std::uint32_t>* cancelled = nullptr;
  Body body = nullptr;
  const void* argument = nullptr;
};

ThreadPool::ThreadPool(std::uint32_t size, std::span<const std::uint32_t> affinity)
    : size_(std::max<std::uint32_t>(1, size)), state_(std::make_unique<State>()) {
  state_->owner = getpid();
  threads_.reserve(size_ - 1);
  try {
    for (std::uint32_t t = 1; t < size_; ++t) {
      threads_.emplace_back([this, t] { worker(t); });
      pthread_setname_np(threads_.back().native_handle(), "quern-cpu");
      if (t < affinity.size() && affinity[t] < CPU_SETSIZE) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(affinity[t], &set);
        pthread_setaffinity_np(threads_.back().native_handle(), sizeof(set), &set);  // a wrong number leaves it unpinned
      }
    }
  } catch (...) {
    state_->stop.store(true);
    state_->generation.fetch_add(1);
    wake_all(state_->generation);
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (foreign_process()) {  // the threads were not copied by fork: nothing to join
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  state_->stop.store(true, std::memory_order_release);
  state_->generation.fetch_add(1, std::memory_order_acq_rel);
  wake_all(state_->generation);
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::foreign_process() const noexcept { return state_->owner != getpid(); }

void ThreadPool::work(std::uint32_t thread) noexcept {
  State& s = *state_;
  for (;;) {
    const std::int64_t begin = s.next.fetch_add(s.grain, std::memory_order_relaxed);
    if (begin >= s.count) return;
    if (s.cancelled != nullptr && s.cancelled->load(std::memory_order_relaxed) != 0) return;
    s.body(s.argument, begin, std::min(s.count, begin + s.grain), thread);
  }
}

void ThreadPool::worker(std::uint32_t thread) noexcept {
  State& s = *state_;
  std::uint32_t seen = 0;
  for (;;) {
    std::uint32_t now = s.generation.load(std::memory_order_acquire);
    for (int i = 0; now == seen && i < spins; ++i) {
      pause();
      now = s.generation.load(std::memory_order_acquire);
    }
    while (now == seen) {
      s.sleepers.fetch_add(1, std::memory_order_seq_cst);
      if (s.generation.load(std::memory_order_seq_cst) == seen) sleep_while(s.generation, seen);
      s.sleepers.fetch_sub(1, std::memory_order_relaxed);
      now = s.generation.load(std::memory_order_acquire);
    }
    seen = now;
    if (s.stop.load(std::memory_order_acquire)) return;
    if ((s.gate.fetch_add(1, std::memory_order_seq_cst) & open_bit) != 0) work(thread);
    if (s.gate.fetch_sub(1, std::memory_order_seq_cst) == 1 && s.submitter_sleeps.load(std::memory_order_seq_cst) != 0)
      wake_all(s.gate);
  }
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, const std::atomic<std::uint32_t>* cancelled, Body body,
                     const void* argument) noexcept {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(1, grain);
  if (size_ == 1 || count <= grain) {  // no other thread is needed, nor is the pool's lock
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed) != 0) return;
      body(argument, begin, std::min(count, begin + grain), 0);
    }
    return;
  }
  State& s = *state_;
  const std::lock_guard lock(s.serial);
  s.count = count;
  s.grain = grain;
  s.cancelled = cancelled;
  s.body = body;
  s.argument = argument;
  s.next.store(0, std::memory_order_relaxed);  // published by opening the gate
  s.gate.fetch_or(open_bit, std::memory_order_seq_cst);
  s.generation.fetch_add(1, std::memory_order_seq_cst);
  if (s.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(s.generation);
  work(0);
  std::uint32_t inside = s.gate.fetch_and(~open_bit, std::memory_order_seq_cst) & ~open_bit;
  for (int i = 0; inside != 0 && i < spins; ++i) {
    pause();
    inside = s.gate.load(std::memory_order_acquire);
  }
  while (inside != 0) {
    s.submitter_sleeps.store(1, std::memory_order_seq_cst);
    inside = s.gate.load(std::memory_order_seq_cst);
    if (inside != 0) sleep_while(s.gate, inside);
    inside = s.gate.load(std::memory_order_seq_cst);
  }
  s.submitter_sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace quern::cpu
