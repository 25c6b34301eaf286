// matmul_id and matmul_id_backward.
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

/// The launch counts pairs and experts.
std::string check_counts(const Tensor& b, const ExpertRoles& r) {
  return first_of({r.id.elements() > 0x7fffffff ? "2^31 pairs of tokens and experts and more are not taken" : "",
                   b.present() && b.dims[0] > 65535 ? "more than 65,535 experts are not taken" : ""});
}

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
  return first_of({check_counts(r.b, r), r.b.packed_layout ? "" : check_units(r.b)});
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

std::string refuse_backward(const Call& call) {
  const ExpertRoles r(call, true);
  return first_of({check_counts(r.b, r), check_counts(call.output(1), r)});
}

std::int64_t experts_of(const Call& call) { return call.input(2).present() ? call.input(2).dims[0] : call.output(1).dims[0]; }
std::uint64_t rounded_lists(const Call& call) { return (pair_list_bytes(call.input(3).elements(), experts_of(call)) + 255) / 256 * 256; }
bool needs_parts(const Call& call) { return call.output(0).present() && call.input(1).dims[1] != call.input(3).dims[1]; }

std::uint64_t scratch_backward(const Call& call) {
  const auto parts = static_cast<std::uint64_t>(call.input(3).elements() * call.input(1).last()) * 4;
  return rounded_lists(call) + (needs_parts(call) ? parts : 0);
}

void emit_backward(const Call& call, Launcher& launcher) {
  const ExpertRoles r(call, true);
  const Tensor &da = call.output(0), &db = call.output(1);
  ExpertParams p = expert_params(r, experts_of(call), call.scratch, launcher);
  p.live = live_of(call);
  p.accumulate = call.integer(QUERN_KEY_ACCUMULATE) != 0;
  p.db = with_two_strides(db);
  make_pair_lists(p, launcher);
  if (db.present()) launcher.launch(kernels::matmul_id_db, {(p.k + tile - 1) / tile, (p.n + tile - 1) / tile, p.experts}, 256, p);
  if (!da.present() || da.elements() == 0) return;
  p.da = with_two_strides(da);
  if (needs_parts(call)) p.parts = call.scratch + rounded_lists(call);
  launcher.launch(kernels::clear_pairs, {p.tokens * p.used, 1, 1}, 256, p);
  launcher.launch(kernels::matmul_id_da, {(p.k + tile - 1) / tile, most_pair_tiles(p.tokens * p.used, p.experts, p.tile_pairs), 1}, 256, p);
  if (p.parts != 0) launcher.launch(kernels::matmul_id_da_sum, launcher.spread(p.tokens * p.k), 256, p);
}

constexpr Op table[] = {{QUERN_OP_MATMUL_ID, "matmul_id.cuda", refuse, emit, scratch},
                        {QUERN_OP_MATMUL_ID_BACKWARD, "matmul_id_backward.cuda", refuse_backward, emit_backward, scratch_backward, true}};

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

const std::span<const Op> experts_ops = table;

}  // namespace quern::cuda
