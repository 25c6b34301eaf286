// random_uniform and dropout.
#include "../kernels/random.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse(const Call& call) { return check_contiguous(call.input(call.op == QUERN_OP_DROPOUT ? 1 : 0)); }

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

constexpr Op table[] = {{QUERN_OP_RANDOM_UNIFORM, "random_uniform.cuda", refuse, emit}, {QUERN_OP_DROPOUT, "dropout.cuda", refuse, emit}};

}  // namespace

const std::span<const Op> random_ops = table;

}  // namespace quern::cuda
