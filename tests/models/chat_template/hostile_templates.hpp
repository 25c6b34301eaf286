// Templates that ask for as much time, memory or stack as a few characters can, each in a way of its own.
#pragma once

#include <string>
#include <vector>

namespace quern {

struct HostileTemplate {
  std::string name;
  std::string source;
};

/// At least one for each filter, method, operator and tag whose work a template can make large.
std::vector<HostileTemplate> hostile_templates();

}  // namespace quern
