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
  struct Failure {
    std::uint64_t piece = UINT64_MAX;
    std::exception_ptr what;
  };
  const std::uint64_t takers = std::clamp<std::uint64_t>(threads, 1, std::max<std::uint64_t>(count, 1));
  std::vector<Failure> failures(takers);  // each taker's own: no lock, which a fork in a callback might leave held
  std::atomic<std::uint64_t> next{0};
  const auto take = [&](Failure& failure) {
    for (std::uint64_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failure = {i, std::current_exception()};
        next = count;
        return;
      }
    }
  };
  std::vector<sdk::Thread> helpers;
  try {
    for (std::uint64_t t = 1; t < takers; ++t) helpers.emplace_back([&take, &failure = failures[t]] { take(failure); });
  } catch (const std::system_error&) {  // no more threads: those that there are
  }
  take(failures[0]);
  helpers.clear();
  const Failure& first = *std::ranges::min_element(failures, {}, &Failure::piece);  // all pieces before it were begun
  if (first.what) std::rethrow_exception(first.what);
}

}  // namespace quern::runtime
