// Gradients of matmul_id.
#include "../kernels/tile_product.hpp"

#include "expert_pairs.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

constexpr std::int64_t gradient_tile = product_tile;  // outputs of a block

std::string refuse_matmul_id_backward(const Call& call) {
  const ExpertRoles r(call, true);
  return first_of({check_expert_counts(r.b, r), check_expert_counts(call.output(1), r)});
}

std::int64_t experts_of(const Call& call) { return call.input(2).present() ? call.input(2).dims[0] : call.output(1).dims[0]; }
std::uint64_t rounded_lists(const Call& call) { return (pair_list_bytes(call.input(3).elements(), experts_of(call)) + 255) / 256 * 256; }
bool needs_parts(const Call& call) { return call.output(0).present() && call.input(1).dims[1] != call.input(3).dims[1]; }

std::uint64_t scratch_matmul_id_backward(const Call& call) {
  const auto parts = static_cast<std::uint64_t>(call.input(3).elements() * call.input(1).last()) * 4;
  return rounded_lists(call) + (needs_parts(call) ? parts : 0);
}

void emit_matmul_id_backward(const Call& call, Launcher& launcher) {
  const ExpertRoles r(call, true);
  const Tensor &da = call.output(0), &db = call.output(1);
  ExpertParams p = expert_params(r, experts_of(call), call.scratch, launcher);
  p.live = live_of(call);
  p.accumulate = call.integer(QUERN_KEY_ACCUMULATE) != 0;
  p.db = with_two_strides(db);
  make_pair_lists(p, launcher);
  if (db.present())
    launcher.launch(kernels::matmul_id_db,
                    {(p.k + gradient_tile - 1) / gradient_tile, (p.n + gradient_tile - 1) / gradient_tile, p.experts}, 256, p);
  if (!da.present() || da.elements() == 0) return;
  p.da = with_two_strides(da);
  if (needs_parts(call)) p.parts = call.scratch + rounded_lists(call);
  launcher.launch(kernels::clear_pairs, {p.tokens * p.used, 1, 1}, 256, p);
  launcher.launch(kernels::matmul_id_da,
                  {(p.k + gradient_tile - 1) / gradient_tile, most_pair_tiles(p.tokens * p.used, p.experts, p.tile_pairs), 1}, 256, p);
  if (p.parts != 0) launcher.launch(kernels::matmul_id_da_sum, launcher.spread(p.tokens * p.k), 256, p);
}

}  // namespace

const Op matmul_id_backward_op{QUERN_OP_MATMUL_ID_BACKWARD, "matmul_id_backward.cuda",  refuse_matmul_id_backward,
                               emit_matmul_id_backward,     scratch_matmul_id_backward, true};

}  // namespace quern::cuda
