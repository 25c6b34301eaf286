// See failing_allocator.hpp.
#include "failing_allocator.hpp"

#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <mutex>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace quern::test::allocations {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> live{0};
std::uint64_t main_count = 0;
std::atomic<std::uint64_t> other_count{0};
std::uint64_t fail_main = never, fail_other = never;
std::vector<Stack>* recorded = nullptr;
std::vector<Stack>* recorded_other = nullptr;
Stack failed;
bool has_failed = false;
constinit thread_local bool is_main = false;

}  // namespace quern::test::allocations

namespace {

using namespace quern::test::allocations;

std::mutex recording;
thread_local bool inside = false;

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* user) {
  Stack& stack = *static_cast<Stack*>(user);
  stack.frames[stack.depth++] = _Unwind_GetIP(context);
  return stack.depth < most_frames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/// True where this allocation is the one to fail.
bool fails() {
  if (!counting.load(std::memory_order_relaxed) || inside) return false;
  if (!is_main) {
    if (recorded_other != nullptr) {
      inside = true;
      Stack stack;
      _Unwind_Backtrace(take_frame, &stack);
      {
        const std::lock_guard lock(recording);
        recorded_other->push_back(stack);
      }
      inside = false;
    }
    const bool fail = other_count++ == fail_other;
    has_failed |= fail;
    return fail;
  }
  inside = true;
  if (recorded != nullptr) {
    Stack stack;
    _Unwind_Backtrace(take_frame, &stack);
    recorded->push_back(stack);
  }
  const bool fail = main_count++ == fail_main;
  if (fail) {
    has_failed = true;
    _Unwind_Backtrace(take_frame, &failed);
  }
  inside = false;
  return fail;
}

void* counted(void* memory) {
  if (memory != nullptr) live += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void* refused() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) { return fails() ? refused() : counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return fails() ? refused() : counted(__libc_calloc(count, size)); }
void* realloc(void* memory, std::size_t size) {
  if (fails()) return refused();
  const auto before = memory == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(memory));
  void* grown = __libc_realloc(memory, size);
  if (grown != nullptr || size == 0) live -= before;
  return counted(grown);
}
void* memalign(std::size_t alignment, std::size_t size) { return fails() ? refused() : counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
void free(void* memory) {
  if (memory != nullptr) live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  __libc_free(memory);
}
/// Anonymous memory is an allocation too; what maps a file passes.
void* mmap(void* where, std::size_t size, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, where, size, protection, flags, file, offset));
}
}
