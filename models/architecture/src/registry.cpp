// The architectures that this version runs: one row each.
#include "registry.hpp"

#include <array>

namespace quern::models {
namespace {

constexpr std::array architectures = {&llama, &qwen2, &qwen3};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture* architecture : architectures)
    if (architecture->name == name) return architecture;
  return nullptr;
}

std::string known_architectures() {
  std::string list;
  for (const Architecture* architecture : architectures) {
    if (!list.empty()) list += ", ";
    list += architecture->name;
  }
  return list;
}

}  // namespace quern::models
