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

/// One product, its weights copied to scratch first where there is no 16-bit copy.
void product(const Tensor& w, Address operand, float scale, bool half, std::int64_t m, const Target& to, Address workspace,
             Launcher& launcher, bool y16 = false) {
  Address weights = launcher.gpu().shadows().find(w);
  if (weights == 0) {
    launch_unpack(w, workspace, QUERN_BF16, launcher);
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
    MixedParams p = mixed_params(parts, in, m, context);
    take_raw(p, norm, context);
    Address y = context.extra(buffer);
    for (int i = 0; i < p.parts; ++i) {
      p.part[i].y = y;
      p.part[i].row = static_cast<int>(row);
      y += static_cast<Address>(p.part[i].rows) * 4;
    }
    return launch_mixed(p, launcher);
  }
  const Shadows& shadows = launcher.gpu().shadows();
  const Tensor& first = context.tensor(parts.front().weight);
  Address follows = shadows.find(first);
  bool joined = follows != 0;
  for (const Part& part : parts) {
    const Tensor& w = context.tensor(part.weight);
    joined = joined && shadows.find(w) == follows;
    follows += static_cast<Address>(w.elements()) * 2;
  }
  const Address y = context.extra(buffer), x = context.extra(in.slot);
  const bool y16 = smaller != 0;
  const float scale = y16 ? in.scale * smaller : in.scale;
  if (joined) {
    const auto k = static_cast<int>(in.k);
    launcher.dense({.x = {x, k, 0},
                    .w = {shadows.find(first), k, 0},
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
    product(context.tensor(part.weight), x, scale, in.half, m, {y + static_cast<Address>(column) * (y16 ? 2 : 4), 0, 0, row},
            context.extra(workspace), launcher, y16);
    column += part.rows;
  }
}

void OneProduct::operator()(const StepContext& context, Launcher& launcher) const {
  const Tensor &w = context.tensor(part.weight), &y = context.tensor(stored);
  if (!mixed)
    return product(w, context.extra(in.slot), in.scale, in.half, y.dims[0],
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
  p.glu_scale = scale;
  p.half = half ? 1 : 0;
  take_raw(p, norm, context);
  launch_mixed(p, launcher);
}

}  // namespace quern::cuda
