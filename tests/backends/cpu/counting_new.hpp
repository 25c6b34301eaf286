// How often operator new was called in this program, by its plugins too.
#pragma once

#include <cstdint>

namespace quern::cpu_test {

std::uint64_t allocation_count() noexcept;

}  // namespace quern::cpu_test
