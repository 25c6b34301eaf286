// Tells a process that hangs from one that is slow.
#include "progress.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

namespace quern::loader {
namespace {

constexpr int windows = 5;       // of a limit: so long a process must have done nothing to be called hung
constexpr int most_limits = 6;   // a process that goes on a little for ever
constexpr int least_share = 20;  // one part in so many of a window is progress: twenty such processes may share a processor
constexpr auto longest_gap = std::chrono::milliseconds(100);

std::string text_of(const std::string& path) {
  std::string text;
  (void)base::read_head(path, text, 4096);
  return text;
}

}  // namespace

std::optional<Work> work_from(const std::string& stat, const std::string& pressure) {
  const std::size_t name_end = stat.rfind(')');  // the name may hold anything, spaces and brackets too
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 12; ++field) fields >> skipped;  // proc(5): state to cminflt; 12 is majflt
  std::uint64_t major = 0, children_major = 0, user = 0, system = 0;
  fields >> major >> children_major >> user >> system;
  const long ticks = ::sysconf(_SC_CLK_TCK);
  if (!fields || ticks <= 0) return std::nullopt;
  Work work{std::chrono::milliseconds((user + system) * 1000 / static_cast<std::uint64_t>(ticks)), major, {}};
  static constexpr std::string_view total = "total=";  // "some avg10=0.00 ... total=896443235": microseconds
  if (const std::size_t at = pressure.find(total); pressure.starts_with("some") && at != std::string::npos)
    work.disk_wait = std::chrono::microseconds(std::strtoll(pressure.c_str() + at + total.size(), nullptr, 10));
  return work;
}

std::optional<Work> work_of(pid_t process) { return work_from(text_of(concat("/proc/", process, "/stat")), text_of("/proc/pressure/io")); }

HangWatch::HangWatch(std::chrono::milliseconds limit, std::function<std::optional<Work>()> work, Clock::time_point start)
    : limit_(limit), work_(std::move(work)), last_(start), next_(limit - limit / windows) {}

bool HangWatch::hangs(Clock::time_point now) {
  spent_ += std::min<Clock::duration>(now - last_, longest_gap);
  last_ = now;
  if (spent_ < next_) return false;
  const std::optional<Work> work = work_();
  const Clock::duration window = spent_ - looked_;
  const bool progress = work && (work->processor - before_.processor >= window / least_share || work->pages_read != before_.pages_read ||
                                 work->disk_wait - before_.disk_wait >= window / 2);
  looked_ = spent_;
  next_ = spent_ + limit_ / windows;
  if (work) before_ = *work;
  if (spent_ < limit_) return false;
  if (work && work->processor >= limit_) passed_ = concat("in ", limit_.count(), " ms of processor time");
  else if (!progress) passed_ = concat("within ", limit_.count(), " ms");
  else if (spent_ >= most_limits * limit_) passed_ = concat("within ", (most_limits * limit_).count(), " ms");
  return !passed_.empty();
}

}  // namespace quern::loader
