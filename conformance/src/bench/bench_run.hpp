// Times cases on one device, in a process of its own, and judges what the timed runs gave.
#pragma once

#include "bench/bench_cases.hpp"
#include "worker/child_process.hpp"
#include "worker/device_process.hpp"
#include "worker/target.hpp"

#include <memory>
#include <string>
#include <vector>

namespace quern::conformance {

struct BenchResult {
  Verdict verdict;
  bool fast = false, packed = false;
  std::string kernel;
  std::vector<double> seconds;  // each timed run, sorted; empty where none was
  double median() const noexcept { return seconds.empty() ? 0.0 : seconds[seconds.size() / 2]; }
};

/// One device. One thread.
class BenchRun {
 public:
  BenchRun(const Target& target, const Selection& selection, std::uint64_t seed);
  /// `samples` timed runs, after two that are not. What is wrong, or ends the device process, is in the verdict.
  BenchResult run(const Case& c, std::uint32_t samples);

 private:
  std::string ensure_process();

  Target target_;
  Selection selection_;
  std::uint64_t seed_;
  SharedMemory inputs_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace quern::conformance
