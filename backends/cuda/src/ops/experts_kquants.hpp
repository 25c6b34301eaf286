// Products with chosen experts, of any number of tokens, by kernels/experts_kquants.cu: weights of a format of kernels/kquants_formats.cuh, activations
// of f16.
#pragma once

#include "../op.hpp"

namespace quern::cuda {

/// Why the kernel does not take a matmul_id call; null: it does. What the card has is not asked: `experts_kquants_serve`.
const char* why_no_experts_kquants(const Call& product);
inline bool experts_kquants_serve(const CardFacts& card) { return card.has_bulk_copies(); }

std::uint64_t experts_kquants_scratch(const Call& product);
void launch_experts_kquants(const Call& product, Launcher& launcher);

/// A layer of experts: the products of gate and up of one operand, their gated activation, the product of down, and the sum by `weight` [t, used]
/// with a residual or 0. Its values between them are in scratch alone.
struct ExpertLayer {
  const Call &gate, &down;
  const Tensor &up, &weight;
  int activation;
  Address residual, y;  // f32 [t][n]
  Address counters;     // Call::counters
};
std::uint64_t expert_layer_scratch(const Call& gate, const Call& down);
void launch_expert_layer(const ExpertLayer& layer, Address scratch, Launcher& launcher);

}  // namespace quern::cuda
