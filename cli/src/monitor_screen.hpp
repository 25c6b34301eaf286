// The readings of quern monitor as a screen: a bar and a sparkline of each card, a sparkline of each process. Pure.
#pragma once

#include "activity.hpp"
#include "nvml.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

struct ProcessSpeed {
  Activity activity;
  std::optional<double> tokens_per_second;  // nothing at a process's first sight
};

class MonitorScreen {
 public:
  explicit MonitorScreen(bool utf8) : utf8_(utf8) {}

  /// The rows of the next reading, none wider than `columns`. `reason`: why there are no cards, or "".
  std::vector<std::string> rows(const std::vector<CardSample>& cards, const std::string& reason, const std::vector<ProcessSpeed>& speeds,
                                std::size_t columns);

 private:
  using History = std::vector<double>;
  static void add(History& history, double value);
  bool utf8_;
  std::map<std::uint32_t, History> busy_;
  std::map<std::int32_t, History> tokens_;
};

}  // namespace quern::cli
