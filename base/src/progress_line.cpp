#include "quern/base/progress_line.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/base/terminal_output.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace quern {
namespace {

std::string tenths(double value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, 1).ptr;
  return {digits.data(), end};
}

/// "1.2 of 2.3 GiB", with the unit once where it is the same.
std::string amount(const ProgressState& state) {
  if (state.item != nullptr)
    return std::to_string(state.done) + (state.total == 0 ? "" : " of " + std::to_string(state.total)) + " " + state.item;
  std::string done = byte_words(state.done);
  if (state.total == 0) return done;
  const std::string total = byte_words(state.total);
  const std::size_t unit = total.find(' ');
  if (done.ends_with(total.substr(unit))) done.resize(done.size() - (total.size() - unit));
  return done + " of " + total;
}

double speed(const ProgressState& state) {
  if (state.seconds < 1 || state.done <= state.first) return 0;
  return static_cast<double>(state.done - state.first) / state.seconds;
}

std::vector<std::string> parts(const ProgressState& state) {
  std::vector<std::string> all{amount(state)};
  const double rate = speed(state);
  if (rate <= 0) return all;
  all.push_back(state.item == nullptr ? byte_words(static_cast<std::uint64_t>(rate)) + "/s" : tenths(rate) + " " + state.item + "/s");
  if (state.total > state.done) all.push_back(duration_words(static_cast<double>(state.total - state.done) / rate) + " left");
  return all;
}

}  // namespace

std::string duration_words(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return std::to_string(whole) + " s";
  const std::uint64_t minutes = (whole + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h" + (minutes % 60 == 0 ? "" : " " + std::to_string(minutes % 60) + " min");
}

std::optional<std::string> ProgressMeter::line(std::uint64_t done, std::uint64_t total, int columns) {
  const Clock::time_point now = Clock::now();
  if (!begun_) {
    state_.first = done;
    started_ = now;
  } else if (done < total && now - drawn_ < std::chrono::milliseconds(100)) {
    return std::nullopt;
  }
  begun_ = true;
  drawn_ = now;
  state_.done = done;
  state_.total = total;
  state_.seconds = std::chrono::duration<double>(now - started_).count();
  return progress_line(state_, columns);
}

std::string progress_line(const ProgressState& state, int columns) {
  constexpr std::size_t least_bar = 10, most_bar = 40;
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 20));
  const double share = state.total == 0 ? 0 : std::min(1.0, static_cast<double>(state.done) / static_cast<double>(state.total));
  const std::string percent = state.total == 0 ? "" : " " + std::to_string(static_cast<int>(share * 100)) + " %";
  std::string head = state.verb + " " + printable(state.label);
  const std::size_t frame = state.total == 0 ? 0 : least_bar + 3;  // " [" and "]"
  if (columns_of(head) + frame + percent.size() > room) head = state.verb;
  std::string tail = percent;
  for (const std::string& part : parts(state)) {
    const std::string next = (tail.empty() ? " " : ", ") + part;
    if (columns_of(head) + frame + columns_of(tail) + columns_of(next) > room) break;
    tail += next;
  }
  if (state.total == 0) return head + tail;
  const std::size_t taken = columns_of(head) + columns_of(tail) + 3;
  const std::size_t width = std::min(most_bar, room - std::min(room, taken));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return head + " [" + std::string(filled, '#') + std::string(width - filled, '.') + "]" + tail;
}

}  // namespace quern
