// See journal.hpp.
#include "journal/journal.hpp"

#include "journal/named_file.hpp"
#include "journal/torn_line.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <sstream>

namespace quern::conformance {
namespace {

using nlohmann::json;

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

/// "2026-01-31T12:00:00Z"
std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Finished read_finished(const std::string& path, const Header& expected) {
  std::string text;
  const base::FileProblem problem = base::read_file(path, text, {.most = 1 << 30});
  Finished finished;
  if (problem.fault == base::FileFault::not_found) return finished;  // no journal yet
  check_named("--resume:", problem);
  std::istringstream in(std::move(text));
  std::string line;
  if (!std::getline(in, line)) return finished;  // an empty one
  if (const auto different = header_differences(expected, parse_header(line, path)); !different.empty())
    throw UsageError("--resume: " + path + " is of another run: " + different.front());
  while (std::getline(in, line)) {
    const json j = json::parse(line, nullptr, false);
    if (j.is_discarded() || !j.contains("end")) continue;  // a line that was cut off when the suite was ended
    try {
      CaseResult r;
      r.verdict = {status_of(j.at("status")), j.at("text"), j.at("worst").is_number() ? j.at("worst").get<double>() : INFINITY,
                   j.at("compared"), j.at("tier")};
      r.kernel = j.at("kernel");
      finished[{j.at("end"), j.at("target")}] = r;
    } catch (const std::exception& error) { throw UsageError("--resume: " + path + ": a result cannot be read: " + error.what()); }
  }
  return finished;
}

}  // namespace

Journal::Journal(const std::string& path, bool resume, const Header& header, const std::vector<std::string>& left_out) {
  check_named("--journal", base::GrowingFile::open(path, resume ? base::GrowingFile::Begin::keep : base::GrowingFile::Begin::empty, file_));
  if (resume) drop_torn_line(file_);
  if (resume) finished_ = read_finished(path, header);
  if (::lseek(file_.descriptor(), 0, SEEK_END) <= 0) line(header_line(header));
  line(dump({{"started", now_text()}, {"left_out", left_out}}));
}

void Journal::line(const std::string& text) {
  const std::string whole = text + "\n";
  const std::lock_guard lock(mutex_);
  if (const base::FileProblem problem = file_.append(whole)) throw std::runtime_error("the journal cannot be written: " + problem.text);
}

void Journal::begin(const std::string& case_name, const std::string& target) { line(dump({{"begin", case_name}, {"target", target}})); }

void Journal::end(const std::string& case_name, const std::string& target, const CaseResult& r) {
  line(dump({{"end", case_name},
             {"target", target},
             {"status", status_name(r.verdict.status)},
             {"text", r.verdict.text},
             {"worst", r.verdict.worst},
             {"compared", r.verdict.compared},
             {"tier", r.verdict.tier},
             {"kernel", r.kernel},
             {"ms", r.milliseconds}}));
}

void Journal::totals(const std::string& json_text) { line("{\"totals\":" + json_text + "}"); }

}  // namespace quern::conformance
