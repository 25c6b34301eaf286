// In which order cases run, and how they are dealt to lanes, so that all lanes end together. Pure.
#pragma once

#include "case_table/case.hpp"

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace quern::conformance {

/// Cases of many bytes first, the largest before all, then scripts, then whole graphs and cases under each kernel: they take the longest, and one
/// that comes last would run alone on one lane.
void longest_first(std::vector<const Case*>& cases);

/// Gives cases to lanes by several neighbours, which tend to need the same kernels: a driver that compiles them does so for one lane. Fewer towards
/// the end, so that no lane is left with many. Scripts, and cases of 1 MiB and more, by one. Any thread.
class Dealer {
 public:
  Dealer(const std::vector<const Case*>& cases, std::size_t lanes);
  /// The next [first, last); empty: there are no more.
  std::pair<std::size_t, std::size_t> take();

 private:
  const std::vector<const Case*>& cases_;
  std::size_t lanes_, next_ = 0;
  std::mutex mutex_;
};

}  // namespace quern::conformance
