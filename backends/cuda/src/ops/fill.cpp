// Every element is `value`.
#include "arrange.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_fill(const Call& call, Launcher& launcher) {
  const double value = call.real(QUERN_KEY_VALUE);
  FillParams p{};
  p.shape = walk_elements(call.output(0), {{call.output(0), p.y}});
  p.value = static_cast<float>(value);
  p.integer = static_cast<int>(value);
  launcher.launch(kernels::fill, launcher.spread(p.shape.count), 256, p);
}

}  // namespace

const Op fill_op{QUERN_OP_FILL, "fill.cuda", nullptr, emit_fill};

void launch_fill(const Tensor& to, float value, Launcher& launcher) {
  FillParams p{};
  p.shape = walk_elements(to, {{to, p.y}});
  p.value = value;
  launcher.launch(kernels::fill, launcher.spread(p.shape.count), 256, p);
}

}  // namespace quern::cuda
