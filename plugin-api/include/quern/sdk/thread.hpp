// A thread of a library: it survives its owner's fork, has room on its stack, and leaves the host's signals to the host.
//
// std::thread is not for libraries. After fork() the child has the object and not the thread, and joining or detaching that throws in a
// destructor. Its stack is what `ulimit -s` says, 128 KiB perhaps. And it takes signals that the program's own threads wait for.
//
// Part of the plugin SDK; C++17, not part of the ABI. Needs no other header of it.
#ifndef QUERN_SDK_THREAD_HPP
#define QUERN_SDK_THREAD_HPP

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <memory>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace quern {
namespace sdk {

class Thread {
 public:
  /// At least this much stack: a driver compiles kernels on some threads.
  static constexpr std::size_t least_stack = std::size_t{2} << 20;

  Thread() noexcept = default;
  /// Runs a copy of `body` at once; it must not throw. Throws std::system_error where the system gives no thread, std::bad_alloc.
  template <class Body>
  explicit Thread(Body body) {
    auto kept = std::make_unique<Body>(std::move(body));
    start(run<Body>, kept.get());
    kept.release();
  }
  Thread(Thread&& other) noexcept : id_(other.id_), owner_(std::exchange(other.owner_, 0)) {}
  Thread& operator=(Thread&& other) noexcept {
    if (this != &other) {
      join();
      id_ = other.id_;
      owner_ = std::exchange(other.owner_, 0);
    }
    return *this;
  }
  ~Thread() { join(); }

  /// Waits for its end; returns at once where there is none: never begun, joined before, or left behind by a fork. The thread itself may call
  /// it, through what it owns, and then nobody waits.
  void join() noexcept {
    const pid_t owner = std::exchange(owner_, 0);
    if (owner == 0 || owner != getpid()) return;
    if (pthread_equal(id_, pthread_self()) != 0) pthread_detach(id_);
    else pthread_join(id_, nullptr);
  }
  pthread_t native_handle() const noexcept { return id_; }

 private:
  template <class Body>
  static void* run(void* given) noexcept {
    const std::unique_ptr<Body> body(static_cast<Body*>(given));
    (*body)();
    return nullptr;
  }

  void start(void* (*entry)(void*), void* argument) {
    pthread_attr_t attributes;
    if (const int error = pthread_attr_init(&attributes); error != 0) throw std::system_error(error, std::generic_category());
    std::size_t stack = 0;
    if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < least_stack) pthread_attr_setstacksize(&attributes, least_stack);
    // A new thread has the signal mask of the one that makes it. What a thread does itself (a bad address, a closed pipe, a file that may
    // not grow) goes to that thread whatever others wait for, so those stay as they are.
    sigset_t all, before;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE, SIGXFSZ, SIGPROF}) sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int error = pthread_create(&id_, &attributes, entry, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (error != 0) throw std::system_error(error, std::generic_category());
    owner_ = getpid();
  }

  pthread_t id_{};
  pid_t owner_ = 0;  // the process that it runs in; 0: no thread
};

}  // namespace sdk
}  // namespace quern

#endif
