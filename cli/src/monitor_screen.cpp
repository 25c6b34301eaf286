#include "monitor_screen.hpp"

#include "numbers.hpp"
#include "output.hpp"
#include "page_view.hpp"
#include "text_charts.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

constexpr std::size_t bar_width = 22, longest_history = 60;

template <class Number>
std::string number_or_unknown(const std::optional<Number>& value, const char* unit, int decimals = 0) {
  return value ? fixed(static_cast<double>(*value), decimals) + unit : "?";
}

/// A row of at most that many columns, cut at a character.
std::string cut_row(const std::string& row, std::size_t columns) {
  std::string out = printable(row);
  if (columns_of(out) <= columns) return out;
  std::size_t end = 0;
  for (std::size_t used = 0; used < columns && end < out.size(); ++used) {
    ++end;
    while (end < out.size() && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) ++end;
  }
  return out.substr(0, end);
}

}  // namespace

void MonitorScreen::add(History& history, double value) {
  if (history.size() == longest_history) history.erase(history.begin());
  history.push_back(value);
}

std::vector<std::string> MonitorScreen::rows(const std::vector<CardSample>& cards, const std::string& reason,
                                             const std::vector<ProcessSpeed>& speeds, std::size_t columns) {
  std::vector<std::string> out;
  const std::size_t spark = columns < bar_width + 30 ? 0 : std::min(longest_history, columns - bar_width - 28);
  if (cards.empty())
    out = wrapped_lines("no GPU figures: " + (reason.empty() ? std::string("the driver lists no card") : printable(reason)), columns);
  for (const CardSample& c : cards) {
    out.push_back("gpu " + std::to_string(c.index) + "  " + c.name + "  " + number_or_unknown(c.temperature, " C") + ", " +
                  number_or_unknown(c.power, " W") + " of " + number_or_unknown(c.power_limit, " W"));
    History& history = busy_[c.index];
    add(history, c.busy_percent.value_or(0));
    std::string percent = number_or_unknown(c.busy_percent, " %");
    percent.insert(0, 6 - std::min<std::size_t>(6, percent.size()), ' ');
    out.push_back("  busy    " + text_bar(c.busy_percent.value_or(0) / 100.0, bar_width) + percent + "  " +
                  sparkline(history, 100, spark, utf8_));
    const double share = c.memory_used && c.memory_total && *c.memory_total != 0
                             ? static_cast<double>(*c.memory_used) / static_cast<double>(*c.memory_total)
                             : 0;
    out.push_back("  memory  " + text_bar(share, bar_width) + " " + (c.memory_used ? byte_words(*c.memory_used) : "?") + " of " +
                  (c.memory_total ? byte_words(*c.memory_total) : "?"));
  }
  std::map<std::int32_t, History> living;
  for (const ProcessSpeed& s : speeds) {
    History& history = living[s.activity.pid] = std::move(tokens_[s.activity.pid]);
    add(history, s.tokens_per_second.value_or(0));
    out.push_back("process " + std::to_string(s.activity.pid) + "  " + s.activity.model + "  " + with_commas(s.activity.tokens) +
                  (s.activity.tokens == 1 ? " token" : " tokens"));
    std::string speed = number_or_unknown(s.tokens_per_second, " tokens/s", 1);
    speed.resize(std::max<std::size_t>(speed.size(), 18), ' ');
    out.push_back("  speed   " + speed + sparkline(history, *std::ranges::max_element(history), spark, utf8_));
  }
  tokens_ = std::move(living);
  if (speeds.empty()) out.push_back("no quern process makes tokens");
  for (std::string& row : out) row = cut_row(row, columns);
  return out;
}

}  // namespace quern::cli
