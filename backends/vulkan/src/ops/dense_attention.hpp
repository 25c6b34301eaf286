// What attention over dense keys and within packed examples launches, forward and backward.
#pragma once

#include "../op.hpp"

namespace quern::vulkan {

std::string refuse_dense(const Call& call);
void emit_dense(const Call& call, Launcher& launcher);
void emit_dense_backward(const Call& call, Launcher& launcher);
/// Of a dense call: none, but of its gradient.
std::uint64_t dense_scratch(const Call& call);
std::uint64_t dense_backward_scratch(const Call& call);
/// See Op.
std::int64_t dense_turns(const Call& call);
std::int64_t dense_backward_turns(const Call& call);
std::uint64_t dense_shared(const Call& call);

}  // namespace quern::vulkan
