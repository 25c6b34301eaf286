// quern monitor: what the NVIDIA cards do, and how fast the user's quern processes make tokens, every interval.
#include "verbs.hpp"

#include "activity.hpp"
#include "interrupt.hpp"
#include "monitor_screen.hpp"
#include "numbers.hpp"
#include "failure.hpp"
#include "nvml.hpp"
#include "output.hpp"
#include "terminal_window.hpp"
#include "text_charts.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Tokens a second from two readings of the counters.
class Speeds {
 public:
  std::vector<ProcessSpeed> read() {
    const Clock::time_point now = Clock::now();
    std::vector<ProcessSpeed> speeds;
    std::map<std::int32_t, std::uint64_t> tokens;
    const double seconds = std::chrono::duration<double>(now - last_).count();
    for (Activity& activity : read_activities()) {
      tokens[activity.pid] = activity.tokens;
      const auto before = tokens_.find(activity.pid);
      std::optional<double> speed;
      if (before != tokens_.end() && activity.tokens >= before->second && seconds > 0)
        speed = static_cast<double>(activity.tokens - before->second) / seconds;
      speeds.push_back({std::move(activity), speed});
    }
    tokens_ = std::move(tokens);
    last_ = now;
    return speeds;
  }

 private:
  std::map<std::int32_t, std::uint64_t> tokens_;
  Clock::time_point last_ = Clock::now();
};

Json json_of(const std::vector<CardSample>& cards, const std::string& reason, const std::vector<ProcessSpeed>& speeds) {
  Json json;
  json["gpus"] = Json::array();
  for (const CardSample& c : cards) {
    Json card;
    card["index"] = c.index;
    card["name"] = c.name;
    card["uuid"] = c.uuid;
    card["utilisation_percent"] = or_null(c.busy_percent);
    card["memory_utilisation_percent"] = or_null(c.memory_busy_percent);
    card["memory_total_bytes"] = or_null(c.memory_total);
    card["memory_used_bytes"] = or_null(c.memory_used);
    card["temperature_celsius"] = or_null(c.temperature);
    card["power_watts"] = or_null(c.power);
    card["power_limit_watts"] = or_null(c.power_limit);
    json["gpus"].push_back(std::move(card));
  }
  json["gpus_reason"] = reason.empty() ? Json(nullptr) : Json(reason);
  json["processes"] = Json::array();
  for (const ProcessSpeed& s : speeds)
    json["processes"].push_back({{"pid", s.activity.pid},
                                 {"model", s.activity.model},
                                 {"tokens", s.activity.tokens},
                                 {"tokens_per_second", or_null(s.tokens_per_second)}});
  return json;
}

template <class T>
std::string number(const std::optional<T>& value, const char* unit, int decimals = 0) {
  return value ? fixed(static_cast<double>(*value), decimals) + unit : "?";
}

std::string card_lines(const std::vector<CardSample>& cards) {
  std::string out;
  for (const CardSample& c : cards) {
    out += "gpu " + std::to_string(c.index) + "  " + printable(c.name) + "  busy " + number(c.busy_percent, " %") + ", memory " +
           (c.memory_used ? byte_words(*c.memory_used) : "?") + " of " + (c.memory_total ? byte_words(*c.memory_total) : "?") + ", " +
           number(c.temperature, " C") + ", " + number(c.power, " W") + " of " + number(c.power_limit, " W") + "\n";
  }
  return out;
}

std::string process_line(const ProcessSpeed& s) {
  return "process " + std::to_string(s.activity.pid) + "  " + printable(s.activity.model) + "  " + with_commas(s.activity.tokens) +
         " tokens, " + number(s.tokens_per_second, " tokens/s", 1) + "\n";
}

/// Readings for people. On a terminal they are a screen, and each takes the place of the one before. Elsewhere a reading is a line of each
/// card and of each process that made tokens since. Why there are no cards is written once.
class Page {
 public:
  void write(const std::vector<CardSample>& cards, const std::string& reason, const std::vector<ProcessSpeed>& speeds) {
    if (window_can_draw()) draw(cards, reason, speeds);
    else write_lines(cards, reason, speeds);
  }

 private:
  void draw(const std::vector<CardSample>& cards, const std::string& reason, const std::vector<ProcessSpeed>& speeds) {
    const WindowSize size = window_size();
    std::vector<std::string> rows = screen_.rows(cards, reason, speeds, size.columns - 1);
    if (rows.size() >= size.rows) rows.resize(size.rows - 1);  // what is above the window could not be drawn over
    Drawing drawing;
    if (drawn_ > 0) drawing.up(drawn_).clear_below();
    for (const std::string& row : rows) drawing.text(row).rows("\n");
    draw_out(drawing);
    drawn_ = rows.size();
  }

  void write_lines(const std::vector<CardSample>& cards, const std::string& reason, const std::vector<ProcessSpeed>& speeds) {
    if (!begun_ && cards.empty())
      write_out("no GPU figures: " + (reason.empty() ? std::string("the driver lists no card") : printable(reason)) + "\n");
    begun_ = true;
    std::string now = card_lines(cards);
    std::map<std::int32_t, std::uint64_t> tokens;
    for (const ProcessSpeed& s : speeds) {
      tokens[s.activity.pid] = s.activity.tokens;
      const auto before = tokens_.find(s.activity.pid);
      if (before == tokens_.end() || before->second != s.activity.tokens) now += process_line(s);
    }
    tokens_ = std::move(tokens);
    write_out(now);
  }

  MonitorScreen screen_{has_utf8(process_environment)};
  std::size_t drawn_ = 0;  // rows of the reading on the terminal
  bool begun_ = false;
  std::map<std::int32_t, std::uint64_t> tokens_;
};

/// Sleeps, or less if Ctrl-C came.
void wait(double seconds, const InterruptGuard& guard) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (!guard.interrupted() && Clock::now() < end)
    std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(50)));
}

}  // namespace

int monitor_verb(const CommandLine& line) {
  const MonitorFlags& flags = line.monitor;
  std::string reason;
  const std::unique_ptr<Nvml> nvml = Nvml::open(reason);
  const InterruptGuard guard(nullptr);
  Speeds speeds;
  speeds.read();  // speeds need a first reading, an interval before
  const std::uint64_t count = flags.count ? *flags.count : line.json ? 1 : 0;
  Page page;
  for (std::uint64_t n = 0; count == 0 || n < count; ++n) {
    wait(flags.interval, guard);
    if (guard.interrupted()) break;
    const std::vector<CardSample> cards = nvml == nullptr ? std::vector<CardSample>{} : nvml->sample();
    const std::vector<ProcessSpeed> now = speeds.read();
    if (line.json) write_json(json_of(cards, reason, now));
    else page.write(cards, reason, now);
  }
  return exit_ok;
}

}  // namespace quern::cli
