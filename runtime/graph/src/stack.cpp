// See stack.hpp.
#include "quern/graph/stack.hpp"

#include "quern/graph/error.hpp"

#include <pthread.h>

#include <cstdint>

namespace quern {
namespace {

struct Bounds {
  std::uintptr_t low = 0, high = 0;  // equal: not known yet
};

/// Asks the system. For the first thread of a process it reads a file, so the answer is kept.
Bounds bounds_of_this_thread() noexcept {
  Bounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bounds;  // no memory, no descriptor: asked again next time
  void* lowest = nullptr;
  std::size_t size = 0, guard = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
    bounds.low = reinterpret_cast<std::uintptr_t>(lowest);
    bounds.high = bounds.low + size;
    if (pthread_attr_getguardsize(&attributes, &guard) == 0 && guard < size) bounds.low += guard;  // some systems count it in
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

}  // namespace

std::size_t stack_left() noexcept {
  thread_local Bounds bounds;
  if (bounds.low == bounds.high) bounds = bounds_of_this_thread();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here < bounds.low || here >= bounds.high) return SIZE_MAX;
  return here - bounds.low;
}

void require_stack(std::size_t needed, const char* what) {
  const std::size_t left = stack_left();
  if (left >= needed) return;
  throw Error(QUERN_HOST_OUT_OF_MEMORY, concat(what, " needs ", needed >> 10, " KiB of stack and this thread has ", left >> 10,
                                               " KiB left; call from a thread with more (pthread_attr_setstacksize, ulimit -s)"));
}

}  // namespace quern
