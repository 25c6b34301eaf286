// y[t][u] = a[t][u or 0] b[id[t][u]]^T: products with the rows of chosen experts, with matmul's sums and bits.
//
// The (t, u) are sorted by expert, and the rows of each chosen expert are cut into parts. A part of weights is read once for all
// tokens of its expert; these are gathered into the thread's scratch, 240 at a time, except for a single one that can be read where
// it lies. Gathering once for each part costs a 64th of the multiply-adds and keeps scratch independent of the number of tokens.
#include "map_rows.hpp"
#include "matmul_id_shape.hpp"
#include "matmul_rows.hpp"
#include "row_groups.hpp"

namespace quern::cpu {
namespace {

/// Where things lie in scratch: the lists that all threads read, then each thread's floats.
struct Layout {
  std::int64_t pairs, experts;
  std::int64_t lists = 0;                            // bytes, a multiple of 64
  std::int64_t weights, activations, outputs, size;  // floats of a thread
};
Layout layout_of(const Call& call) noexcept {
  const Tensor &b = call.input(1), &id = call.input(2);
  const std::int64_t row = padded(b.dims[2]);
  Layout l{};
  l.pairs = id.elements();
  l.experts = b.dims[0];
  l.lists = row_groups_bytes(l.pairs, l.experts);
  l.weights = matmul_buffer_floats();
  l.activations = l.weights + (has_packed_rows(b) ? 0 : max_part * row);
  l.outputs = l.activations + std::min(l.pairs, max_tokens) * row;
  l.size = (l.outputs + std::min(l.pairs, max_tokens) * max_part + 15) / 16 * 16;
  return l;
}

std::uint64_t scratch(const Call& call) noexcept {
  const Layout l = layout_of(call);
  return static_cast<std::uint64_t>(l.lists) + static_cast<std::uint64_t>(l.size) * 4 * call.thread_count;
}

/// Rows [first, first + part.rows) of one expert for all its pairs.
void one_part(const Call& call, const RowGroups& g, std::int64_t expert, std::int64_t first, MatmulPart& part, float* own, const Layout& l,
              Context& context, const Vectors& vectors) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const std::int64_t used = y.dims[1], row = padded(part.k);
  const bool fits = activations_fit(a, a.strides[0], part.k) && a.strides[1] % 4 == 0;
  const auto activations = [&](std::int64_t pair) {
    return bytes_of(a) + pair / used * a.strides[0] + (a.dims[1] == 1 ? 0 : pair % used * a.strides[1]);
  };
  part.buffer = own;
  set_weights(part, b.dtype, bytes_of(b) + expert * b.strides[0], b.strides[1], b.strides[2], first,
              has_packed_rows(b) ? nullptr : own + l.weights);
  for (std::int64_t at = g.starts[expert]; at < g.starts[expert + 1] && !context.cancelled(); at += max_tokens) {
    part.tokens = std::min(max_tokens, g.starts[expert + 1] - at);
    part.a_stride = row;
    part.a = own + l.activations;
    if (part.tokens == 1 && fits) part.a = reinterpret_cast<const float*>(activations(g.order[at]));
    else
      for (std::int64_t t = 0; t < part.tokens; ++t)
        pack_activations(vectors, a.dtype, activations(g.order[at + t]), a.strides[2], part.k, own + l.activations + t * row);
    part.y = own + l.outputs;
    part.y_stride = part.rows;
    vectors.matmul(part);
    for (std::int64_t t = 0; t < part.tokens; ++t) store_row(y, g.order[at + t], first, part.rows, part.y + t * part.rows);
  }
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Tensor &b = call.input(1), &id = call.input(2), &y = call.output(0);
  const Layout l = layout_of(call);
  const auto stray = [&](std::int64_t expert) {
    if (expert != -1) context.fault(QUERN_FAULT_INDEX_RANGE);
  };
  const RowGroups g = group_rows(
      id, l.experts, context.scratch(), [](std::int64_t) { return true; }, stray);
  const std::int64_t n = b.dims[1], k = b.dims[2], given = g.starts[l.experts];
  for (std::int64_t pair = 0; given < l.pairs && pair < l.pairs; ++pair)
    if (const std::int64_t expert = load_integer(id, pair); expert < 0 || expert >= l.experts) store_zeros(y, pair);
  if (given == 0) return;
  const std::int64_t part = part_rows(k, given / g.chosen_count, n * g.chosen_count, context.thread_count()), parts = (n + part - 1) / part;
  context.parallel(g.chosen_count * parts, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* own = reinterpret_cast<float*>(context.scratch() + l.lists) + l.size * thread;
    for (std::int64_t i = begin; i < end; ++i) {
      MatmulPart p{};
      const std::int64_t first = i % parts * part;
      p.rows = std::min(part, n - first);
      p.k = k;
      one_part(call, g, g.chosen[i / parts], first, p, own, l, context, vectors_of(isa));
    }
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_WEIGHTS(QUERN_OP_MATMUL_ID, "matmul_id", check_matmul_id, run, scratch)};

}  // namespace

const std::span<const Kernel> matmul_id_kernels = kernels;

}  // namespace quern::cpu
