// What the fusions around packed products ask of a node. Their ISA is that of the packed kernel which plain selection chose.
#pragma once

#include "fusion.hpp"

#include "../ops/packed_region.hpp"

#include <string_view>

namespace quern::cpu {

/// x is a matrix of packed f32 rows.
inline bool is_float_rows(const Tensor& x) noexcept {
  return x.dtype == QUERN_F32 && x.rank == 2 && has_packed_rows(x) && x.strides[0] % 4 == 0;
}

/// Whose vector kernels stand beside packed kernels of `isa`: tiles multiply, and do nothing else.
constexpr Isa vector_isa(Isa isa) noexcept { return isa == Isa::amx ? Isa::avx512 : isa; }

/// Refuses `count` nodes from the first on.
inline std::uint32_t refuse(Refusal& refusal, std::uint32_t count, const char* reason) noexcept {
  refusal = {reason, count};
  return 0;
}

/// What keeps a matmul from being one of packed weights, of whatever ISA, that reads and writes matrices of f32; null: nothing.
inline const char* why_no_packed_matmul(const Neighbours& nodes, std::uint32_t node) noexcept {
  if (!nodes.kernels[node]->packed) return "its weights are not packed";
  if (!is_float_rows(nodes.calls[node].input(0)) || !is_float_rows(nodes.calls[node].output(0)))
    return "its operand or its result is no matrix of packed f32 rows";
  return nullptr;
}

/// A matmul of packed weights of `isa` that reads and writes matrices of f32.
inline bool is_packed_matmul(const Neighbours& nodes, std::uint32_t node, Isa isa) noexcept {
  if (!nodes.is(node, QUERN_OP_MATMUL) || !nodes.kernels[node]->packed || nodes.kernels[node]->isa != isa) return false;
  return is_float_rows(nodes.calls[node].input(0)) && is_float_rows(nodes.calls[node].output(0));
}

/// Two packed matmuls that can share their rounded rows.
inline bool share_rows(const Neighbours& nodes, std::uint32_t one, std::uint32_t other) noexcept {
  return nodes.input(one, 0) == nodes.input(other, 0) && nodes.calls[one].layout->activations == nodes.calls[other].layout->activations;
}

/// Node `node` is an rms_norm of f32 rows by the vector kernel that goes with `isa`; `y` is what it writes.
inline bool is_vector_norm(const Neighbours& nodes, std::uint32_t node, Isa isa, std::uint32_t y) noexcept {
  return nodes.is(node, QUERN_OP_RMS_NORM) && nodes.kernels[node]->isa == vector_isa(isa) && nodes.output(node, 0) == y &&
         is_float_rows(nodes.calls[node].input(0)) && is_float_rows(nodes.calls[node].output(0));
}

/// 1 if node `first` is an rms_norm that gives a of the packed matmul behind it, else 0.
inline std::uint32_t leading_norm(const Neighbours& nodes, std::uint32_t first, Isa isa) noexcept {
  return is_packed_matmul(nodes, first + 1, isa) && is_vector_norm(nodes, first, isa, nodes.input(first + 1, 0)) ? 1 : 0;
}

inline const Call* norm_of(std::span<const Call> calls) noexcept { return calls[0].op == QUERN_OP_RMS_NORM ? &calls[0] : nullptr; }

}  // namespace quern::cpu
