// What the threads of a benchmark were on a processor: a busy machine then changes caches and clock only.
#pragma once

#include <cstdint>
#include <ctime>

inline double processor_seconds(std::uint32_t threads) {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)) / threads;
}
