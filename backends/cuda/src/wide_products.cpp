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

bool AdaptedProducts::any() const {
  return std::ranges::any_of(products, [](const Product& product) { return product.adapter != nullptr; });
}

std::vector<std::uint32_t> AdaptedProducts::reads() const {
  std::vector<std::uint32_t> values;
  for (const Product& product : products)
    if (product.adapter != nullptr) values.insert(values.end(), {product.adapter->pool, product.adapter->table, product.adapter->slot});
  return values;
}

AdaptedRows AdaptedProducts::params(const StepContext& context, Launcher& launcher) const {
  AdaptedRows p{};
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::int64_t n = context.tensor(products[i].weight).dims[0];
    p.y_first[i] = p.y_row;
    p.y_row += n;
    if (products[i].adapter == nullptr) continue;
    const Adapter& adapter = *products[i].adapter;
    const Tensor &pool = context.tensor(adapter.pool), &table = context.tensor(adapter.table), &slot = context.tensor(adapter.slot);
    p.part[i] = {pool.data, table.data, slot.data, static_cast<int>(pool.dtype), pool.elements(), table.dims[0], 0, n, adapter.alpha};
    p.slot_step[i] = slot.strides[0];
  }
  p.t = context.tensor(rows_of).dims[0];
  p.x = context.extra(in.slot);
  p.half = in.half ? 1 : 0;
  p.columns = room_of(mixed, p.t);
  p.k = in.k;
  p.x_scale = 1.0f / in.scale;
  p.low = context.extra(low);
  p.pitch = rank;
  p.y = buffer == QUERN_NONE ? context.tensor(stored).data : context.extra(buffer);
  p.y16 = smaller != 0 ? 1 : 0;
  p.y_scale = smaller != 0 ? 1.0f / smaller : 1.0f;
  p.faults = launcher.faults();
  return p;
}

void AdaptedProducts::launch_down(const StepContext& context, Launcher& launcher) const {
  constexpr std::int64_t most_groups = 8;  // a pool of many adapters has room for many more ranks than each has
  const AdaptedRows p = params(context, launcher);
  const std::int64_t groups = std::min<std::int64_t>((rank + lora_tile_ranks - 1) / lora_tile_ranks, most_groups);
  launcher.launch(kernels::adapters_down, {groups, (p.t + lora_tile_rows - 1) / lora_tile_rows, std::ssize(products)}, 256, p);
}

void AdaptedProducts::launch_up(const StepContext& context, Launcher& launcher) const {
  const AdaptedRows p = params(context, launcher);
  std::int64_t widest = 0;
  for (const AdapterPart& part : p.part) widest = std::max<std::int64_t>(widest, part.rows);
  launcher.launch(kernels::adapters_up,
                  {(widest + lora_up_columns - 1) / lora_up_columns, (p.t + lora_tile_rows - 1) / lora_tile_rows, std::ssize(products)},
                  256, p);
}

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
  MixedParams p = mixed_params({&part, 1}, in, y.dims[0], context);
  take_raw(p, norm, context);
  p.part[0].y = y.data;
  p.part[0].row = p.part[0].rows;
  p.part[0].bias = context.address(bias);
  p.residual = context.address(residual);
  p.residual2 = context.address(residual2);
  launch_mixed(p, launcher);
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
