// One token of kv_write, for the kernel and for the fusion with rope.
#pragma once

#include "vectorised.hpp"

namespace quern::cpu {

/// Writes row `t` of x of a kv_write call, which lies at `from` with the strides of x, into its page. A position of -1 skips.
void kv_write_row(const Call& call, std::int64_t t, const std::byte* from, const Vectors& vectors, Context& context) noexcept;

}  // namespace quern::cpu
