// A copy of bytes under other strides.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

/// copy, and cast to the same dtype.
void run_copy(const Call& call, Context& context) noexcept;

}  // namespace quern::cpu
