// The gated feed-forward input of experts: packed matmul_ids gate and up of one a and one id, and their activation.
//
// The pairs are sorted and the rows of a are rounded once for both. A part multiplies the same rows of an expert's gate and up, and applies
// the activation while they are in cache: neither product has memory, and two barriers stand in place of five.
#include "packed_matmul.hpp"
#include "tables.hpp"

#include "../ops/expert_region.hpp"
#include "../ops/glu_row.hpp"

namespace quern::cpu {
namespace {

template <Isa isa>
bool is_packed_product(const Neighbours& nodes, std::uint32_t node) {
  return nodes.is(node, QUERN_OP_MATMUL_ID) && nodes.kernels[node]->packed && nodes.kernels[node]->isa == isa;
}

template <Isa isa>
std::uint32_t match(const Neighbours& nodes, std::uint32_t first, Refusal& refusal) {
  const std::uint32_t up = first + 1, glu = first + 2;
  if (!nodes.is(first, QUERN_OP_MATMUL_ID) || !nodes.is(up, QUERN_OP_MATMUL_ID) || !nodes.is(glu, QUERN_OP_GLU)) return 0;
  if (!nodes.kernels[first]->packed || !nodes.kernels[up]->packed) return refuse(refusal, 3, "its weights are not packed");
  if (!is_packed_product<isa>(nodes, first) || !is_packed_product<isa>(nodes, up)) return 0;  // another row's
  const Tensor &gate_weights = nodes.calls[first].input(1), &up_weights = nodes.calls[up].input(1);
  const PackedLayout &gate_layout = *nodes.calls[first].layout, &up_layout = *nodes.calls[up].layout;
  const bool alike = nodes.input(first, 0) == nodes.input(up, 0) && nodes.input(first, 2) == nodes.input(up, 2) &&
                     gate_weights.dims[0] == up_weights.dims[0] && gate_layout.activations == up_layout.activations &&
                     gate_layout.panel_rows == up_layout.panel_rows;
  const bool floats = nodes.calls[first].output(0).dtype == QUERN_F32 && nodes.calls[up].output(0).dtype == QUERN_F32;
  if (nodes.input(glu, 0) != nodes.output(first, 0) || nodes.input(glu, 1) != nodes.output(up, 0))
    return refuse(refusal, 3, "its activation does not multiply up by gate");
  if (!alike) return refuse(refusal, 3, "gate and up have other operands, experts, sizes or layouts");
  if (!floats) return refuse(refusal, 3, "gate or up is not f32");
  if (nodes.kernels[glu]->isa != vector_isa(isa)) return refuse(refusal, 3, "its activation has another kernel");
  if (!nodes.inner(first, first, 3) || !nodes.inner(up, first, 3)) return refuse(refusal, 3, "gate or up is read by another node too");
  return 3;
}

template <Isa isa>
void run(std::span<const Call> calls, Context& context) noexcept {
  const Call& glu = calls[2];
  const Tensor& y = glu.output(0);
  if (y.data == 0) return;  // nothing reads it
  ExpertRegion region(calls.first(2), isa);
  region.prepare(context, y);
  region.each_part(context, [&](const ExpertTile& tile, std::uint32_t thread) {
    float *gate = region.staged(context, thread, 0), *up = region.staged(context, thread, 1), *single = region.single_row(y, tile);
    region.multiply(context, thread, 0, tile, gate, tile.rows);
    region.multiply(context, thread, 1, tile, up, tile.rows);
    GluRow rows = glu_row(glu);
    rows.gate = gate;
    rows.up = up;
    rows.n = tile.tokens * tile.rows;
    rows.y = single != nullptr ? single : gate;
    region.vectors().glu(rows);
    if (single == nullptr) region.store(y, tile, gate);
  });
}

template <Isa isa>
std::uint64_t scratch(std::span<const Call> calls) {
  return ExpertRegion(calls.first(2), isa).scratch_bytes(calls[0].thread_count);
}

constexpr Fusion fusions[] = {
    {"matmul_id_glu.packed.amx", match<Isa::amx>, run<Isa::amx>, scratch<Isa::amx>},
    {"matmul_id_glu.packed.avx512", match<Isa::avx512>, run<Isa::avx512>, scratch<Isa::avx512>},
    {"matmul_id_glu.packed.avx2", match<Isa::avx2>, run<Isa::avx2>, scratch<Isa::avx2>},
};

}  // namespace

const std::span<const Fusion> matmul_id_glu_fusions = fusions;

}  // namespace quern::cpu
