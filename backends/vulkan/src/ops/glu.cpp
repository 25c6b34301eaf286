// y = f(gate) * up, two inputs or two halves of one; and what its gradient launches.
#include "glu.hpp"
#include "tables.hpp"

#include <cmath>

namespace quern::vulkan {
namespace {

Tensor glu_half(const Tensor& t, bool second) {
  Tensor h = t;
  if (h.rank == 0) return h;
  h.dims[h.rank - 1] /= 2;
  if (second) h.data += static_cast<std::uint64_t>(h.dims[h.rank - 1] * h.strides[h.rank - 1]);
  return h;
}

void emit_glu(const Call& call, Launcher& launcher) { launch_glu(call, glu_factors(call, {}, {}), call.output(0), false, launcher); }

}  // namespace

const Op glu_op = offer(QUERN_OP_GLU, "glu.vulkan", nullptr, emit_glu);

GluFactors glu_factors(const Call& call, const Tensor& dgate, const Tensor& dup) {
  const Tensor &gate = call.input(0), &up = call.input(1);
  if (up.present()) return {gate, up, dgate, dup};
  const bool swapped = call.flag(QUERN_KEY_SWAPPED);
  return {glu_half(gate, swapped), glu_half(gate, !swapped), glu_half(dgate, swapped), glu_half(dgate, !swapped)};
}

void launch_glu(const Call& call, const GluFactors& f, const Tensor& y, bool backward, Launcher& launcher) {
  for_each_part(y, {&f.gate, &f.up, &y, &f.dgate, &f.dup}, [&](const Shape& shape, const View* v) {
    const float limit = call.number(QUERN_KEY_LIMIT);
    const GluParams p{shape, v[0], v[1], v[2], v[3], v[4], call.number(QUERN_KEY_ALPHA), limit, std::isfinite(limit) ? 1 : 0, 0};
    launcher.launch("glu", launcher.item_threads(), launcher.spread(shape.count), p,
                    {static_cast<std::int32_t>(call.integer(QUERN_KEY_KIND)), backward ? 1 : 0});
  });
}

}  // namespace quern::vulkan
