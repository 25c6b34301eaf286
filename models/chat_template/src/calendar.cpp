// The directives of strftime that depend on nothing but a date and a time.
#include "calendar.hpp"

#include "quern/graph/error.hpp"

#include "text.hpp"

#include <algorithm>
#include <array>

namespace quern::jinja {

namespace {

constexpr std::array<std::string_view, 7> days = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {"January", "February", "March",     "April",   "May",      "June",
                                                     "July",    "August",   "September", "October", "November", "December"};

bool is_leap(int year) noexcept { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int year, int month) noexcept {
  constexpr std::array<int, 12> lengths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return lengths[static_cast<std::size_t>(month)] + (month == 1 && is_leap(year) ? 1 : 0);
}

class TimeFormatter {
 public:
  TimeFormatter(Runtime& runtime, const std::tm& time) : runtime_(runtime), out_(runtime), time_(time), year_(time.tm_year + 1900) {
    check("tm_year", year_, 1000, 9999);
    check("tm_mon", time.tm_mon, 0, 11);
    check("tm_mday", time.tm_mday, 1, days_in_month(year_, time.tm_mon));
    check("tm_hour", time.tm_hour, 0, 23);
    check("tm_min", time.tm_min, 0, 59);
    check("tm_sec", time.tm_sec, 0, 60);
    day_of_year_ = time.tm_mday;
    for (int month = 0; month < time.tm_mon; ++month) day_of_year_ += days_in_month(year_, month);
    const int past = year_ - 1;
    weekday_ = (past * 365 + past / 4 - past / 100 + past / 400 + day_of_year_) % 7;  // 1 January of year 1: a Monday
  }

  void format(std::string_view format) {
    for (std::size_t i = 0; i < format.size(); ++i) {
      runtime_.step();
      if (format[i] != '%') {
        const std::size_t end = std::min(find_text(runtime_, format, "%", i), format.size());
        out_.append(format.substr(i, end - i));
        i = end - 1;
        continue;
      }
      unpadded_ = i + 1 < format.size() && format[i + 1] == '-';
      i += unpadded_ ? 2 : 1;
      if (i >= format.size()) runtime_.fail("strftime_now: the format ends in '%'");
      directive(format[i], character_at(format, i));
    }
  }

  Value finish(const Text& format) {
    out_.made_of(format);
    return out_.finish();
  }

 private:
  void check(std::string_view field, int value, int low, int high) const {
    if (value < low || value > high) {
      runtime_.refuse(concat("strftime_now: the time given has ", field, " = ", value, ", outside of ", low, " to ", high));
    }
  }

  void number(int value, std::size_t width, char fill = '0') {
    const std::string text = std::to_string(value);
    if (!unpadded_ && text.size() < width) out_.append(width - text.size(), std::string_view(&fill, 1));
    out_.append(text);
  }

  // `character` is the whole of what begins with `c`, for the message.
  void directive(char c, std::string_view character) {
    const std::string_view day = days[static_cast<std::size_t>(weekday_)];
    const std::string_view month = months[static_cast<std::size_t>(time_.tm_mon)];
    switch (c) {
      case '%': out_.append("%"); break;
      case 'n': out_.append("\n"); break;
      case 't': out_.append("\t"); break;
      case 'Y': number(year_, 4); break;
      case 'y': number(year_ % 100, 2); break;
      case 'C': number(year_ / 100, 2); break;
      case 'm': number(time_.tm_mon + 1, 2); break;
      case 'd': number(time_.tm_mday, 2); break;
      case 'e': number(time_.tm_mday, 2, ' '); break;
      case 'j': number(day_of_year_, 3); break;
      case 'H': number(time_.tm_hour, 2); break;
      case 'I': number((time_.tm_hour + 11) % 12 + 1, 2); break;
      case 'M': number(time_.tm_min, 2); break;
      case 'S': number(time_.tm_sec, 2); break;
      case 'w': number(weekday_, 1); break;
      case 'u': number(weekday_ == 0 ? 7 : weekday_, 1); break;
      case 'p': out_.append(time_.tm_hour < 12 ? "AM" : "PM"); break;
      case 'A': out_.append(day); break;
      case 'a': out_.append(day.substr(0, 3)); break;
      case 'B': out_.append(month); break;
      case 'b':
      case 'h': out_.append(month.substr(0, 3)); break;
      case 'F': format("%Y-%m-%d"); break;
      case 'T':
      case 'X': format("%H:%M:%S"); break;
      case 'R': format("%H:%M"); break;
      case 'D':
      case 'x': format("%m/%d/%y"); break;
      case 'c': format("%a %b %e %H:%M:%S %Y"); break;
      case 'r': format("%I:%M:%S %p"); break;
      case 'Z':
      case 'z': break;  // a local time without a zone prints nothing
      default: runtime_.unsupported(concat("strftime_now: the directive '%", character, "' is not offered"));
    }
  }

  Runtime& runtime_;
  TextBuilder out_;
  const std::tm& time_;
  int year_;
  int day_of_year_ = 0;
  int weekday_ = 0;
  bool unpadded_ = false;
};

}  // namespace

Value format_time(Runtime& runtime, const Text& format, const std::tm& time) {
  TimeFormatter formatter(runtime, time);
  formatter.format(format.text);
  return formatter.finish(format);
}

}  // namespace quern::jinja
