// One token of rope, for the kernel and for the fusion with the write of the cache.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

constexpr std::int64_t rope_max_head = 1024;  // elements of a head, on the stack

/// Rotates the heads of token `t` of a rope call and stores them from `to` on, in the dtype and strides of y.
void rope_row(const Call& call, std::int64_t t, std::byte* to, Context& context) noexcept;

}  // namespace quern::cpu
