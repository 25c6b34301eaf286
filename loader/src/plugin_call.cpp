// See plugin_call.hpp.
#include "quern/loader/plugin_call.hpp"

#include "fault_notes.hpp"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <new>

namespace quern::loader {

/// One call of one thread. A cache line, so that threads do not wait for each other's.
struct alignas(64) Slot {
  std::atomic<std::uintptr_t> thread{0};  // 0: free
  std::atomic<const CallTarget*> target{nullptr};
  std::atomic<const char*> name{nullptr};
  std::atomic<std::uint64_t> calls{0};  // made here so far
};

namespace {

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");

constexpr std::size_t slot_count = 256;
std::array<Slot, slot_count> slots;

std::uintptr_t this_thread() noexcept { return static_cast<std::uintptr_t>(pthread_self()); }

/// Where a thread begins to look for a free slot. Its nested calls stand behind each other from there.
std::size_t first_slot(std::uintptr_t thread) noexcept { return (thread >> 12) % slot_count; }

bool read_slot(std::size_t at, std::uintptr_t own, OpenCallInfo& out) noexcept {
  const Slot& slot = slots[at];
  const std::uintptr_t thread = slot.thread.load();
  const std::uint64_t calls = slot.calls.load();
  const CallTarget* target = slot.target.load();
  const char* name = slot.name.load();
  if (thread == 0 || target == nullptr || name == nullptr || slot.calls.load() != calls) return false;
  out = {target, name, calls * slot_count + at, thread == own};
  return true;
}

/// What the program watches for prints of plugins.
struct Watch {
  std::atomic<int> file{-1};
  std::atomic<PrintedSink> told{nullptr};
  std::atomic<void*> user{nullptr};
  std::atomic_flag busy;
};
constinit Watch watch;

void look_for_prints(const Slot& slot, std::size_t at) noexcept {
  const int file = watch.file.load(std::memory_order_acquire);
  if (file < 0) return;
  std::fflush(stdout);  // what the C library holds back for a file
  struct stat info {};
  if (::fstat(file, &info) != 0 || info.st_size == 0 || watch.busy.test_and_set()) return;
  std::array<char, 4096> text{};
  const ssize_t bytes = ::pread(file, text.data(), text.size(), 0);
  const bool taken = ::ftruncate(file, 0) == 0 && ::lseek(file, 0, SEEK_SET) == 0;
  watch.busy.clear();
  const PrintedSink told = watch.told;
  if (bytes <= 0 || !taken || told == nullptr) return;
  const OpenCallInfo call{slot.target.load(), slot.name.load(), slot.calls.load() * slot_count + at, true};
  told(watch.user, call, text.data(), static_cast<std::uint64_t>(bytes));
}

struct Targets {
  struct Node {
    CallTarget target;
    const Node* next;
  };
  std::mutex mutex;
  const Node* first = nullptr;
};

/// The child has none of its parent's other threads, and their calls never return there.
void forget_other_threads() noexcept {
  for (Slot& slot : slots) {
    const std::uintptr_t thread = slot.thread.load();
    if (thread == 0 || thread == this_thread()) continue;
    slot.target = nullptr;
    slot.thread = 0;
  }
}

static_assert(std::is_trivially_destructible_v<Targets>, "it stays for handlers that run at the very end");
constinit Targets all;

/// A fork never copies the mutex while it is held.
void guard_forks() {
  static const int registered = pthread_atfork([] { all.mutex.lock(); }, [] { all.mutex.unlock(); },
                                               [] {
                                                 all.mutex.unlock();
                                                 forget_other_threads();
                                               });
  if (registered != 0) throw std::bad_alloc();
}

}  // namespace

const CallTarget& call_target(const CallTexts& texts) {
  guard_forks();
  const std::lock_guard lock(all.mutex);
  for (const Targets::Node* node = all.first; node != nullptr; node = node->next)
    if (static_cast<const CallTexts&>(node->target) == texts) return node->target;
  all.first = new Targets::Node{CallTarget(texts), all.first};
  return all.first->target;
}

void suspect_call(const CallTarget& target, const std::string& name) {
  static constexpr const char* names[] = {
#define QUERN_PLUGIN_CALL(name) #name,
#include "quern/loader/plugin_calls.def"
#undef QUERN_PLUGIN_CALL
      load_call, query_call};
  for (const char* known : names)
    if (name == known) target.suspect = known;
}

void forget_passed_fault(const std::string& path) noexcept {
  const std::lock_guard lock(all.mutex);
  for (const Targets::Node* node = all.first; node != nullptr; node = node->next) {
    const CallTarget& target = node->target;
    if (target.path != path || !target.passed.exchange(false)) continue;
    target.suspect = nullptr;
    if (!target.fault_file.empty()) ::unlink(target.fault_file.c_str());
  }
}

OpenCall::OpenCall(const CallTarget& target, const char* name) noexcept : slot_(nullptr) {
  const std::uintptr_t own = this_thread();
  for (std::size_t i = 0, at = first_slot(own); i < slot_count; ++i, at = (at + 1) % slot_count) {
    std::uintptr_t free = 0;
    if (slots[at].thread.load(std::memory_order_relaxed) != 0 || !slots[at].thread.compare_exchange_strong(free, own)) continue;
    slot_ = &slots[at];
    slot_->calls.store(slot_->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    slot_->name.store(name, std::memory_order_relaxed);
    slot_->target.store(&target, std::memory_order_release);
    return;
  }
}

OpenCall::~OpenCall() {
  if (slot_ == nullptr) return;
  look_for_prints(*slot_, static_cast<std::size_t>(slot_ - slots.data()));
  slot_->target.store(nullptr, std::memory_order_release);
  slot_->thread.store(0, std::memory_order_release);
}

bool read_open_call(std::uint64_t index, OpenCallInfo& out) noexcept {
  const std::uintptr_t own = this_thread();
  const std::size_t start = first_slot(own);
  for (const bool of_own : {true, false})
    for (std::size_t i = slot_count; i-- > 0;)
      if (OpenCallInfo found; read_slot((start + i) % slot_count, own, found) && found.this_thread == of_own && index-- == 0) {
        out = found;
        return true;
      }
  return false;
}

void watch_output(int file, PrintedSink told, void* user) noexcept {
  watch.file = -1;
  watch.told = told;
  watch.user = user;
  watch.file.store(file, std::memory_order_release);
}

bool keep_fault(const CallTarget& target, const char* name, FaultKind kind, int signal) noexcept {
  return write_fault(target.fault_file.c_str(), {target.identity.c_str(), target.device.c_str(), name, kind, signal});
}

}  // namespace quern::loader
