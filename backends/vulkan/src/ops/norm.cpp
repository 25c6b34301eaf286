// rms_norm, layer_norm, l2_norm and add_rms_norm: a workgroup a row.
#include "tables.hpp"
#include "../shaders/modes.h"

namespace quern::vulkan {
namespace {

/// Factors of rows are read packed.
std::string refuse_norm(const Call& call) {
  const std::size_t first = call.op == QUERN_OP_ADD_RMS_NORM ? 2 : 1;
  return first_of({check_contiguous(call.input(first)), check_contiguous(call.input(first + 1))});
}
void launch(const Call& call, const Tensor& b, const Tensor& sum, const Tensor& weight, const Tensor& bias, const Tensor& y,
            std::int32_t kind, Launcher& launcher) {
  const Tensor& x = call.input(0);
  for_each_row_part(x, {&x, &b, &sum, &y}, [&](const Shape& rows, const View* v) {
    NormParams p{rows, v[0], v[1], v[2], v[3], weight.data, bias.data, static_cast<uint>(x.last()), call.number(QUERN_KEY_EPSILON), 0, 0};
    if (kind == norm_rms || kind == norm_add_rms) p.offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
    launcher.launch("norm", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {kind});
  });
}

void emit_rms(const Call& call, Launcher& launcher) { launch(call, {}, {}, call.input(1), {}, call.output(0), norm_rms, launcher); }
void emit_layer(const Call& call, Launcher& launcher) {
  launch(call, {}, {}, call.input(1), call.input(2), call.output(0), norm_layer, launcher);
}
void emit_l2(const Call& call, Launcher& launcher) { launch(call, {}, {}, {}, {}, call.output(0), norm_l2, launcher); }
void emit_add_rms_norm(const Call& call, Launcher& launcher) {
  launch(call, call.input(1), call.output(0), call.input(2), {}, call.output(1), norm_add_rms, launcher);
}

constexpr Op norm_table[] = {
    offer(QUERN_OP_RMS_NORM, "rms_norm.vulkan", refuse_norm, emit_rms),
    offer(QUERN_OP_LAYER_NORM, "layer_norm.vulkan", refuse_norm, emit_layer),
    offer(QUERN_OP_L2_NORM, "l2_norm.vulkan", refuse_norm, emit_l2),
    offer(QUERN_OP_ADD_RMS_NORM, "add_rms_norm.vulkan", refuse_norm, emit_add_rms_norm),
};

}  // namespace

const std::span<const Op> norm_ops = norm_table;

}  // namespace quern::vulkan
