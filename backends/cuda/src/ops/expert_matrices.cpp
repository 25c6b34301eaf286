// See expert_pairs.hpp: how kernels find the matrices of experts.
#include "expert_pairs.hpp"

#include "strided.hpp"

namespace quern::cuda {

Operand with_two_strides(const Tensor& t) {
  Operand operand = operand_of(t);
  if (!t.present()) return operand;
  operand.strides[0] = t.dims[0] == 1 ? 0 : t.strides[0];
  operand.strides[1] = t.dims[1] == 1 ? 0 : t.strides[1];
  return operand;
}

ExpertMatrices matrices_of(const Tensor& weights) {
  ExpertMatrices matrices{with_two_strides(weights), {}, is_block(weights.dtype), 0};
  if (weights.packed_layout) {  // its strides are those of rows, which planes have not
    matrices.of.strides[0] = matrices.of.strides[1] = 0;
    matrices.row_sixteens = weights.last() / 16;
  }
  if (!matrices.blocks) return matrices;
  Tensor start = weights;
  start.data = 0;
  matrices.pieces = blocks_of(start);
  return matrices;
}

}  // namespace quern::cuda
