// What a call of the C API looks at before it begins: the process, the thread's stack, and the callback that it may come from.
//
// Fork. A child has the parent's memory and none of its other threads. A handle that owns threads, locks or a device knows its process:
// calls on it answer QUERN_FORKED in any other, and its release frees what memory can be freed there. If another thread was in
// a call when fork() was called, that call's data may be half written and its locks are held for ever: then the release does nothing.
//
// Callbacks. A callback runs below a call of its own thread. The log's may run with any lock of ours held, so it gets QUERN_BUSY for all that
// is not plain memory. A handle that is released in a callback lives on until the calls of this thread end that use it.
#pragma once

#include "quern/quern_status.h"

#include <atomic>
#include <cstddef>
#include <utility>

#include <unistd.h>

namespace quern::c_api {

/// How much stack a call must find. What each was measured to take, and where that is tested: tests/runtime/small_stack_test.cpp.
enum class Needs {
  little,  // copies what is there
  text,    // tokenizers, templates, JSON: what recurses in them looks at the stack itself
  work     // the CPU's plugin too; a call that comes to a driver asks for stack_for_a_driver itself
};

/// One call of the C API, on the calling thread's list of them for as long as it runs.
class Call {
 public:
  Call() noexcept;
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Throws Error: QUERN_BUSY in a callback of the log, QUERN_HOST_OUT_OF_MEMORY on a stack that is too small.
  static void check(Needs needs);
};

/// True inside a callback of any kind, on the thread that it was called on.
bool in_callback() noexcept;

/// Marks a callback, so that what it calls knows. `log`: locks of ours may be held.
class Callback {
 public:
  explicit Callback(bool log = false) noexcept;
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  /// Throws Error(QUERN_FORKED) where the callback came back in a child of the process that it was called in.
  void require_same_process() const;

 private:
  bool log_;
  pid_t process_ = getpid();
};

/// Calls back; the answer is the callback's. Throws Error(QUERN_FORKED) as above.
template <typename Function, typename... Arguments>
auto call_back(Function* function, Arguments&&... arguments) {
  const Callback callback;
  const auto answer = function(std::forward<Arguments>(arguments)...);
  callback.require_same_process();
  return answer;
}

/// What a handle has that owns threads, locks or a device.
class Owner {
 public:
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  virtual ~Owner() = default;

  /// Throws Error(QUERN_FORKED) in another process than the one that made the handle.
  void require_same_process(const char* what) const;

  /// Keeps the handle through a call that calls back: a release in between takes effect at the end.
  class Use {
   public:
    explicit Use(Owner* owner) noexcept : owner_(owner) { owner_->users_.fetch_add(1, std::memory_order_relaxed); }
    ~Use() { owner_->drop(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Owner* owner_;
  };
  /// What the C API's release functions do; null is fine.
  static void release(Owner* owner) noexcept;

 private:
  friend class Call;
  friend class Callback;
  void drop() noexcept;
  static void release_postponed() noexcept;

  std::atomic<std::uint32_t> users_{1};
  Owner* next_ = nullptr;  // of those that were released in a callback of the log
  pid_t process_ = getpid();
};

}  // namespace quern::c_api
