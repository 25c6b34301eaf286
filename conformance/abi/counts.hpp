// The numbers of things that scripts try, by what is counted.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::conformance::abi {

/// The counts of counts.def on an axis.
inline std::vector<std::size_t> counts_of(std::string_view axis) {
  constexpr std::pair<std::string_view, std::size_t> all[] = {
#define QUERN_ABI_COUNT(axis, value) {#axis, value},
#include "abi/counts.def"
#undef QUERN_ABI_COUNT
  };
  std::vector<std::size_t> counts;
  for (const auto& [name, count] : all)
    if (name == axis) counts.push_back(count);
  return counts;
}

}  // namespace quern::conformance::abi
