// A gated feed-forward input: packed matmuls gate and up of one a, and their GLU of any kind; an rms_norm before them too.
//
// A part multiplies the same rows of gate and up, and applies the activation while they are in cache: neither product has memory, and
// the norm, both matmuls and the activation take two barriers together.
#include "packed_matmul.hpp"
#include "tables.hpp"

#include "../ops/glu_row.hpp"

namespace quern::cpu {
namespace {

bool is_plain(const Call& matmul) noexcept { return !matmul_stages_y(matmul); }

/// What keeps gate, up and glu at `from` from being one step of `isa`; null: nothing.
template <Isa isa>
const char* why_not_gated(const Neighbours& nodes, std::uint32_t from) {
  const Call &gate = nodes.calls[from], &up = nodes.calls[from + 1], &glu = nodes.calls[from + 2];
  const PackedLayout &gate_layout = *gate.layout, &up_layout = *up.layout;
  if (nodes.input(from, 0) != nodes.input(from + 1, 0)) return "gate and up read different values";
  if (!share_rows(nodes, from, from + 1)) return "gate and up round what they read in different ways";
  if (!is_plain(gate) || !is_plain(up)) return "gate or up has a bias, an addend or a factor";
  if (gate_layout.panel_rows != up_layout.panel_rows) return "gate and up are packed in panels of different heights";
  if (nodes.kernels[from + 2]->isa != vector_isa(isa)) return "its activation has another kernel";
  if (nodes.input(from + 2, 0) != nodes.output(from, 0) || nodes.input(from + 2, 1) != nodes.output(from + 1, 0))
    return "up is multiplied before gate";
  if (!is_float_rows(glu.output(0))) return "its result is no matrix of packed f32 rows";
  if (!nodes.inner(from, from, 3) || !nodes.inner(from + 1, from, 3)) return "gate or up is read by another node too";
  return nullptr;
}

template <Isa isa>
std::uint32_t match_matmul_glu(const Neighbours& nodes, std::uint32_t first, Refusal& refusal) {
  const std::uint32_t norm = leading_norm(nodes, first, isa), from = first + norm, glu = from + 2;
  if (!nodes.is(from, QUERN_OP_MATMUL) || !nodes.is(from + 1, QUERN_OP_MATMUL) || !nodes.is(glu, QUERN_OP_GLU)) return 0;
  for (const std::uint32_t product : {from, from + 1})
    if (nodes.output(product, 0) != nodes.input(glu, 0) && nodes.output(product, 0) != nodes.input(glu, 1)) return 0;
  for (const std::uint32_t product : {from, from + 1})
    if (const char* reason = why_no_packed_matmul(nodes, product); reason != nullptr) return refuse(refusal, norm + 3, reason);
  if (!is_packed_matmul(nodes, from, isa) || !is_packed_matmul(nodes, from + 1, isa)) return 0;  // another row's
  if (const char* reason = why_not_gated<isa>(nodes, from); reason != nullptr) return refuse(refusal, norm + 3, reason);
  return norm + 3;
}

template <Isa isa>
void run_matmul_glu(std::span<const Call> calls, Context& context) noexcept {
  const Call* norm = norm_of(calls);
  const auto matmuls = calls.subspan(norm != nullptr ? 1 : 0, 2);
  const Call& up = matmuls[1];
  const Tensor& y = calls.back().output(0);
  const PackedRegion region(matmuls, isa, true);
  if (y.data == 0) return;  // nothing reads it
  region.round_rows(context, 0, norm);
  region.each_part(context, matmuls.first(1), 2, [&](const Call& gate, const PackedTile& tile, std::uint32_t thread) {
    float* products = region.staged(context, thread);
    float* to = reinterpret_cast<float*>(bytes_of(y) + tile.first_token * y.strides[0]) + tile.first_row;
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
std::uint64_t scratch_matmul_glu(std::span<const Call> calls) {
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
