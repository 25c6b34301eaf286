// Numbers between 0 and 1, by their place, the seed, the step and the salt.
#include "random_numbers.hpp"

namespace quern::cpu {
namespace {

void run_random_uniform(const Call& call, Context& context) noexcept {
  const Uniform uniform(call, call.input(0), call.input(1));
  const Tensor& y = call.output(0);
  for_random_parts(y, context, [&](std::int64_t row, std::int64_t first, std::int64_t count, float* numbers, std::int64_t index) {
    uniform.fill(index, count, numbers);
    store_row(y, row, first, count, numbers);
  });
}

constexpr Kernel kernels_random_uniform[] = {
    {QUERN_OP_RANDOM_UNIFORM, "random_uniform.portable", Isa::baseline, accepts_random, run_random_uniform}};

}  // namespace

const std::span<const Kernel> random_uniform_kernels = kernels_random_uniform;

}  // namespace quern::cpu
