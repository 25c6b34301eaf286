// Replaces operator new to count. The program exports it (ENABLE_EXPORTS) and the plugin has none of its own, so the plugin's
// allocations are counted too.
#include "counting_new.hpp"
#include "quern/quern_sanitizer.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> allocations{0};
}

namespace quern::cpu_test {
std::uint64_t allocation_count() noexcept { return allocations.load(std::memory_order_relaxed); }
}  // namespace quern::cpu_test

#if QUERN_SANITIZER == 0
void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
