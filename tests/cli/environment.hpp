// An environment of a test's own instead of the process's.
#pragma once

#include "settings.hpp"

#include <map>
#include <optional>
#include <string>

namespace quern::cli {

using Variables = std::map<std::string, std::string>;

inline Environment environment(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return {};
    return found->second;
  };
}

}  // namespace quern::cli
