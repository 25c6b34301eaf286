// What a run came to, as a table for people: a row a group, a column a device. Derived from its journal.
#pragma once

#include "report/record.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

/// Whether a verdict is no failure: pass, waived, and unsupported where that was excluded as `never`.
bool is_green(Status status) noexcept;

class Matrix {
 public:
  explicit Matrix(const Record& record);

  /// Executed cases of a target: those that ran to an end, good or bad.
  std::uint64_t executed(std::size_t target) const;
  /// Every target executed something, and every result is green.
  bool green() const;
  std::string text() const;
  /// The failures, the first `limit` of each target.
  std::string failures(std::size_t limit) const;
  /// {"cpu:0":{"pass":12,...}}
  std::string json() const;

 private:
  using Counts = std::array<std::uint64_t, 9>;  // by Status
  void add(const RecordedResult& recorded);
  std::vector<Target> targets_;
  std::vector<std::string> left_out_;
  std::vector<Counts> totals_;
  std::map<std::string, std::vector<Counts>> groups_;
  std::vector<std::vector<std::string>> failures_;
};

}  // namespace quern::conformance
