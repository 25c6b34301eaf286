// See wide_products.hpp.
#include "wide_products.hpp"

#include "ops/arrange.hpp"

#include <algorithm>
#include <span>

namespace quern::cuda {
namespace {

/// Where a product's rows go: `row` elements apart.
struct Target {
  Address y, c, bias;
  std::int64_t row;
};

Shadows::Source source_of(const Part& part, const StepContext& context) { return {context.tensor(part.weight), context.order(part.order)}; }

/// One product, its weights copied to scratch first where there is no 16-bit copy.
void product(const Shadows::Source& source, Address operand, float scale, bool half, std::int64_t m, const Target& to, Address workspace,
             Launcher& launcher, bool y16 = false) {
  const Tensor& w = source.matrix;
  Address weights = launcher.gpu().shadows().find(source);
  if (weights == 0) {
    launch_unpack(w, source.order, workspace, launcher);
    weights = workspace;
  }
  const auto k = static_cast<int>(w.last());
  launcher.dense({.x = {operand, k, 0},
                  .w = {weights, k, 0},
                  .bias = to.bias,
                  .c = to.c,
                  .y = to.y,
                  .m = static_cast<int>(m),
                  .n = static_cast<int>(w.dims[0]),
                  .k = k,
                  .row = static_cast<int>(to.row),
                  .alpha = 1.0f / scale,
                  .y16 = y16},
                 half);
}

/// The parameters of kernels/mixed.cu for the products of an operand.
MixedParams mixed_params(std::span<const Part> parts, const OperandAt& in, std::int64_t m, const StepContext& context) {
  MixedParams p{};
  p.t = static_cast<int>(m);
  p.columns = room_of(true, m);
  p.parts = static_cast<int>(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    p.part[i].w = blocks_of_rows(context.tensor(parts[i].weight), parts[i].first);
    p.part[i].rows = static_cast<int>(parts[i].rows);
  }
  p.k = static_cast<int>(in.k);
  p.x = context.extra(in.slot);
  p.alpha = 1.0f / in.scale;
  return p;
}

void take_raw(MixedParams& p, const FrontNorm& norm, const StepContext& context) {
  if (p.t != 1 || norm.value == QUERN_NONE) return;
  p.raw = context.tensor(norm.value).data;
  p.raw_weight = context.tensor(norm.weight).data;
  p.raw_offset = norm.offset;
  p.epsilon = norm.epsilon;
  p.settles = norm.settles ? 1 : 0;
}

}  // namespace

void SideBySide::operator()(const StepContext& context, Launcher& launcher) const {
  const std::int64_t m = context.tensor(rows_of).dims[0];
  if (mixed) {
    Address y = context.extra(buffer);
    for (std::size_t first = 0, count = 0; first < parts.size(); first += count) {  // a launch for neighbours that have one operand
      for (count = 1; first + count < parts.size() && parts[first + count].slot == parts[first].slot;) ++count;
      MixedParams p = mixed_params(std::span(parts).subspan(first, count), {parts[first].slot, in.k, in.scale, in.half}, m, context);
      take_raw(p, norm, context);
      for (int i = 0; i < p.parts; ++i) {
        p.part[i].y = y;
        p.part[i].row = static_cast<int>(row);
        y += static_cast<Address>(p.part[i].rows) * 4;
      }
      launch_mixed(p, launcher);
    }
    return;
  }
  const Shadows& shadows = launcher.gpu().shadows();
  const Address first = shadows.find(source_of(parts.front(), context));
  Address follows = first;
  bool joined = follows != 0;
  for (const Part& part : parts) {
    const Shadows::Source source = source_of(part, context);
    joined = joined && shadows.find(source) == follows;
    follows += static_cast<Address>(source.matrix.elements()) * 2;
  }
  const Address y = context.extra(buffer), x = context.extra(in.slot);
  const bool y16 = smaller != 0;
  const float scale = y16 ? in.scale * smaller : in.scale;
  if (joined) {
    const auto k = static_cast<int>(in.k);
    launcher.dense({.x = {x, k, 0},
                    .w = {first, k, 0},
                    .bias = 0,
                    .c = 0,
                    .y = y,
                    .m = static_cast<int>(m),
                    .n = static_cast<int>(row),
                    .k = k,
                    .row = static_cast<int>(row),
                    .alpha = 1.0f / scale,
                    .y16 = y16},
                   in.half);
    return;
  }
  std::int64_t column = 0;
  for (const Part& part : parts) {
    product(source_of(part, context), x, scale, in.half, m, {y + static_cast<Address>(column) * (y16 ? 2 : 4), 0, 0, row},
            context.extra(workspace), launcher, y16);
    column += part.rows;
  }
}

void OneProduct::operator()(const StepContext& context, Launcher& launcher) const {
  const Tensor &w = context.tensor(part.weight), &y = context.tensor(stored);
  if (!mixed)
    return product(source_of(part, context), context.extra(in.slot), in.scale, in.half, y.dims[0],
                   {y.data, context.address(residual), context.address(bias), w.dims[0]}, context.extra(workspace), launcher);
  for (std::int64_t from = 0; from < y.dims[0]; from += most_mixed_rows) {  // of the head more at a time
    MixedParams p = mixed_params({&part, 1}, in, y.dims[0], context);
    const auto bytes = static_cast<Address>(from * w.dims[0]) * 4;
    p.t = static_cast<int>(std::min(most_mixed_rows, y.dims[0] - from));
    p.x += static_cast<Address>(operand_bytes(from, in.k));
    if (y.dims[0] == 1) take_raw(p, norm, context);
    p.part[0].y = y.data + bytes;
    p.part[0].row = p.part[0].rows;
    p.part[0].bias = context.address(bias);
    p.residual = residual == QUERN_NONE ? 0 : context.tensor(residual).data + bytes;
    p.residual2 = residual2 == QUERN_NONE ? 0 : context.tensor(residual2).data + bytes;
    launch_mixed(p, launcher);
  }
}

void GluProducts::operator()(const StepContext& context, Launcher& launcher) const {
  MixedParams p = mixed_params(parts, in, context.tensor(rows_of).dims[0], context);
  p.glu = 1;
  p.activation = activation;
  p.glu_y = context.extra(to);
  p.glu_places = context.order(order).places;
  p.glu_scale = scale;
  p.half = half ? 1 : 0;
  take_raw(p, norm, context);
  launch_mixed(p, launcher);
}

}  // namespace quern::cuda
