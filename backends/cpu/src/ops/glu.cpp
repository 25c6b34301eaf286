// glu: y = f(gate) * up, two inputs or two halves of one. simd/activations.cpp has the functions and their errors.
#include "glu_row.hpp"
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

template <Isa isa>
void run_glu(const Call& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const Tensor &gate = call.input(0), &y = call.output(0), &up = call.input(1).present() ? call.input(1) : gate;
  const std::int64_t n = y.last(), half = call.input(1).present() ? 0 : n, swapped = call.integer(QUERN_KEY_SWAPPED) != 0 ? half : 0;
  // Long rows are cut too, so that one token keeps every thread busy.
  constexpr std::int64_t part = 512;
  const std::int64_t parts = (n + part - 1) / part;
  context.parallel(y.rows() * parts, rows_a_part(std::min(n, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float gates[part], ups[part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      GluRow to = glu_row(call);
      to.gate = part_floats(vectors, gate, row, swapped + first, count, gates);
      to.up = part_floats(vectors, up, row, half - swapped + first, count, ups);
      to.n = count;
      to.y = output_part(y, row, first, gates);
      vectors.glu(to);
      finish_part(vectors, y, row, first, count, to.y, gates);
    }
  });
}

constexpr Kernel kernels_glu[] = {QUERN_CPU_KERNELS(QUERN_OP_GLU, "glu", accepts_any, run_glu, nullptr, false)};

}  // namespace

const std::span<const Kernel> glu_kernels = kernels_glu;

}  // namespace quern::cpu
