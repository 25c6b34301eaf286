// See host.hpp.
#include "abi/host.hpp"

#include "abi/graph.hpp"
#include "device_run/breadcrumb.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace quern::conformance::abi {

TestHost::TestHost(std::uint32_t threads) : table_(made<quern_host>(QUERN_TYPE_HOST)) {
  table_.abi_minor = QUERN_ABI_MINOR;
  table_.context = this;
  table_.log = [](void* context, std::uint32_t, quern_string, quern_string) { ++static_cast<TestHost*>(context)->log_lines_; };
  table_.allocate = [](void* context, std::uint64_t bytes, std::uint64_t alignment, const char*) {
    return static_cast<TestHost*>(context)->allocate(bytes, alignment);
  };
  table_.release = [](void* context, void* memory, std::uint64_t bytes, std::uint64_t) {
    static_cast<TestHost*>(context)->release(memory, bytes);
  };
  table_.option = [](void* context, const char* key, char* value, std::uint64_t capacity) -> std::uint64_t {
    auto& host = *static_cast<TestHost*>(context);
    ++host.options_asked_;
    const auto found = host.options.find(key == nullptr ? "" : key);
    if (found == host.options.end()) return UINT64_MAX;
    if (value != nullptr) std::memcpy(value, found->second.data(), std::min<std::size_t>(capacity, found->second.size()));
    return found->second.size();
  };
  table_.thread_count = threads;
}

void TestHost::fail_at(std::uint64_t number) noexcept {
  allocations_ = 0;
  refused_ = false;
  fail_at_ = number;
  crumb_of_refusal(number);
}

void* TestHost::allocate(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  const std::lock_guard lock(mutex_);
  if (++allocations_ == fail_at_) {
    refused_ = true;
    return nullptr;
  }
  if (!std::has_single_bit(alignment)) {
    fault_ = "asks for an alignment of " + std::to_string(alignment);
    return nullptr;
  }
  void* memory = nullptr;
  if (bytes > PTRDIFF_MAX ||
      ::posix_memalign(&memory, std::max<std::uint64_t>(alignment, sizeof(void*)), std::max<std::uint64_t>(bytes, 1)) != 0)
    return nullptr;
  try {
    live_[memory] = bytes;
  } catch (const std::bad_alloc&) {  // no memory to remember it
    std::free(memory);
    return nullptr;
  }
  return memory;
}

void TestHost::release(void* memory, std::uint64_t bytes) noexcept {
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(memory);
  if (found == live_.end() || found->second != bytes) {
    fault_ = found == live_.end() ? "releases what the host did not give"
                                  : "releases " + std::to_string(bytes) + " bytes of a block of " + std::to_string(found->second);
    return;
  }
  live_.erase(found);
  std::free(memory);
}

std::uint64_t TestHost::live_blocks() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}
std::uint64_t TestHost::live_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [memory, size] : live_) bytes += size;
  return bytes;
}
std::string TestHost::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace quern::conformance::abi
