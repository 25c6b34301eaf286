// Counts the C++ allocations of the test program and of the plugins that it loads.
#ifndef QUERN_TESTS_PLUGIN_API_COUNT_ALLOCATIONS_HPP
#define QUERN_TESTS_PLUGIN_API_COUNT_ALLOCATIONS_HPP

#include <cstdint>

namespace quern_test {
std::uint64_t allocations_so_far();
}

#endif
