// What a compiled program says of itself: schedules with the rows that they serve, kernels a layer, and the nodes that stand alone.
//
// A plugin does not measure single nodes, so a node's part of the time is guessed by the bytes that it reads: weights, and what lies
// between nodes. The cache of keys and values counts nothing, as in an empty context.
#pragma once

#include "program.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// Nodes of a schedule that stand alone for one reason.
struct AloneGroup {
  std::string rule, reason;  // rule empty: none is for the op
  bool complete = false;     // nothing is lost by it
  std::uint32_t nodes = 0;
  std::vector<std::string> ops;  // each once, in the order of the nodes
  std::string first;             // name of the first node
  double share = 0;              // of the bytes that a step of `least` rows reads on this device
};

struct ScheduleReport {
  std::uint32_t rows = QUERN_ROWS_ANY;
  std::int64_t least = 0, most = 0;  // 0: it serves every run
  std::uint32_t kernels = 0;
  std::optional<double> kernels_a_layer;
  double alone_share = 0;         // of groups that are not complete
  std::vector<AloneGroup> alone;  // largest share first
};

struct DeviceReport {
  std::string device;
  bool told = false;  // whether its plugin says anything
  std::uint32_t nodes = 0;
  std::vector<ScheduleReport> schedules;
  double alone_share = 0;  // of a step of one row
};

std::vector<DeviceReport> plan_report(const Program& program);

/// For people, a line or a few a schedule. Where nodes alone read more than a tenth of some step's bytes, a sentence says so.
std::string words_of(const std::vector<DeviceReport>& report);
std::string json_of(const std::vector<DeviceReport>& report);

}  // namespace quern::runtime
