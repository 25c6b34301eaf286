// See expert_pairs.hpp.
#include "expert_pairs.hpp"

#include "strided.hpp"

namespace quern::cuda {

std::string check_expert_counts(const Tensor& b, const ExpertRoles& r) {
  return first_of({r.id.elements() > 0x7fffffff ? "2^31 pairs of tokens and experts and more are not taken" : "",
                   b.present() && b.dims[0] > 65535 ? "more than 65,535 experts are not taken" : ""});
}

ExpertParams expert_params(const ExpertRoles& roles, std::int64_t experts, Address lists, Launcher& launcher) {
  ExpertParams p{};
  p.a = with_two_strides(roles.a);
  const ExpertMatrices b = matrices_of(roles.b);
  p.b = b.of;
  p.b_blocks = b.blocks ? 1 : 0;
  p.pieces = b.pieces;
  p.row_sixteens = b.row_sixteens;
  p.y = with_two_strides(roles.y);
  p.id = rows_of(roles.id);
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
