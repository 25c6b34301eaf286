// What bench measured, as a table for people and as JSON.
#pragma once

#include "bench/bench_run.hpp"
#include "journal/header.hpp"

#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

struct BenchRow {
  const Case* what;
  BenchResult result;
};

struct DeviceBench {
  Target target;
  std::map<Peak, double> peaks;  // seconds (latency), bytes/s (bandwidth) or FLOP/s; one that could not be measured is absent
  std::vector<BenchRow> rows;
};

/// GB/s and GFLOP/s are of the median run, from the case's description; shares are of the device's own peaks.
std::string bench_text(const DeviceBench& bench);
/// {"header":..., "devices":[{"label":..., "peaks":..., "cases":[...]}]}: every number in s, bytes/s and FLOP/s.
std::string bench_json(const Header& header, const std::vector<DeviceBench>& devices);

}  // namespace quern::conformance
