// Products with the weights of chosen experts.
#include "experts.hpp"

#include "../kernels/tile_product.hpp"

#include "arrange.hpp"
#include "expert_pairs.hpp"
#include "experts_kquants.hpp"
#include "strided.hpp"
#include "tables.hpp"

#include <algorithm>
#include <bit>

namespace quern::cuda {
namespace {

constexpr std::int64_t tile = product_tile;  // outputs of a block

/// Outputs of a block, of few pairs.
constexpr std::int64_t few_outputs = expert_warps * expert_outputs;
/// Elements of a that a block of few pairs keeps in shared memory: 40 KiB with what keeps banks apart.
constexpr std::int64_t most_staged = 8192;

/// The shared memory that `rows` rows of a take, which p then has there; 0: they do not fit.
unsigned stage(ExpertParams& p, std::int64_t rows) {
  p.staged = rows * p.k <= most_staged ? 1 : 0;
  return p.staged != 0 ? static_cast<unsigned>(rows * expert_staged_floats(p.k) * 4) : 0;
}

/// The kernel of `experts_mma` that the numerics allow and the operands suit; null: none.
const KernelId<ExpertParams>* matrix_kernel(const Call& call, const ExpertRoles& r, Launcher& launcher) {
  if (call.invariant || !launcher.card().has_matrix_units() || r.a.last() % 32 != 0) return nullptr;
  if (is_block(r.b.dtype)) return call.bf16_allowed() ? &kernels::matmul_id_blocks : nullptr;
  const bool whole_vectors = r.b.data % 16 == 0 && r.b.strides[0] % 16 == 0 && r.b.strides[1] % 16 == 0 && r.b.strides[2] == 2;
  if (!whole_vectors) return nullptr;
  if (r.b.dtype == QUERN_F16) return call.f16_allowed() ? &kernels::matmul_id_f16 : nullptr;
  return r.b.dtype == QUERN_BF16 && call.bf16_allowed() ? &kernels::matmul_id_bf16 : nullptr;
}

std::string refuse(const Call& call) {
  const ExpertRoles r(call, false);
  return first_of({check_expert_counts(r.b, r), r.b.packed_layout ? "" : check_units(r.b)});
}

std::uint64_t scratch(const Call& call) {
  return why_no_experts_kquants(call) == nullptr ? experts_kquants_scratch(call)
                                                 : pair_list_bytes(call.input(2).elements(), call.input(1).dims[0]);
}

void emit(const Call& call, Launcher& launcher) {
  const ExpertRoles r(call, false);
  ExpertParams p = expert_params(r, r.b.dims[0], call.scratch, launcher);
  const std::int64_t pairs = p.tokens * p.used;
  if (experts_kquants_serve(launcher.card()) && why_no_experts_kquants(call) == nullptr) return launch_experts_kquants(call, launcher);
  if (pairs <= few_pairs && !call.invariant) {
    const unsigned shared = stage(p, 1);
    launcher.launch(kernels::matmul_id_few, {(p.n + few_outputs - 1) / few_outputs, pairs, 1}, 256, p, shared);
    return;
  }
  launcher.launch(kernels::clear_pairs, {pairs, 1, 1}, 256, p);
  make_pair_lists(p, launcher);
  if (const KernelId<ExpertParams>* kernel = matrix_kernel(call, r, launcher))
    launcher.launch(*kernel, {(p.n + expert_columns - 1) / expert_columns, most_pair_tiles(p.tokens * p.used, p.experts, p.tile_pairs), 1},
                    256, p);
  else
    launcher.launch(kernels::matmul_id, {(p.n + tile - 1) / tile, most_pair_tiles(p.tokens * p.used, p.experts, p.tile_pairs), 1}, 256, p);
}

}  // namespace

void launch_expert_glu(const Call& gate, const Tensor& up, int activation, const Tensor& y, Launcher& launcher) {
  const ExpertRoles r(gate, false);
  ExpertEndParams p{};
  p.of = expert_params(r, r.b.dims[0], gate.scratch, launcher);
  p.of.y = with_two_strides(y);
  const ExpertMatrices ups = matrices_of(up);
  p.up = ups.of;
  p.up_blocks = ups.blocks ? 1 : 0;
  p.up_pieces = ups.pieces;
  p.up_row_sixteens = ups.row_sixteens;
  p.activation = activation;
  const unsigned shared = stage(p.of, 1);
  launcher.launch(kernels::matmul_id_glu_few, {(p.of.n + few_outputs - 1) / few_outputs, p.of.tokens * p.of.used, 1}, 256, p, shared);
}

void launch_expert_sum(const Call& down, const Tensor& weight, Address residual, Address y, Launcher& launcher) {
  const ExpertRoles r(down, false);
  ExpertEndParams p{};
  p.of = expert_params(r, r.b.dims[0], down.scratch, launcher);
  p.weight = rows_of(weight);
  p.residual = residual;
  p.y = y;
  p.warps = static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(p.of.used, 1, expert_warps))));
  const std::int64_t outputs = few_outputs / p.warps;
  const unsigned shared = p.warps >= p.of.used ? stage(p.of, p.warps) : 0;
  launcher.launch(kernels::matmul_id_combine_few, {(p.of.n + outputs - 1) / outputs, p.of.tokens, 1}, 256, p, shared);
}

const Op matmul_id_op{QUERN_OP_MATMUL_ID, "matmul_id.cuda", refuse, emit, scratch};

}  // namespace quern::cuda
