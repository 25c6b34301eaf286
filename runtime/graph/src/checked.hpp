// Signed 64-bit arithmetic that says when it overflows.
#pragma once

#include <cstdint>

namespace quern::graph {

inline bool multiply_overflows(std::int64_t a, std::int64_t b, std::int64_t& product) { return __builtin_mul_overflow(a, b, &product); }

inline bool add_overflows(std::int64_t a, std::int64_t b, std::int64_t& sum) { return __builtin_add_overflow(a, b, &sum); }

}  // namespace quern::graph
