// random_uniform and dropout.
#include "../kernels/random.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_counter(const Tensor& seed, const Tensor& step) {
  return first_of({check_dtype(seed, QUERN_U32), check_rank(seed, 1), check_contiguous(seed), check_dim(seed, 0, 2),
                   check_dtype(step, QUERN_I32), step.elements() == 1 ? "" : concat(describe(step), " is one number")});
}

std::string refuse_uniform(const Call& call) {
  return first_of({check_counter(call.input(0), call.input(1)), check_dtype(call.output(0), QUERN_F32)});
}

std::string refuse_dropout(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const double p = call.real(QUERN_KEY_P);
  if (!(p >= 0) || !(p < 1)) return concat("dropout with p = ", p, "; it is at least 0 and below 1");
  return first_of({check_floats(x), check_floats(y), check_same_shape(x, y), check_counter(call.input(1), call.input(2))});
}

void emit(const Call& call, Launcher& launcher) {
  const bool drops = call.op == QUERN_OP_DROPOUT;
  const Tensor absent, &y = call.output(0);
  RandomParams p{};
  p.shape = walk_elements(y, {{drops ? call.input(0) : absent, p.x}, {y, p.y}});
  p.seed = call.input(drops ? 1 : 0).data;
  p.step = call.input(drops ? 2 : 1).data;
  p.salt = static_cast<unsigned>(call.integer(QUERN_KEY_SALT));
  if (drops) p.p = static_cast<float>(call.real(QUERN_KEY_P));
  launcher.launch(drops ? kernels::dropout : kernels::random_uniform, launcher.spread((p.shape.count + 3) / 4), 256, p);
}

constexpr Op table[] = {{QUERN_OP_RANDOM_UNIFORM, "random_uniform.cuda", refuse_uniform, emit},
                        {QUERN_OP_DROPOUT, "dropout.cuda", refuse_dropout, emit}};

}  // namespace

const std::span<const Op> random_ops = table;

}  // namespace quern::cuda
