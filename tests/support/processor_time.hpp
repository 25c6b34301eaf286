// Time that this thread computes, for tests that ask what work costs: other work on the machine does not count, as it would by a wall clock.
//
// Processors differ, so a cost is compared with that of a reference. That is the same work on an input of another size, or the good twin of a
// bad file. A bound is a small multiple for a shape (linear or not), a large one for what may not run away.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

namespace quern::test {

inline double processor_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double processor_seconds_of(const std::function<void()>& work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

/// How many times as long `many` computes as `few`: of the least of each, since a neighbour may slow one. Ends with the first result below
/// `enough`, after ten tries at most.
inline double growth(double enough, const std::function<void()>& few, const std::function<void()>& many) {
  double least_few = std::numeric_limits<double>::max(), least_many = least_few;
  for (int attempt = 0; attempt < 10 && (attempt == 0 || least_many >= enough * least_few); ++attempt) {
    least_few = std::min(least_few, processor_seconds_of(few));
    least_many = std::min(least_many, processor_seconds_of(many));
  }
  return least_many / least_few;
}

/// What work on `bytes` may cost, by a reference of `reference_bytes` that cost `reference_seconds`: a thousand times as much a byte. Reading
/// takes microseconds; what follows a count that a file claims takes minutes. A reference below a tenth of a millisecond counts as that: the
/// work may do something for the first time in this process.
inline double far_beyond(double reference_seconds, std::size_t reference_bytes, std::size_t bytes) {
  return 1000 * std::max(reference_seconds, 1e-4) *
         std::max(1.0, static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(reference_bytes, 1)));
}

}  // namespace quern::test
