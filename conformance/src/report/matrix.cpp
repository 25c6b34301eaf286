// See matrix.hpp.
#include "report/matrix.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace quern::conformance {
namespace {

template <class Counts>
std::string cell(const Counts& counts) {
  const std::uint64_t all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (all == 0) return "-";
  std::string text = std::to_string(counts[0]) + "/" + std::to_string(all);
  for (std::size_t s = 1; s < counts.size(); ++s)
    if (counts[s] != 0) text += " " + std::string(status_name(static_cast<Status>(s))) + " " + std::to_string(counts[s]);
  return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      text += row[c] + (c + 1 == row.size() ? "" : std::string(widths[c] - row[c].size() + 2, ' '));
    text += "\n";
  }
  return text;
}

}  // namespace

bool is_green(Status s) noexcept { return s == Status::pass || s == Status::unsupported || s == Status::waived; }

Matrix::Matrix(const Record& record)
    : targets_(record.header.targets), left_out_(record.left_out), totals_(targets_.size()), failures_(targets_.size()) {
  for (const RecordedResult& r : record.results) add(r);
}

void Matrix::add(const RecordedResult& recorded) {
  const auto& [name, target, result] = recorded;
  auto& group = groups_[group_of(name)];
  group.resize(targets_.size());
  const auto status = static_cast<std::size_t>(result.verdict.status);
  ++group[target][status];
  ++totals_[target][status];
  if (!is_green(result.verdict.status))
    failures_[target].push_back(std::string(status_name(result.verdict.status)) + "  " + targets_[target].label + "  " + name + "\n    " +
                                result.verdict.text + "\n");
}

std::uint64_t Matrix::executed(std::size_t target) const {
  const Counts& t = totals_[target];
  const auto of = [&](Status s) { return t[static_cast<std::size_t>(s)]; };
  return std::accumulate(t.begin(), t.end(), std::uint64_t{0}) - of(Status::unsupported) - of(Status::waived) - of(Status::unknown) -
         of(Status::resource);
}

bool Matrix::green() const {
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (executed(t) == 0) return false;
    for (std::size_t s = 0; s < totals_[t].size(); ++s)
      if (totals_[t][s] != 0 && !is_green(static_cast<Status>(s))) return false;
  }
  return !targets_.empty();
}

std::string Matrix::text() const {
  std::vector<std::vector<std::string>> rows{{"group"}};
  for (const Target& t : targets_) rows[0].push_back(t.label + " (" + t.device_name + ")");
  for (const auto& [name, counts] : groups_) {
    rows.push_back({name});
    for (const Counts& c : counts) rows.back().push_back(cell(c));
  }
  rows.push_back({"all"});
  for (const Counts& c : totals_) rows.back().push_back(cell(c));
  std::string text = table(rows);
  for (const std::string& device : left_out_) text += "not tested: " + device + "\n";
  for (std::size_t t = 0; t < targets_.size(); ++t)
    if (executed(t) == 0) text += targets_[t].label + ": no case was executed, which is a failure\n";
  return text;
}

std::string Matrix::failures(std::size_t limit) const {
  std::string text;
  for (const auto& list : failures_) {
    for (std::size_t i = 0; i < std::min(limit, list.size()); ++i) text += list[i];
    if (list.size() > limit) text += "and " + std::to_string(list.size() - limit) + " more in the journal\n";
  }
  return text;
}

std::string Matrix::json() const {
  nlohmann::json all = nlohmann::json::object();
  for (std::size_t t = 0; t < targets_.size(); ++t)
    for (std::size_t s = 0; s < totals_[t].size(); ++s) all[targets_[t].label][status_name(static_cast<Status>(s))] = totals_[t][s];
  return all.dump();
}

}  // namespace quern::conformance
