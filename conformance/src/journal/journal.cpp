// See journal.hpp.
#include "journal/journal.hpp"

#include "journal/torn_line.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>

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
  std::ifstream in(path);
  Finished finished;
  std::string line;
  if (!std::getline(in, line)) return finished;  // no journal yet
  if (const auto different = header_differences(expected, parse_header(line, path)); !different.empty())
    throw UsageError("--resume: " + path + " is of another run: " + different.front());
  while (std::getline(in, line)) {
    const json j = json::parse(line, nullptr, false);
    if (j.is_discarded() || !j.contains("end")) continue;  // a line that was cut off when the suite was ended
    try {
      CaseResult r;
      r.verdict = {status_of(j.at("status")), j.at("text"), j.at("worst").is_number() ? j.at("worst").get<double>() : INFINITY, j.at("compared"),
                   j.at("tier")};
      r.kernel = j.at("kernel");
      finished[{j.at("end"), j.at("target")}] = r;
    } catch (const std::exception& error) {
      throw UsageError("--resume: " + path + ": a result cannot be read: " + error.what());
    }
  }
  return finished;
}

}  // namespace

Journal::Journal(const std::string& path, bool resume, const Header& header, const std::vector<std::string>& left_out) {
  if (resume) drop_torn_line(path);
  if (resume) finished_ = read_finished(path, header);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (resume ? 0 : O_TRUNC), 0644);
  if (fd_ < 0) throw UsageError("--journal " + path + ": cannot be written");
  if (::lseek(fd_, 0, SEEK_END) == 0) line(header_line(header));
  line(dump({{"started", now_text()}, {"left_out", left_out}}));
}

Journal::~Journal() { ::close(fd_); }

void Journal::line(const std::string& text) {
  const std::string whole = text + "\n";
  const std::lock_guard lock(mutex_);
  for (std::size_t sent = 0; sent < whole.size();) {
    const ssize_t n = ::write(fd_, whole.data() + sent, whole.size() - sent);
    if (n <= 0) throw std::runtime_error("the journal cannot be written");
    sent += static_cast<std::size_t>(n);
  }
}

void Journal::begin(const std::string& case_name, const std::string& target) { line(dump({{"begin", case_name}, {"target", target}})); }

void Journal::end(const std::string& case_name, const std::string& target, const CaseResult& r) {
  line(dump({{"end", case_name}, {"target", target}, {"status", status_name(r.verdict.status)}, {"text", r.verdict.text},
             {"worst", r.verdict.worst}, {"compared", r.verdict.compared}, {"tier", r.verdict.tier}, {"kernel", r.kernel}, {"ms", r.milliseconds}}));
}

void Journal::totals(const std::string& json_text) { line("{\"totals\":" + json_text + "}"); }

}  // namespace quern::conformance
