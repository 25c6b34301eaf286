// y = alpha * a b^T + bias + beta * c for weights that were packed at load (packed/packed.hpp).
//
// The activations are rounded once to what the layout asks; then parts of some panels times all tokens go to the threads. An output
// has the same bits for any number of tokens and threads.
#include "matmul_epilogue.hpp"
#include "vectorised.hpp"

#include "../error.hpp"
#include "../packed/registry.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::int64_t max_tokens = 256;         // in one call of a kernel: their int8 stay in a second-level cache
constexpr std::int64_t max_panels = 32;          // in one part
constexpr std::int64_t part_bytes = 96 << 10;    // of weights, where memory is what takes time
constexpr std::int64_t part_products = 1 << 28;  // about 1 ms, where arithmetic is

template <quern_dtype Weights, Isa isa>
Verdict accepts(const OpCall& call) {
  const TensorView &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (b.layout == nullptr || b.dtype != Weights || b.layout->isa != isa) return Verdict::not_mine();
  if (b.layout->activations != Activations::f32 && !call.int8_allowed)
    return Verdict::no("the weights are packed for int8 activations, which this node does not allow");
  if (Verdict v = check_floats(a, "a"); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  const MatmulShape s = matmul_shape(call);
  if (s.a_transposed || s.b_transposed) return Verdict::no("packed weights are not transposed, nor is a");
  if (a.rank < 1) return Verdict::invalid(concat("a is ", describe(a), "; it has one dimension or more"));
  if (b.dims[1] != s.k) return Verdict::invalid(concat("a is ", describe(a), " and b is ", describe(b), "; their k differ"));
  if (y.rank != a.rank || y.dim_from_end(0) != s.n || (a.rank > 1 && y.dim_from_end(1) != s.m))
    return Verdict::invalid(concat("y is ", describe(y), " for a of ", describe(a), " and b of ", describe(b)));
  for (std::uint32_t d = 2; d < a.rank; ++d)
    if (y.dim_from_end(d) != a.dim_from_end(d)) return Verdict::invalid(concat("y is ", describe(y), " for a of ", describe(a)));
  return check_matmul_epilogue(call, s.n);
}

/// Where things lie in scratch: rounded activations first, then a block for each thread.
struct ScratchPlan {
  std::int64_t row_bytes, kernel_floats, staged_floats, input_floats, thread_floats;
};
ScratchPlan scratch_plan(const OpCall& call, const MatmulShape& s) noexcept {
  const PackedLayout& layout = *call.input(1).layout;
  ScratchPlan p{};
  p.row_bytes = activation_row_bytes(layout.activations, s.k);
  p.kernel_floats = layout.scratch_floats != nullptr ? (layout.scratch_floats(s.k) + 15) / 16 * 16 : 0;
  p.staged_floats = matmul_stages_y(call) ? max_panels * layout.panel_rows * std::min(s.m, max_tokens) : 0;
  p.input_floats = (s.k + 15) / 16 * 16;
  p.thread_floats = p.kernel_floats + (p.staged_floats + 15) / 16 * 16 + p.input_floats;
  return p;
}
std::uint64_t scratch(const OpCall& call) noexcept {
  const MatmulShape s = matmul_shape(call);
  const ScratchPlan p = scratch_plan(call, s);
  return static_cast<std::uint64_t>(s.m * p.row_bytes + p.thread_floats * 4 * call.thread_count);
}

/// Rows of a in the layout's form; a row that is not packed f32 goes through `buffer`.
void round_rows(const OpCall& call, const PackedSet& set, std::int64_t batch, std::int64_t begin, std::int64_t end, std::int64_t row_bytes,
                float* buffer, std::byte* out, const Vectors& vectors) noexcept {
  const TensorView& a = call.input(0);
  const Activations kind = call.input(1).layout->activations;
  const std::int64_t k = row_length(a);
  const std::byte* data = matmul_batch(a, a, batch);
  for (std::int64_t t = begin; t < end; ++t) {
    const std::byte* from = data + t * a.stride_from_end(1);
    std::byte* to = out + t * row_bytes;
    float* target = kind == Activations::f32 ? reinterpret_cast<float*>(to) : buffer;
    const float* row = target;
    if (!rows_are_packed(a)) load_floats(from, a.dtype, a.stride_from_end(0), 0, k, target);
    else if (a.dtype != QUERN_F32) vectors.to_floats(a.dtype, from, k, target);
    else if (kind == Activations::f32) __builtin_memcpy(to, from, static_cast<std::size_t>(k) * 4);
    else row = reinterpret_cast<const float*>(from);
    if (kind != Activations::f32) set.quantise(kind, row, k, 1, k, to);
  }
}

void one_batch(const OpCall& call, const MatmulShape& s, std::int64_t batch, const PackedSet& set, Context& context,
               const Vectors& vectors) noexcept {
  const TensorView &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const PackedLayout& layout = *b.layout;
  const ScratchPlan plan = scratch_plan(call, s);
  std::byte* activations = context.scratch();
  float* thread_blocks = reinterpret_cast<float*>(context.scratch() + s.m * plan.row_bytes);
  context.parallel(s.m, rows_a_part(s.k, 16384), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* own = thread_blocks + (thread + 1) * plan.thread_floats - plan.input_floats;
    round_rows(call, set, batch, begin, end, plan.row_bytes, own, activations, vectors);
  });

  const std::int64_t panels = packed_panels(layout, s.n), panel_bytes = layout.panel_bytes(s.k);
  const std::int64_t by_memory = part_bytes / panel_bytes, by_products = part_products / (layout.panel_rows * s.k * std::max<std::int64_t>(1, s.m));
  std::int64_t part = std::clamp<std::int64_t>(std::min(by_memory, by_products) / 4 * 4, 4, max_panels);
  while (part > 4 && panels < part * context.thread_count() * 4) part -= 4;
  const bool stage = matmul_stages_y(call);
  context.parallel((panels + part - 1) / part, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    float* own = thread_blocks + thread * plan.thread_floats;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * part, first_row = first * layout.panel_rows;
      PackedPart p{};
      p.panels = b.data + first * panel_bytes;
      p.panel_count = std::min(part, panels - first);
      p.rows = std::min(p.panel_count * layout.panel_rows, s.n - first_row);
      p.k = s.k;
      p.scratch = own;
      for (std::int64_t t = 0; t < s.m && !context.cancelled(); t += max_tokens) {
        p.tokens = std::min(max_tokens, s.m - t);
        p.activations = activations + t * plan.row_bytes;
        p.y = stage ? own + plan.kernel_floats : reinterpret_cast<float*>(matmul_batch(y, a, batch) + t * y.stride_from_end(1)) + first_row;
        p.y_stride = stage ? p.rows : y.stride_from_end(1) / 4;
        layout.multiply(p);
        if (stage) matmul_finish(call, p.y, batch, t, p.tokens, first_row, p.rows);
      }
    }
  });
}

template <Isa isa>
void run(const OpCall& call, Context& context) noexcept {
  const MatmulShape s = matmul_shape(call);
  const PackedSet& set = isa == Isa::avx512 ? packed_set_avx512_vnni() : packed_set_avx2();
  for (std::int64_t batch = 0; batch < s.batches && !context.cancelled(); ++batch)
    one_batch(call, s, batch, set, context, vectors_of(isa));
}

#define QUERN_CPU_PACKED(dtype, name)                                                                                                \
  {QUERN_OP_MATMUL, "matmul." name ".packed.avx512", Isa::avx512, accepts<dtype, Isa::avx512>, run<Isa::avx512>, scratch, false, true}, \
  {QUERN_OP_MATMUL, "matmul." name ".packed.avx2", Isa::avx2, accepts<dtype, Isa::avx2>, run<Isa::avx2>, scratch, false, true}
constexpr Kernel kernels[] = {
    QUERN_CPU_PACKED(QUERN_F32, "f32"),   QUERN_CPU_PACKED(QUERN_F16, "f16"),   QUERN_CPU_PACKED(QUERN_BF16, "bf16"),
    QUERN_CPU_PACKED(QUERN_Q4_0, "q4_0"), QUERN_CPU_PACKED(QUERN_Q4_1, "q4_1"), QUERN_CPU_PACKED(QUERN_Q5_0, "q5_0"),
    QUERN_CPU_PACKED(QUERN_Q5_1, "q5_1"), QUERN_CPU_PACKED(QUERN_Q8_0, "q8_0"), QUERN_CPU_PACKED(QUERN_Q4_K, "q4_k"),
    QUERN_CPU_PACKED(QUERN_Q5_K, "q5_k"), QUERN_CPU_PACKED(QUERN_Q6_K, "q6_k"),
};
#undef QUERN_CPU_PACKED

}  // namespace

const std::span<const Kernel> matmul_packed_kernels = kernels;

}  // namespace quern::cpu
