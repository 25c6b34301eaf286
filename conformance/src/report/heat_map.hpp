// The results of a record as pictures: a cell's colour is the worst error of its passed cases as a share of their bounds.
#pragma once

#include "report/record.hpp"

#include "quern/quern_formats.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

struct HeatCell {
  std::uint64_t cases = 0, passed = 0, waived = 0;
  double worst = 0;  // error / bound of the passed cases
  std::uint64_t failed() const noexcept { return cases - passed - waived; }
  void add(const Verdict& verdict);
};

/// The columns of the map of ops. A case stands under its block formats; without one under its float types; else under "int"; a script, whose
/// name has no types, under "other".
inline constexpr auto heat_formats = [] {
  std::array<const char*, std::size(quern_formats) + 5> names = {"f32", "f16", "bf16"};
  for (std::size_t i = 0; i < std::size(quern_formats); ++i) names[3 + i] = quern_formats[i].name.data;
  names[names.size() - 2] = "int";
  names.back() = "other";
  return names;
}();
std::vector<std::size_t> heat_columns(const std::string& case_name);

using HeatRow = std::array<HeatCell, heat_formats.size()>;

/// The map of one device: group -> op -> a cell a format.
std::map<std::string, std::map<std::string, HeatRow>> heat_of_ops(const Record& record, std::size_t target);

/// "h0" (exact) to "h8" (up to the whole bound), the kinds of quern/base/markup.hpp; "failed", "waived" and "none" come before any error.
std::string heat_kind(const HeatCell& cell);

/// Markup: what the colours mean; groups by devices; ops by formats, a picture a device and a group; how many cases ended as what.
std::string heat_legend();
std::string group_heat_map(const Record& record);
std::string op_heat_maps(const Record& record);
std::string count_bars(const Record& record);

}  // namespace quern::conformance
