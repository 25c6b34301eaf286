// See call.hpp.
#include "call.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/stack.hpp"

#include <pthread.h>

namespace quern::c_api {
namespace {

// Of this thread.
thread_local std::uint32_t calls = 0;          // inside each other
thread_local std::uint32_t callbacks = 0;      // of any kind
thread_local std::uint32_t log_callbacks = 0;  // among them
thread_local Owner* postponed = nullptr;       // releases, until its outermost call ends

// Of the process.
std::atomic<std::int64_t> threads_in_calls{0};
std::atomic<bool> left_behind{false};              // a parent's other threads were in calls when it forked
std::atomic<Owner*> postponed_elsewhere{nullptr};  // releases on threads that are in no call: until any call ends
std::atomic<pid_t> watched{0};                     // the process that the above is about; another: fork was not seen (a bare system call)

void after_fork_in_child() {
  const std::int64_t own = calls > 0 ? 1 : 0;
  if (threads_in_calls.exchange(own) != own) left_behind = true;
  watched = getpid();
}

[[maybe_unused]] const bool watches = [] {
  watched = getpid();
  return pthread_atfork(nullptr, nullptr, after_fork_in_child) == 0;
}();

constexpr std::size_t kib = 1024;
constexpr std::size_t stack_of(Needs needs) {
  switch (needs) {
    case Needs::little: return frame_scale * 8 * kib;
    case Needs::text: return frame_scale * 64 * kib;
    case Needs::work: return frame_scale * 96 * kib;
  }
  return 0;
}

}  // namespace

Call::Call() noexcept {
  if (calls++ == 0) threads_in_calls.fetch_add(1, std::memory_order_relaxed);
}

Call::~Call() {
  if (--calls > 0) return;
  threads_in_calls.fetch_sub(1, std::memory_order_relaxed);
  Owner::release_postponed();
}

void Call::check(Needs needs) {
  if (log_callbacks > 0 && needs != Needs::little) {
    throw Error(
        QUERN_BUSY,
        "this was called in a callback of the log, which may run in the middle of anything; call it after the callback has returned");
  }
  require_stack(stack_of(needs), "this call");
}

bool in_callback() noexcept { return callbacks > 0; }

Callback::Callback(bool log) noexcept : log_(log) {
  ++callbacks;
  if (log_) ++log_callbacks;
}

Callback::~Callback() {
  --callbacks;
  if (log_) --log_callbacks;
}

void Callback::require_same_process() const {
  if (process_ == getpid()) return;
  throw Error(QUERN_FORKED, "fork() was called in a callback, and the child cannot finish its parent's call");
}

void Owner::require_same_process(const char* what) const {
  if (process_ == getpid()) return;
  throw Error(QUERN_FORKED, concat("the ", what, " was made before fork(), by process ", process_,
                                   "; make a runtime in the child and load the model there"));
}

void Owner::release(Owner* owner) noexcept {
  if (owner == nullptr) return;
  if (log_callbacks > 0 && calls > 0) {
    owner->next_ = std::exchange(postponed, owner);
    return;
  }
  if (log_callbacks > 0) {
    owner->next_ = postponed_elsewhere.load(std::memory_order_relaxed);
    while (!postponed_elsewhere.compare_exchange_weak(owner->next_, owner, std::memory_order_release, std::memory_order_relaxed)) {}
    return;
  }
  owner->drop();
}

void Owner::drop() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const pid_t here = getpid();
  if (process_ != here && (left_behind || watched != here)) return;  // a lock of it may be held by a thread that is gone
  delete this;
}

void Owner::release_postponed() noexcept {
  while (postponed != nullptr) std::exchange(postponed, postponed->next_)->drop();
  if (postponed_elsewhere.load(std::memory_order_relaxed) == nullptr) return;
  for (Owner* owner = postponed_elsewhere.exchange(nullptr, std::memory_order_acquire); owner != nullptr;)
    std::exchange(owner, owner->next_)->drop();
}

}  // namespace quern::c_api
