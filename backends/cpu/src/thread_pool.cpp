// `generation` announces a loop to the workers and is what they sleep on; `gate` says who is inside it.
//
//   run():    write the loop, open the gate, generation + 1, wake sleepers, take parts, close the gate, wait until it is empty
//   worker(): spin on generation, else futex wait; enter the gate if it is open; take parts; leave
// The submitter waits only for workers that have entered: on a busy machine a loop never waits for a worker to be scheduled first.
// A worker reads the loop only between entering an open gate and leaving it, and the loop is written only while the gate
// is closed and empty.
//
// Each thread has a share of the parts, a range: it takes parts from its front, and when it is empty from the back of the others'. So a
// thread reads memory from front to back for as long as it can, which is what processors fetch ahead, and does as much as its speed allows.
#include "thread_pool.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>

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

/// The first allocation of a thread maps memory for all that follow, those of the dynamic linker for the thread's variables among them. A run
/// must not [C12], so each worker makes one when it begins.
void map_own_memory() noexcept {
  void* volatile block = std::malloc(64);
  std::free(block);
}

/// Parts begin .. end that nobody has taken, in one word.
class alignas(64) Share {
 public:
  void set(std::uint64_t begin, std::uint64_t end) noexcept { word_.store(begin << 32 | end, std::memory_order_relaxed); }
  /// A part, or -1 if none is left.
  std::int64_t take_front() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (begin(word) < end(word))
      if (word_.compare_exchange_weak(word, word + (std::uint64_t{1} << 32), std::memory_order_relaxed)) return begin(word);
    return -1;
  }
  std::int64_t take_back() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (begin(word) < end(word))
      if (word_.compare_exchange_weak(word, word - 1, std::memory_order_relaxed)) return end(word) - 1;
    return -1;
  }

 private:
  static std::int64_t begin(std::uint64_t word) noexcept { return static_cast<std::int64_t>(word >> 32); }
  static std::int64_t end(std::uint64_t word) noexcept { return static_cast<std::int64_t>(word & 0xffffffffu); }
  std::atomic<std::uint64_t> word_{0};
};
constexpr std::int64_t most_parts = 0x7fffffff;

}  // namespace

struct ThreadPool::State {
  pid_t owner = 0;
  alignas(64) std::atomic<std::uint32_t> tickets{0};  // of callers, in the order in which they came
  std::atomic<std::uint32_t> serving{0};              // the ticket whose turn it is
  alignas(64) std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::uint32_t> begun{0};  // workers that run
  std::atomic<bool> stop{false};
  std::vector<Share> shares;
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
  state_->shares = std::vector<Share>(size_);
  threads_.reserve(size_ - 1);
  try {
    for (std::uint32_t t = 1; t < size_; ++t) {
      threads_.emplace_back([this, t]() noexcept { worker(t); });
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
    threads_.clear();
    throw;
  }
  for (std::uint32_t begun = 0; (begun = state_->begun.load(std::memory_order_acquire)) + 1 < size_;) sleep_while(state_->begun, begun);
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->generation.fetch_add(1, std::memory_order_acq_rel);
  wake_all(state_->generation);
  threads_.clear();
}

bool ThreadPool::foreign_process() const noexcept { return state_->owner != getpid(); }

void ThreadPool::work(std::uint32_t thread) noexcept {
  State& s = *state_;
  std::uint32_t from = thread;
  for (;;) {
    std::int64_t part = from == thread ? s.shares[from].take_front() : s.shares[from].take_back();
    if (part < 0) {
      from = from + 1 == size_ ? 0 : from + 1;
      if (from == thread) return;
      continue;
    }
    if (s.cancelled != nullptr && s.cancelled->load(std::memory_order_relaxed) != 0) return;
    s.body(s.argument, part * s.grain, std::min(s.count, (part + 1) * s.grain), thread);
  }
}

void ThreadPool::worker(std::uint32_t thread) noexcept {
  State& s = *state_;
  map_own_memory();
  s.begun.fetch_add(1, std::memory_order_release);
  wake_all(s.begun);
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
    if (s.gate.fetch_sub(1, std::memory_order_seq_cst) == 1 && s.submitter_sleeps.load(std::memory_order_seq_cst) != 0) wake_all(s.gate);
  }
}

void ThreadPool::Turn::take() noexcept {
  if (held_) return;
  State& s = *pool_.state_;
  const std::uint32_t ticket = s.tickets.fetch_add(1, std::memory_order_seq_cst);
  length_ = slice;
  if (std::uint32_t serving = s.serving.load(std::memory_order_seq_cst); serving != ticket) {
    const auto asked = std::chrono::steady_clock::now();
    for (int i = 0; serving != ticket && i < spins; ++i) {
      pause();
      serving = s.serving.load(std::memory_order_acquire);
    }
    while (serving != ticket) {
      sleep_while(s.serving, serving);
      serving = s.serving.load(std::memory_order_seq_cst);
    }
    length_ = std::clamp<std::chrono::steady_clock::duration>(std::chrono::steady_clock::now() - asked, slice, 10 * slice);
  }
  held_ = true;
  awaited_ = false;
}

void ThreadPool::Turn::give_up() noexcept {
  if (!held_) return;
  held_ = false;
  State& s = *pool_.state_;
  const std::uint32_t next = s.serving.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (s.tickets.load(std::memory_order_seq_cst) != next) wake_all(s.serving);
}

void ThreadPool::Turn::share() noexcept {
  State& s = *pool_.state_;
  if (s.tickets.load(std::memory_order_relaxed) == s.serving.load(std::memory_order_relaxed) + 1) return;  // nobody waits
  const auto now = std::chrono::steady_clock::now();
  if (!awaited_) {
    awaited_ = true;
    since_ = now;
  } else if (now - since_ >= length_) {
    give_up();
  }
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, const std::atomic<std::uint32_t>* cancelled, Body body, const void* argument,
                     Turn& turn) noexcept {
  if (count <= 0) return;
  grain = std::max({std::int64_t{1}, grain, count / most_parts});
  if (size_ == 1 || count <= grain) {  // no other thread is needed, nor is a turn
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed) != 0) return;
      body(argument, begin, std::min(count, begin + grain), 0);
    }
    return;
  }
  turn.take();
  State& s = *state_;
  s.count = count;
  s.grain = grain;
  s.cancelled = cancelled;
  s.body = body;
  s.argument = argument;
  const auto parts = static_cast<std::uint64_t>((count + grain - 1) / grain);
  for (std::uint32_t t = 0; t < size_; ++t) s.shares[t].set(parts * t / size_, parts * (t + 1) / size_);  // published by opening the gate
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
  turn.share();
}

}  // namespace quern::cpu
