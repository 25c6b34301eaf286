#include "log.hpp"

#include "output.hpp"

#include <atomic>
#include <string>
#include <string_view>

namespace quern::cli {
namespace {

std::atomic<std::uint32_t> least_level{QUERN_LEVEL_WARN};

std::string_view level_word(std::uint32_t level) {
  switch (level) {
    case QUERN_LEVEL_TRACE: return "trace";
    case QUERN_LEVEL_DEBUG: return "debug";
    case QUERN_LEVEL_INFO: return "info";
    case QUERN_LEVEL_WARN: return "warning";
    default: return "error";
  }
}

}  // namespace

void set_log_level(std::uint32_t level) { least_level = level; }

void log_from_library(void*, std::uint32_t level, const char* component, const char* text) {
  if (level < least_level || level >= QUERN_LEVEL_OFF) return;
  std::string line = std::string(level_word(level)) + ": " + component + ": " + text;
  while (line.ends_with('\n')) line.pop_back();
  write_error_line(line);
}

}  // namespace quern::cli
