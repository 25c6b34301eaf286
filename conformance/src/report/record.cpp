// See record.hpp.
#include "report/record.hpp"

#include "journal/named_file.hpp"
#include "quern/graph/sha256.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

namespace quern::conformance {
namespace {

using nlohmann::json;

CaseResult result_of(const json& j) {
  CaseResult r;
  r.verdict = {status_of(j.at("status")), j.at("text"), j.at("worst").is_number() ? j.at("worst").get<double>() : INFINITY,
               j.at("compared"), j.at("tier")};
  r.kernel = j.at("kernel");
  r.milliseconds = j.at("ms").is_number() ? j.at("ms").get<double>() : 0;
  return r;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), in_(read_named("the journal", path)) {}

  Record read() {
    std::string line;
    if (!std::getline(in_, line)) throw UsageError(path_ + ": is empty");
    record_.path = path_;
    record_.sha256 = sha256_of_file(path_);
    record_.header = parse_header(line, path_);
    for (std::size_t t = 0; t < record_.header.targets.size(); ++t) targets_[record_.header.targets[t].label] = t;
    for (std::uint64_t number = 2; std::getline(in_, line); ++number) {
      const json j = json::parse(line, nullptr, false);
      if (j.is_discarded()) continue;  // a line that was cut off when the suite was ended
      try {
        take(j);
      } catch (const std::exception& error) { throw UsageError(path_ + ", line " + std::to_string(number) + ": " + error.what()); }
    }
    for (const auto& [name, label] : open_) record_.unfinished.push_back(name + " on " + label);
    return std::move(record_);
  }

 private:
  void take(const json& j) {
    if (j.contains("begin")) {
      open_.insert({j.at("begin").get<std::string>(), j.at("target").get<std::string>()});
      record_.totals.clear();  // it goes on
    } else if (j.contains("end")) {
      const std::string label = j.at("target");
      const auto target = targets_.find(label);
      if (target == targets_.end()) throw std::runtime_error("the header has no device " + label);
      record_.results.push_back({j.at("end").get<std::string>(), target->second, result_of(j)});
      open_.erase({record_.results.back().case_name, label});
    } else if (j.contains("started")) {
      record_.started.push_back(j.at("started"));
      record_.left_out = j.value("left_out", std::vector<std::string>());
    } else if (j.contains("totals")) {
      record_.totals = j.at("totals").dump();
    }
  }

  std::string path_;
  std::istringstream in_;
  Record record_;
  std::map<std::string, std::size_t> targets_;
  std::set<std::pair<std::string, std::string>> open_;
};

}  // namespace

Record read_record(const std::string& path) { return Reader(path).read(); }

std::string group_of(const std::string& case_name) { return case_name.substr(0, case_name.find('.')); }

}  // namespace quern::conformance
