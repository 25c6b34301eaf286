// x / (1 - p) where the random number, as it is stored, is at least p in f32, else 0.
#include "random_numbers.hpp"

namespace quern::cpu {
namespace {

void run_dropout(const Call& call, Context& context) noexcept {
  const Uniform uniform(call, call.input(1), call.input(2));
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto p = static_cast<float>(call.real(QUERN_KEY_P));
  for_random_parts(y, context, [&](std::int64_t row, std::int64_t first, std::int64_t count, float* numbers, std::int64_t index) {
    float values[map_part];
    uniform.fill(index, count, numbers);
    load_row(x, row, first, count, values);
    for (std::int64_t i = 0; i < count; ++i) values[i] = numbers[i] >= p ? values[i] / (1.0f - p) : 0.0f;
    store_row(y, row, first, count, values);
  });
}

constexpr Kernel kernels_dropout[] = {{QUERN_OP_DROPOUT, "dropout.portable", Isa::baseline, accepts_random, run_dropout}};

}  // namespace

const std::span<const Kernel> dropout_kernels = kernels_dropout;

}  // namespace quern::cpu
