// Rows of f32 logits, which kernels read packed: strided ones are copied to scratch and back.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Why its logits, or what belongs to their rows, cannot be read.
std::string refuse_logits(const Call& call);
/// Bytes of a packed copy of x, and of copies of x and y.
std::uint64_t copy_bytes(const Tensor& x);
std::uint64_t copies_bytes(const Call& call);
/// The same logits packed at `at`, which moves on; those that are packed as they are.
Tensor packed_at(const Tensor& x, Address& at);
Tensor packed_input(const Call& call, Address& at, Launcher& launcher);
void unpack_output(const Call& call, const Tensor& packed, Launcher& launcher);

}  // namespace quern::cuda
