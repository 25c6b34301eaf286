// Losses and their gradients, gradients of norms, optimisers.
#include "elementwise.hpp"
#include "tables.hpp"
#include "../shaders/modes.h"

#include <algorithm>
#include <cmath>

namespace quern::vulkan {
namespace {

// Norms.
std::string refuse_weighted(const Call& call) {
  const Tensor& x = call.input(0);
  if (call.predicate.present() && x.rank < 2) return "x has one dimension; it takes a predicate of one element";
  if (x.rows() >= std::int64_t{1} << 30) return concat(describe(x), "; fewer than 2^30 rows are taken");
  return first_of({check_contiguous(call.input(1)), check_contiguous(call.output(1)), check_contiguous(call.output(2))});
}
std::uint64_t stats_bytes(const Tensor& x) { return (static_cast<std::uint64_t>(x.rows()) * 8 + 255) / 256 * 256; }
/// Parts of rows whose columns are summed side by side, as shaders/norm_backward.comp has them.
constexpr std::int64_t most_norm_parts = 64, least_part_rows = 64;
std::int64_t norm_parts(std::int64_t rows) {
  const std::int64_t part = std::max(least_part_rows, (rows + most_norm_parts - 1) / most_norm_parts);
  return (rows + part - 1) / part;
}
std::uint64_t scratch_norm(const Call& call) {
  const std::int64_t parts = std::clamp<std::int64_t>((call.input(0).rows() + least_part_rows - 1) / least_part_rows, 1, most_norm_parts);
  return stats_bytes(call.input(0)) + static_cast<std::uint64_t>(parts * call.input(0).last()) * 8;
}

void emit_norm(const Call& call, const Tensor& weight, const Tensor& dy, std::int32_t kind, Launcher& launcher) {
  const Tensor &x = call.input(0), &dx = call.output(0), &dweight = call.output(1), &dbias = call.output(2);
  const bool sums = kind != norm_l2 && (dweight.present() || dbias.present());
  if (sums && x.rows() == 0 && !call.flag(QUERN_KEY_ACCUMULATE))
    for (const Tensor* t : {&dweight, &dbias})
      if (t->present()) fill_view(*t, 0, launcher);
  for_each_row_part(x, {&x, &dy, &dx}, [&](const Shape& rows, const View* v) {
    NormBackwardParams p{};
    p.rows = rows;
    p.x = v[0];
    p.dy = v[1];
    p.dx = v[2];
    p.weight = weight.data;
    p.predicate = call.predicate.data;
    p.stats = call.scratch;
    p.sums = call.scratch + stats_bytes(x);
    p.n = static_cast<uint>(x.last());
    p.rows_a_predicate = x.rank < 2 || x.dims[0] == 0 ? 1 : std::max<uint>(1, static_cast<uint>(x.rows() / x.dims[0]));
    p.epsilon = call.number(QUERN_KEY_EPSILON);
    if (kind == norm_rms && weight.present()) p.offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
    if (kind != norm_l2) {
      p.dweight = dweight.data;
      p.dbias = dbias.data;
      p.accumulate = call.flag(QUERN_KEY_ACCUMULATE) ? 1 : 0;
    }
    const std::uint32_t threads = launcher.row_threads(x.last());
    launcher.launch("norm_backward", threads, launcher.rows(rows.count), p, {kind, norm_measure});
    launcher.barrier();
    if (sums) {
      Launcher::Grid grid = launcher.spread(p.n);
      grid.y = norm_parts(rows.count);
      launcher.launch("norm_backward", launcher.item_threads(), grid, p, {kind, norm_columns});
      launcher.barrier();
    }
    launcher.launch("norm_backward", threads, launcher.rows(rows.count), p, {kind, norm_gradients});
    if (sums) {
      launcher.barrier();
      launcher.launch("norm_backward", launcher.item_threads(), launcher.spread(p.n), p, {kind, norm_store_sums});
    }
  });
}
void emit_rms(const Call& call, Launcher& launcher) { emit_norm(call, call.input(1), call.input(2), norm_rms, launcher); }
void emit_layer(const Call& call, Launcher& launcher) { emit_norm(call, call.input(1), call.input(2), norm_layer, launcher); }
void emit_l2(const Call& call, Launcher& launcher) { emit_norm(call, {}, call.input(1), norm_l2, launcher); }

// Losses.
LossParams loss_params(const Call& call, const Tensor& label, const Tensor& loss, const Tensor& lse, Launcher& launcher) {
  LossParams p{};
  p.label = label.data;
  p.loss = loss.data;
  p.lse = lse.data;
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.label_step = static_cast<int>(label.strides[0]);
  p.loss_step = static_cast<int>(loss.strides[0]);
  p.lse_step = static_cast<int>(lse.strides[0]);
  return p;
}
void emit_loss(const Call& call, const Tensor& loss, const Tensor& lse, const Tensor& y, std::int32_t op, Launcher& launcher) {
  const Tensor& x = call.input(0);
  LossParams p = loss_params(call, call.input(1), loss, lse, launcher);
  p.x = x.data;
  p.x_dtype = static_cast<int>(x.dtype);
  p.x_row = x.strides[0];
  p.x_step = static_cast<int>(x.strides[1]);
  if (y.present()) {
    p.y = y.data;
    p.y_dtype = static_cast<int>(y.dtype);
    p.y_row = y.strides[0];
    p.y_step = static_cast<int>(y.strides[1]);
  }
  p.rows = static_cast<uint>(x.dims[0]);
  p.n = static_cast<uint>(x.dims[1]);
  p.ignored = static_cast<int>(std::clamp<std::int64_t>(call.integer(QUERN_KEY_IGNORE), INT32_MIN, INT32_MAX));
  p.smoothing = call.number(QUERN_KEY_SMOOTHING);
  p.z_loss = call.number(QUERN_KEY_Z_LOSS);
  launcher.launch("loss", launcher.row_threads(x.dims[1]), launcher.rows(x.dims[0]), p, {op});
}
void emit_entropy(const Call& call, Launcher& launcher) { emit_loss(call, call.output(0), call.output(1), {}, loss_entropy, launcher); }
void emit_entropy_backward(const Call& call, Launcher& launcher) {
  emit_loss(call, call.input(3), call.input(2), call.output(0), loss_entropy_backward, launcher);
}

void emit_masked_mean(const Call& call, Launcher& launcher) {
  const Tensor& x = call.input(0);
  LossParams p = loss_params(call, call.input(1), call.output(0), call.output(1), launcher);
  p.x = x.data;
  p.x_dtype = QUERN_F32;
  p.x_step = static_cast<int>(x.strides[0]);
  p.n = static_cast<uint>(x.dims[0]);
  launcher.launch("loss", launcher.row_threads(x.dims[0]), {1, 1, 1}, p, {loss_masked_mean});
}
void emit_masked_mean_backward(const Call& call, Launcher& launcher) {
  const Tensor& dx = call.output(0);
  LossParams p = loss_params(call, call.input(0), call.input(2), call.input(1), launcher);
  p.y = dx.data;
  p.y_step = static_cast<int>(dx.strides[0]);
  p.n = static_cast<uint>(dx.dims[0]);
  launcher.launch("loss", launcher.item_threads(), launcher.spread(p.n), p, {loss_masked_mean_backward});
}

// Optimisers.
void launch_step(const Call& call, const Tensor& m, const Tensor& v, const Tensor& master, OptimiserParams p, std::int32_t plain,
                 Launcher& launcher) {
  const Tensor &gradient = call.input(0), &w = call.output(0);
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.items_a_row =
      gradient.rank == 0 || gradient.dims[0] == 0 ? 1 : std::max<uint>(1, static_cast<uint>(gradient.elements() / gradient.dims[0]));
  for_each_part(gradient, {&gradient, &w, &m, &v, &master}, [&](const Shape& shape, const View* views) {
    p.shape = shape;
    p.gradient = views[0];
    p.w = views[1];
    p.m = views[2];
    p.v = views[3];
    p.master = views[4];
    launcher.launch("optimiser", launcher.item_threads(), launcher.spread(shape.count), p, {plain});
  });
}
std::string check_row_parts(const Call& call) {
  return call.predicate.present() && call.input(0).elements() >= std::int64_t{1} << 30
             ? "with a predicate a row fewer than 2^30 elements are taken"
             : "";
}

void emit_adamw(const Call& call, Launcher& launcher) {
  OptimiserParams p{};
  p.step = call.input(1).data;
  p.lr = call.input(2).data;
  p.scale = call.input(3).data;
  const double beta1 = call.real(QUERN_KEY_BETA1), beta2 = call.real(QUERN_KEY_BETA2);
  p.beta1 = static_cast<float>(beta1);
  p.rest1 = static_cast<float>(1.0 - beta1);
  p.beta2 = static_cast<float>(beta2);
  p.rest2 = static_cast<float>(1.0 - beta2);
  p.log_beta1 = static_cast<float>(std::log(beta1));
  p.log_beta2 = static_cast<float>(std::log(beta2));
  p.epsilon = call.number(QUERN_KEY_EPSILON);
  p.weight_decay = call.number(QUERN_KEY_WEIGHT_DECAY);
  launch_step(call, call.output(1), call.output(2), call.output(3), p, 0, launcher);
}

void emit_sgd(const Call& call, Launcher& launcher) {
  OptimiserParams p{};
  p.lr = call.input(1).data;
  p.scale = call.input(2).data;
  p.momentum = call.number(QUERN_KEY_MOMENTUM);
  p.weight_decay = call.number(QUERN_KEY_WEIGHT_DECAY);
  launch_step(call, call.output(1), {}, {}, p, 1, launcher);
}

constexpr std::int64_t groups_a_part = 128;
std::uint64_t parts_of(const Tensor& t) { return static_cast<std::uint64_t>(t.elements() >> 29) + 2; }
std::uint64_t scratch_grad_norm(const Call& call) {
  std::uint64_t parts = 0;
  for (std::size_t i = 0; i < call.inputs.count; ++i) parts += parts_of(call.input(i));
  return parts * groups_a_part * 8;
}
void emit_grad_norm(const Call& call, Launcher& launcher) {
  GradNormParams last{};
  last.partial = call.scratch;
  last.norm = call.output(0).data;
  last.finite = call.output(1).data;
  for (std::size_t i = 0; i < call.inputs.count; ++i)
    for_each_part(call.input(i), {&call.input(i)}, [&](const Shape& shape, const View* v) {
      GradNormParams p = last;
      p.shape = shape;
      p.x = v[0];
      p.partial = call.scratch + std::uint64_t{last.count} * 8;
      Launcher::Grid grid = launcher.spread(shape.count);
      grid.x = std::min(grid.x, groups_a_part);
      last.count += static_cast<uint>(grid.x);
      launcher.launch("grad_norm", launcher.item_threads(), grid, p, {grad_norm_parts});
    });
  launcher.barrier();
  launcher.launch("grad_norm", launcher.item_threads(), {1, 1, 1}, last, {grad_norm_whole});
}

void emit_clip(const Call& call, Launcher& launcher) {
  GradNormParams p{};
  p.norm = call.input(0).data;
  p.finite = call.input(1).data;
  p.partial = call.output(0).data;
  p.max_norm = call.number(QUERN_KEY_MAX_NORM);
  launcher.launch("grad_norm", 1, {1, 1, 1}, p, {grad_norm_scale});
}

constexpr Op training_table[] = {
    offer(QUERN_OP_RMS_NORM_BACKWARD, "rms_norm_backward.vulkan", refuse_weighted, emit_rms, scratch_norm, true),
    offer(QUERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward.vulkan", refuse_weighted, emit_layer, scratch_norm, true),
    offer(QUERN_OP_L2_NORM_BACKWARD, "l2_norm_backward.vulkan", nullptr, emit_l2, scratch_norm),
    offer(QUERN_OP_CROSS_ENTROPY, "cross_entropy.vulkan", nullptr, emit_entropy, nullptr, true),
    offer(QUERN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward.vulkan", nullptr, emit_entropy_backward, nullptr, true),
    offer(QUERN_OP_MASKED_MEAN, "masked_mean.vulkan", nullptr, emit_masked_mean),
    offer(QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.vulkan", nullptr, emit_masked_mean_backward),
    offer(QUERN_OP_ADAMW, "adamw.vulkan", check_row_parts, emit_adamw, nullptr, true),
    offer(QUERN_OP_SGD, "sgd.vulkan", check_row_parts, emit_sgd, nullptr, true),
    offer(QUERN_OP_GRAD_NORM, "grad_norm.vulkan", nullptr, emit_grad_norm, scratch_grad_norm, false, true),
    offer(QUERN_OP_CLIP_SCALE, "clip_scale.vulkan", nullptr, emit_clip, nullptr, false, true),
};

}  // namespace

const std::span<const Op> training_ops = training_table;

}  // namespace quern::vulkan
