// Gradients of glu: dgate = dy * up * f'(gate), dup = dy * f(gate). Without up, dgate holds both halves as gate does.
//
// SwiGLU without a limit is vectorised. Under a limit a factor that was cut has no gradient; at the limit itself it has.
#include "slopes.hpp"
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::int64_t part = 512;  // floats that a thread holds on its stack at a time

Verdict accepts_fast(const Call& call) {
  if (call.integer(QUERN_KEY_KIND) != glu_silu || std::isfinite(call.real(QUERN_KEY_LIMIT)))
    return Verdict::no("only silu without a limit is vectorised");
  return Verdict::yes();
}

/// The views of one call and where, in their rows, the two halves begin.
struct Factors {
  const Tensor &gate, &up, &dy, &dgate, &dup;
  std::int64_t gate_first, up_first;
};
Factors factors_of(const Call& call) noexcept {
  const Tensor &gate = call.input(0), &up = call.input(1), &dy = call.input(2);
  const std::int64_t half = dy.last();
  if (up.present()) return {gate, up, dy, call.output(0), call.output(1), 0, 0};
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0;
  return {gate, gate, dy, call.output(0), call.output(0), swapped ? half : 0, swapped ? 0 : half};
}

/// Calls body(gate, up, dy, count, dgate, dup) for parts of rows; dup is null where it is not wanted.
template <typename Body>
void each_part(const Call& call, Context& context, const Vectors& vectors, const Body& body) noexcept {
  const Factors f = factors_of(call);
  const std::int64_t n = f.dy.last(), parts = (n + part - 1) / part;
  context.parallel(f.dy.rows() * parts, rows_a_part(std::min(n, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float gate[part], up[part], dy[part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      const float *g = part_floats(vectors, f.gate, row, f.gate_first + first, count, gate),
                  *u = part_floats(vectors, f.up, row, f.up_first + first, count, up),
                  *d = part_floats(vectors, f.dy, row, first, count, dy);
      float *dg = output_part(f.dgate, row, f.gate_first + first, gate),
            *du = f.dup.present() ? output_part(f.dup, row, f.up_first + first, up) : nullptr;
      body(g, u, d, count, dg, du);
      finish_part(vectors, f.dgate, row, f.gate_first + first, count, dg, gate);
      if (du != nullptr) finish_part(vectors, f.dup, row, f.up_first + first, count, du, up);
    }
  });
}

template <Isa isa>
void run_fast(const Call& call, Context& context) noexcept {
  each_part(call, context, vectors_of(isa), vectors_of(isa).silu_mul_backward);
}

void run_plain(const Call& call, Context& context) noexcept {
  const std::int64_t kind = call.integer(QUERN_KEY_KIND);
  const bool limited = std::isfinite(call.real(QUERN_KEY_LIMIT));
  const auto limit = static_cast<float>(call.real(QUERN_KEY_LIMIT)),
             alpha = limited ? static_cast<float>(call.real(QUERN_KEY_ALPHA)) : 1.0f;
  each_part(call, context, portable::vectors,
            [=](const float* gate, const float* up, const float* dy, std::int64_t count, float* dgate, float* dup) {
              for (std::int64_t i = 0; i < count; ++i) {
                const float g = limited && gate[i] > limit ? limit : gate[i], d = dy[i];
                const float u = limited ? bounded(up[i], limit) + 1.0f : up[i];
                const bool gate_cut = limited && gate[i] > limit, up_cut = limited && std::fabs(up[i]) > limit;
                dgate[i] = gate_cut ? 0.0f : d * u * glu_slope(kind, g, alpha);
                if (dup != nullptr) dup[i] = up_cut ? 0.0f : d * glu_activate(kind, g, alpha);
              }
            });
}

constexpr Kernel kernels[] = {
    QUERN_CPU_KERNELS(QUERN_OP_GLU_BACKWARD, "glu_backward.silu", accepts_fast, run_fast, nullptr, false),
    {QUERN_OP_GLU_BACKWARD, "glu_backward.portable", Isa::baseline, accepts_any, run_plain},
};

}  // namespace

const std::span<const Kernel> glu_backward_kernels = kernels;

}  // namespace quern::cpu
