// See expert_pairs.hpp.
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

Blocks pieces_of(const Tensor& weights) {
  Tensor start = weights;
  start.data = 0;
  return blocks_of(start);
}

ExpertParams expert_params(const ExpertRoles& roles, std::int64_t experts, Address lists, Launcher& launcher) {
  ExpertParams p{};
  p.a = with_two_strides(roles.a);
  p.b = with_two_strides(roles.b);
  p.y = with_two_strides(roles.y);
  p.id = rows_of(roles.id);
  p.b_blocks = is_block(roles.b.dtype);
  if (p.b_blocks) p.pieces = pieces_of(roles.b);
  p.tokens = roles.id.dims[0];
  p.used = roles.id.dims[1];
  p.experts = experts;
  p.n = roles.y.dims[2];
  p.k = roles.a.dims[2];
  p.tile_pairs = expert_pairs;
  p.shared_a = roles.a.dims[1] == 1 && p.used != 1;
  p.order = lists;
  p.start = p.order + static_cast<Address>(p.tokens * p.used) * 4;
  p.tiles = p.start + static_cast<Address>(experts + 1) * 4;
  p.faults = launcher.faults();
  return p;
}

void make_pair_lists(const ExpertParams& p, Launcher& launcher) {
  launcher.launch(kernels::expert_lists, {p.experts, 1, 1}, 256, p);
  launcher.launch(kernels::expert_tiles, {1, 1, 1}, 32, p);
}

}  // namespace quern::cuda
