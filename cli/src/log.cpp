#include "log.hpp"

#include "output.hpp"
#include "progress.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace quern::cli {
namespace {

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("quern", std::make_shared<spdlog::sinks::stderr_sink_mt>());
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
  erase_progress();
  logger().log(spdlog_level(level), "{}: {}", component, printable(text));
}

}  // namespace quern::cli
