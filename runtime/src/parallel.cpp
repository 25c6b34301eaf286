// See parallel.hpp.
#include "parallel.hpp"

#include "quern/sdk/thread.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <vector>

namespace quern::runtime {

void in_parallel(std::uint32_t threads, std::uint64_t count, const std::function<void(std::uint64_t)>& work) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> has_failed{false};
  std::exception_ptr failure;
  const auto take = [&] {
    for (std::uint64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        if (!has_failed.exchange(true)) failure = std::current_exception();  // no lock, which a fork in a callback might leave held
        next = count;
      }
    }
  };
  std::vector<sdk::Thread> helpers;
  try {
    for (std::uint64_t t = 1; t < std::min<std::uint64_t>(threads, count); ++t) helpers.emplace_back(take);
  } catch (const std::system_error&) {  // no more threads: those that there are
  }
  take();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace quern::runtime
