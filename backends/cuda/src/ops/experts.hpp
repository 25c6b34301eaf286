// Products with the weights of chosen experts as fused steps of few rows launch them.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Pairs of a token and an expert up to which each output is a warp's, in every schedule.
constexpr std::int64_t few_pairs = 32;
/// activation(gate) * up of a matmul_id call (gate's) and the weights of up, to `y`.
void launch_expert_glu(const Call& gate, const Tensor& up, int activation, const Tensor& y, Launcher& launcher);
/// The sum over a token's experts of a matmul_id call, by `weight` [t, used], and a residual or 0; f32 rows.
void launch_expert_sum(const Call& down, const Tensor& weight, Address residual, Address y, Launcher& launcher);

}  // namespace quern::cuda
