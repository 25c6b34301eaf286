// A table of positions, as its op writes it and rope reads it.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

/// Why its rows cannot be addressed.
inline std::string check_rope_table(const Tensor& t) {
  return first_of({t.strides[2] == 4 && t.strides[1] == 8 ? "" : concat(describe(t), " has rows that lie apart"),
                   t.elements() >= std::int64_t{1} << 31 ? concat(describe(t), " is too large") : ""});
}

}  // namespace quern::vulkan
