// A gated feed-forward input: packed matmuls gate and up of one a, and their GLU of any kind; an rms_norm before them too.
//
// A part multiplies the same rows of gate and up, and applies the activation while they are in cache: neither product has memory, and
// the norm, both matmuls and the activation take two barriers together.
#include "packed_matmul.hpp"
#include "tables.hpp"

#include "../ops/glu_row.hpp"

namespace quern::cpu {
namespace {

bool is_plain(const OpCall& matmul) noexcept { return !matmul_stages_y(matmul); }

/// gate, up and glu stand at `from`.
template <Isa isa>
bool is_gated(const Neighbours& nodes, std::uint32_t from) {
  if (!is_packed_matmul(nodes, from, isa) || !is_packed_matmul(nodes, from + 1, isa)) return false;
  if (!nodes.is(from + 2, QUERN_OP_GLU)) return false;
  const OpCall &gate = nodes.calls[from], &up = nodes.calls[from + 1], &glu = nodes.calls[from + 2];
  const PackedLayout &gate_layout = *gate.input(1).layout, &up_layout = *up.input(1).layout;
  return share_rows(nodes, from, from + 1) && is_plain(gate) && is_plain(up) && gate_layout.panel_rows == up_layout.panel_rows &&
         nodes.kernels[from + 2]->isa == vector_isa(isa) && nodes.input(from + 2, 0) == nodes.output(from, 0) &&
         nodes.input(from + 2, 1) == nodes.output(from + 1, 0) && is_float_rows(glu.output(0));
}

template <Isa isa>
std::uint32_t match_matmul_glu(const Neighbours& nodes, std::uint32_t first) {
  const std::uint32_t norm = leading_norm(nodes, first, isa), from = first + norm;
  if (!is_gated<isa>(nodes, from)) return 0;
  return nodes.inner(from, from, 3) && nodes.inner(from + 1, from, 3) ? norm + 3 : 0;
}

template <Isa isa>
void run_matmul_glu(std::span<const OpCall> calls, Context& context) noexcept {
  const OpCall* norm = norm_of(calls);
  const auto matmuls = calls.subspan(norm != nullptr ? 1 : 0, 2);
  const OpCall& up = matmuls[1];
  const TensorView& y = calls.back().output(0);
  const PackedRegion region(matmuls, isa, true);
  if (y.data == nullptr) return;  // nothing reads it
  region.round_rows(context, 0, norm);
  region.each_part(context, matmuls.first(1), 2, [&](const OpCall& gate, const PackedTile& tile, std::uint32_t thread) {
    float* products = region.staged(context, thread);
    float* to = reinterpret_cast<float*>(y.data + tile.first_token * y.strides[0]) + tile.first_row;
    const std::int64_t stride = y.strides[0] / 4;
    region.multiply(context, thread, gate, tile, to, stride);
    region.multiply(context, thread, up, tile, products, tile.rows);
    GluRow row = glu_row(calls.back());
    row.n = tile.rows;
    for (std::int64_t t = 0; t < tile.tokens; ++t) {
      row.gate = row.y = to + t * stride;
      row.up = products + t * tile.rows;
      region.vectors().glu(row);
    }
  });
}

template <Isa isa>
std::uint64_t scratch_matmul_glu(std::span<const OpCall> calls) {
  return PackedRegion(calls.subspan(norm_of(calls) != nullptr ? 1 : 0, 2), isa, true).scratch_bytes(calls[0].thread_count);
}

constexpr Fusion fusions_matmul_glu[] = {
    {"matmul_glu.packed.amx", match_matmul_glu<Isa::amx>, run_matmul_glu<Isa::amx>, scratch_matmul_glu<Isa::amx>},
    {"matmul_glu.packed.avx512", match_matmul_glu<Isa::avx512>, run_matmul_glu<Isa::avx512>, scratch_matmul_glu<Isa::avx512>},
    {"matmul_glu.packed.avx2", match_matmul_glu<Isa::avx2>, run_matmul_glu<Isa::avx2>, scratch_matmul_glu<Isa::avx2>},
};

}  // namespace

const std::span<const Fusion> matmul_glu_fusions = fusions_matmul_glu;

}  // namespace quern::cpu
