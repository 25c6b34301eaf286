// rms_norm, layer_norm, l2_norm and add_rms_norm: a workgroup a row.
#include "tables.hpp"

namespace quern::vulkan {
namespace {

constexpr std::int32_t rms = 0, layer = 1, l2 = 2, add_rms = 3;  // as in shaders/norm.comp

std::string check_factor(const Tensor& t, std::int64_t size) {
  return t.present() ? first_of({check_rank(t, 1), check_vector(t, QUERN_F32, size)}) : "";
}

std::string refuse_rows(const Call& call, std::initializer_list<const Tensor*> tensors) {
  const Tensor& x = **tensors.begin();
  for (const Tensor* t : tensors)
    if (std::string r = first_of({check_floats(*t), check_same_shape(*t, x)}); !r.empty()) return r;
  if (x.rank == 0) return concat(describe(x), " is a scalar; a norm takes rows");
  if (!(call.real(QUERN_KEY_EPSILON) > 0)) return concat("epsilon is ", call.real(QUERN_KEY_EPSILON), "; it is above 0");
  return {};
}

std::string refuse_norm(const Call& call) {
  const std::int64_t n = call.input(0).last();
  return first_of({refuse_rows(call, {&call.input(0), &call.output(0)}), call.op == QUERN_OP_L2_NORM ? "" : check_factor(call.input(1), n),
                   call.op == QUERN_OP_LAYER_NORM ? check_factor(call.input(2), n) : ""});
}
std::string refuse_add_rms_norm(const Call& call) {
  return first_of({refuse_rows(call, {&call.input(0), &call.input(1), &call.output(0), &call.output(1)}),
                   check_factor(call.input(2), call.input(0).last())});
}

void launch(const Call& call, const Tensor& b, const Tensor& sum, const Tensor& weight, const Tensor& bias, const Tensor& y,
            std::int32_t kind, Launcher& launcher) {
  const Tensor& x = call.input(0);
  for_each_row_part(x, {&x, &b, &sum, &y}, [&](const Shape& rows, const View* v) {
    NormParams p{rows, v[0], v[1], v[2], v[3], weight.data, bias.data, static_cast<uint>(x.last()), call.number(QUERN_KEY_EPSILON), 0, 0};
    if (kind == rms || kind == add_rms) p.offset = call.number(QUERN_KEY_WEIGHT_OFFSET);
    launcher.launch("norm", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {kind});
  });
}

void emit_rms(const Call& call, Launcher& launcher) { launch(call, {}, {}, call.input(1), {}, call.output(0), rms, launcher); }
void emit_layer(const Call& call, Launcher& launcher) {
  launch(call, {}, {}, call.input(1), call.input(2), call.output(0), layer, launcher);
}
void emit_l2(const Call& call, Launcher& launcher) { launch(call, {}, {}, {}, {}, call.output(0), l2, launcher); }
void emit_add_rms_norm(const Call& call, Launcher& launcher) {
  launch(call, call.input(1), call.output(0), call.input(2), {}, call.output(1), add_rms, launcher);
}

constexpr Op norm_table[] = {
    offer(QUERN_OP_RMS_NORM, "rms_norm.vulkan", refuse_norm, emit_rms),
    offer(QUERN_OP_LAYER_NORM, "layer_norm.vulkan", refuse_norm, emit_layer),
    offer(QUERN_OP_L2_NORM, "l2_norm.vulkan", refuse_norm, emit_l2),
    offer(QUERN_OP_ADD_RMS_NORM, "add_rms_norm.vulkan", refuse_add_rms_norm, emit_add_rms_norm),
};

}  // namespace

const std::span<const Op> norm_ops = norm_table;

}  // namespace quern::vulkan
