// What products with chosen experts share: their tensors, and the lists of pairs of a token and an expert.
#pragma once

#include "../kernels/experts.hpp"
#include "../op.hpp"

namespace quern::cuda {

/// dy, a, b and id of a call, forward or backward.
struct ExpertRoles {
  const Tensor &a, &b, &id, &y;
  explicit ExpertRoles(const Call& call, bool backward)
      : a(call.input(backward ? 1 : 0)),
        b(call.input(backward ? 2 : 1)),
        id(call.input(backward ? 3 : 2)),
        y(backward ? call.input(0) : call.output(0)) {}
};

/// The launch counts pairs, and experts of b.
std::string check_expert_counts(const Tensor& b, const ExpertRoles& roles);
/// With strides of two dimensions, 0 where they are 1.
Operand with_two_strides(const Tensor& t);
/// Matrices of experts: what of, pieces and row_sixteens of kernels/experts.hpp are.
struct ExpertMatrices {
  Operand of;
  Blocks pieces;
  bool blocks;
  std::int64_t row_sixteens;
};
ExpertMatrices matrices_of(const Tensor& weights);

/// Bytes of the lists of pairs.
constexpr std::uint64_t pair_list_bytes(std::int64_t pairs, std::int64_t experts) {
  return static_cast<std::uint64_t>(pairs + 2 * (experts + 1)) * 4;
}
/// Without the gradient's. The lists lie at `lists`.
ExpertParams expert_params(const ExpertRoles& roles, std::int64_t experts, Address lists, Launcher& launcher);
/// Lists of each expert's pairs, in tiles of p.tile_pairs.
void make_pair_lists(const ExpertParams& p, Launcher& launcher);
/// How many tiles there are at most: each expert's last is not full.
constexpr std::int64_t most_pair_tiles(std::int64_t pairs, std::int64_t experts, std::int64_t tile_pairs) {
  const std::int64_t tiles = pairs / tile_pairs + experts;
  return tiles < pairs ? tiles : pairs;
}

}  // namespace quern::cuda
