#include "log.hpp"

#include "output.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <string_view>

namespace quern::cli {
namespace {

class MessageSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), line.size());
    while (text.ends_with('\n')) text.remove_suffix(1);
    write_error_line(text);
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("quern", std::make_shared<MessageSink>());
    made.set_pattern("%l: %v");
    made.set_level(spdlog::level::warn);
    return made;
  }();
  return instance;
}

/// QUERN_LEVEL_TRACE is 1 and spdlog's trace 0; "off" is one above critical there.
spdlog::level::level_enum spdlog_level(std::uint32_t level) {
  switch (level) {
    case QUERN_LEVEL_TRACE:
      return spdlog::level::trace;
    case QUERN_LEVEL_DEBUG:
      return spdlog::level::debug;
    case QUERN_LEVEL_INFO:
      return spdlog::level::info;
    case QUERN_LEVEL_WARN:
      return spdlog::level::warn;
    case QUERN_LEVEL_OFF:
      return spdlog::level::off;
    default:
      return spdlog::level::err;
  }
}

}  // namespace

void set_log_level(std::uint32_t level) { logger().set_level(spdlog_level(level)); }

void log_from_library(void*, std::uint32_t level, const char* component, const char* text) {
  if (!logger().should_log(spdlog_level(level))) return;
  logger().log(spdlog_level(level), "{}: {}", component, text);
}

}  // namespace quern::cli
