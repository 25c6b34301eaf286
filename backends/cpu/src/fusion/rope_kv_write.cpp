// Rotations of neighbouring heads and the writes of the cache behind them: rope of q and k, then kv_write of k and v, a token at a time.
//
// One barrier for all of them. A rotated k that nothing but its write reads stays on the stack.
#include "tables.hpp"

#include "../ops/kv_write_row.hpp"
#include "../ops/rope_row.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::uint32_t most_nodes = 8;
constexpr std::int64_t most_floats = 4096;  // of a rotated row on the stack

/// Floats from the first to the last of a row of heads; 0: not of packed f32 heads.
std::int64_t row_floats_of(const Tensor& x) noexcept {
  return x.rank == 3 && x.dtype == QUERN_F32 && x.strides[2] == 4 && x.strides[1] == 4 * x.dims[2] ? x.dims[1] * x.dims[2] : 0;
}

/// Does `node` read memory that a node of [first, node) writes? `same`: it reads the very value of one of them, all of it.
struct Reads {
  bool any = false, same = false;
};
Reads reads_of(const Neighbours& nodes, std::uint32_t first, std::uint32_t node) noexcept {
  Reads reads;
  const std::uint32_t x = nodes.input(node, 0);
  for (std::uint32_t before = first; before < node; ++before) {
    const std::uint32_t y = nodes.output(before, 0);
    reads.any = reads.any || nodes.graph.values[x].root == nodes.graph.values[y].root;
    reads.same = reads.same || x == y;
  }
  return reads;
}

/// One or more ropes, then one or more kv_writes, all of the same tokens.
template <Isa isa>
std::uint32_t match_rope_kv_write(const Neighbours& nodes, std::uint32_t first, Refusal& refusal) {
  if (!nodes.is(first, QUERN_OP_ROPE)) return 0;
  std::uint32_t count = 0, writes = 0, kept = 0;
  const char* ended = nullptr;  // why, at a node that is a rotation or a write
  for (; count < most_nodes && first + count < nodes.graph.nodes.size(); ++count) {
    const std::uint32_t node = first + count;
    const bool rope = nodes.is(node, QUERN_OP_ROPE) && writes == 0;
    if (!rope && !nodes.is(node, QUERN_OP_KV_WRITE)) break;
    if (!rope && nodes.kernels[node]->isa != isa) {  // another row's
      ended = nullptr;
      break;
    }
    const quern_value &x = nodes.graph.source.values[nodes.input(node, 0)], &rows = nodes.graph.source.values[nodes.input(first, 0)];
    ended = "rotations and writes are of different numbers of rows";
    if (x.symbols[0] != rows.symbols[0] || x.dims[0] != rows.dims[0]) break;
    const Reads reads = reads_of(nodes, first, node);
    ended = "a node of them reads a part of what another one writes";
    if (reads.any && (rope || !reads.same)) break;  // a token's row would not be all that it needs
    ended = "no write of the cache follows the rotations";
    if (!rope) ++writes;
  }
  if (writes == 0) {
    refusal = {ended, std::max(count, 1u)};
    return 0;
  }
  for (std::uint32_t node = first; node < first + count; ++node) {
    if (!nodes.is(node, QUERN_OP_ROPE) || !nodes.inner(node, first, count)) continue;
    const std::int64_t floats = row_floats_of(nodes.calls[node].output(0));
    if (++kept > 1 || floats == 0 || floats > most_floats) {
      refusal = {kept > 1 ? "the results of two rotations are read by writes alone"
                          : "rotated heads are strided, not f32, or too wide for the stack",
                 count};
      return 0;
    }
  }
  return count;
}

template <Isa isa>
void run_rope_kv_write(std::span<const Call> calls, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  std::int64_t work = 1;
  for (const Call& call : calls) work += call.input(0).dims[1] * call.input(0).dims[2];
  const std::int64_t tokens = calls[0].input(0).dims[0], grain = std::max<std::int64_t>(1, 8192 / work);
  context.parallel(tokens, grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float kept[most_floats];  // the one rotation without memory
    auto* row = reinterpret_cast<std::byte*>(kept);
    for (std::int64_t t = begin; t < end; ++t)
      for (const Call& call : calls) {
        const Tensor &x = call.input(0), &y = call.output(0);
        if (call.op == QUERN_OP_ROPE) rope_row(call, t, y.data != 0 ? bytes_of(y) + t * y.strides[0] : row, context);
        else kv_write_row(call, t, x.data != 0 ? bytes_of(x) + t * x.strides[0] : row, vectors, context);
      }
  });
}

constexpr Fusion fusions_rope_kv_write[] = {
    {"rope_kv_write.avx512", match_rope_kv_write<Isa::avx512>, run_rope_kv_write<Isa::avx512>, nullptr},
    {"rope_kv_write.avx2", match_rope_kv_write<Isa::avx2>, run_rope_kv_write<Isa::avx2>, nullptr},
    {"rope_kv_write.portable", match_rope_kv_write<Isa::baseline>, run_rope_kv_write<Isa::baseline>, nullptr},
};

}  // namespace

const std::span<const Fusion> rope_kv_write_fusions = fusions_rope_kv_write;

}  // namespace quern::cpu
