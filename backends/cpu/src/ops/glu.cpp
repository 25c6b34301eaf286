// glu: y = f(gate) * up, two inputs or two halves of one. The SwiGLU of packed rows is vectorised; other kinds, limits and
// layouts run in plain code with the C library's functions.
#include "glu_functions.hpp"
#include "vectorised.hpp"

#include "../error.hpp"

#include <algorithm>
#include <cmath>

namespace quern::cpu {
namespace {

Verdict accepts_glu(const OpCall& call) {
  const TensorView &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  if (Verdict v = check_floats(gate, "gate"); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  if (const std::int64_t kind = call.integer(QUERN_KEY_KIND); kind < glu_silu || kind > glu_sigmoid)
    return Verdict::no(concat("kind is ", kind, "; glu has kinds 0 to 4"));
  if (gate.rank == 0) return Verdict::invalid("gate is a scalar; glu takes rows");
  if (up.present()) {
    if (Verdict v = check_floats(up, "up"); !v) return v;
    if (Verdict v = check_same_shape(gate, "gate", up, "up"); !v) return v;
    return check_same_shape(gate, "gate", y, "y");
  }
  TensorView half = gate;
  half.dims[half.rank - 1] /= 2;
  if (row_length(gate) != 2 * row_length(half)) return Verdict::invalid(concat("gate is ", describe(gate), "; without up its rows hold two halves"));
  return check_same_shape(half, "half of gate", y, "y");
}

Verdict accepts_fast(const OpCall& call) {
  if (Verdict v = accepts_glu(call); !v) return v;
  if (call.integer(QUERN_KEY_KIND) != glu_silu || std::isfinite(call.real(QUERN_KEY_LIMIT)))
    return Verdict::no("only silu without a limit is vectorised");
  for (const TensorView* view : {&call.input(0), &call.input(1), &call.output(0)})
    if (view->present() && (view->dtype != QUERN_F32 || !rows_are_packed(*view))) return Verdict::no("a row is not packed f32");
  return Verdict::yes();
}

template <Isa isa>
void run_fast(const OpCall& call, Context& context) noexcept {
  const Vectors& vectors = vectors_of(isa);
  const TensorView &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  const std::int64_t n = row_length(y);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0;
  // Long rows are cut too, so that one token keeps every thread busy.
  constexpr std::int64_t part = 1024;
  const std::int64_t parts = (n + part - 1) / part;
  context.parallel(row_count(y) * parts, 4, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      const auto* g = reinterpret_cast<const float*>(row_pointer(gate, row));
      const auto* u = up.present() ? reinterpret_cast<const float*>(row_pointer(up, row)) : g + n;
      if (!up.present() && swapped) std::swap(g, u);
      vectors.silu_mul(g + first, u + first, count, reinterpret_cast<float*>(row_pointer(y, row)) + first);
    }
  });
}

void run_plain(const OpCall& call, Context& context) noexcept {
  const TensorView &gate = call.input(0), &up = call.input(1), &y = call.output(0);
  const std::int64_t n = row_length(y), kind = call.integer(QUERN_KEY_KIND);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0, limited = std::isfinite(call.real(QUERN_KEY_LIMIT));
  const auto limit = static_cast<float>(call.real(QUERN_KEY_LIMIT)), alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA));
  context.parallel(row_count(y), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr std::int64_t part = 256;
    float g[part], u[part];
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        if (up.present()) {
          load_row(gate, row, first, count, g);
          load_row(up, row, first, count, u);
        } else {
          load_row(gate, row, swapped ? n + first : first, count, g);
          load_row(gate, row, swapped ? first : n + first, count, u);
        }
        for (std::int64_t i = 0; i < count; ++i) {
          if (limited) {
            g[i] = g[i] > limit ? limit : g[i];
            u[i] = (u[i] > limit ? limit : u[i] < -limit ? -limit : u[i]) + 1.0f;
          }
          g[i] = glu_activate(kind, g[i], limited ? alpha : 1.0f) * u[i];
        }
        store_row(y, row, first, count, g);
      }
  });
}

constexpr Kernel kernels_glu[] = {
    QUERN_CPU_KERNELS(QUERN_OP_GLU, "glu.silu", accepts_fast, run_fast, nullptr, false),
    {QUERN_OP_GLU, "glu.portable", Isa::baseline, accepts_glu, run_plain},
};

}  // namespace

const std::span<const Kernel> glu_kernels = kernels_glu;

}  // namespace quern::cpu
