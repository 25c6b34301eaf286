// See allocation_watch.hpp.
#include "device_run/allocation_watch.hpp"

#include "device_run/breadcrumb.hpp"

#include "quern/quern_sanitizer.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#if defined(__GLIBC__) && QUERN_SANITIZER == 0
#define QUERN_WATCHES_ALLOCATIONS 1
#else
#define QUERN_WATCHES_ALLOCATIONS 0
#endif

namespace quern::conformance {
namespace {

std::atomic<bool> watching{false};
std::atomic<std::uint64_t> counted{0}, refused_count{0}, fail_number{0};
std::atomic<bool> fail_later{false};

[[maybe_unused]] bool refuse() noexcept {
  if (!watching.load(std::memory_order_relaxed)) return false;
  const std::uint64_t number = counted.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t fail = fail_number.load(std::memory_order_relaxed);
  if (fail == 0 || number < fail || (number > fail && !fail_later.load(std::memory_order_relaxed))) return false;
  refused_count.fetch_add(1, std::memory_order_relaxed);
  errno = ENOMEM;
  return true;
}

}  // namespace

bool AllocationWatch::available() noexcept { return QUERN_WATCHES_ALLOCATIONS != 0; }

AllocationWatch::AllocationWatch(std::uint64_t fail_at, bool and_after) noexcept {
  counted = refused_count = 0;
  fail_number = fail_at;
  fail_later = and_after;
  crumb_of_refusal(fail_at);
  watching = true;
}
AllocationWatch::~AllocationWatch() {
  watching = false;
  crumb_of_refusal(0);
}
std::uint64_t AllocationWatch::count() const noexcept { return counted; }
std::uint64_t AllocationWatch::refused() const noexcept { return refused_count; }

}  // namespace quern::conformance

#if QUERN_WATCHES_ALLOCATIONS
using quern::conformance::refuse;

// What libc itself calls; the blocks are of its heap, so that its free takes them.
extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* memory, std::size_t size) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t size) noexcept;

void* malloc(std::size_t size) noexcept { return refuse() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept { return refuse() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, std::size_t size) noexcept { return refuse() ? nullptr : __libc_realloc(memory, size); }
void* memalign(std::size_t alignment, std::size_t size) noexcept { return refuse() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return refuse() ? nullptr : __libc_memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* memory = refuse() ? nullptr : __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}
#endif
