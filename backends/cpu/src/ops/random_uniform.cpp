// random_uniform: y[i] = (philox4x32-10(counter = (i / 4, step, salt, 0), key = seed) word i % 4 + 0.5) / 2^32, rounded to f32, which
// may give 1. dropout: x / (1 - p) where that number, as it is stored, is at least p in f32, else 0.
#include "map_rows.hpp"

#include "../philox.hpp"

namespace quern::cpu {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 34;  // then the counter's word would repeat

Verdict accepts_random(const Call& call) {
  const Tensor& y = call.output(0);
  return y.elements() <= most_elements ? Verdict::yes() : Verdict::no(concat("y is ", shape_text(y), "; at most 2^34 elements are taken"));
}

/// The numbers of one seed, step and salt.
class Uniform {
 public:
  Uniform(const Call& call, const Tensor& seed, const Tensor& step) noexcept
      : key_{static_cast<std::uint32_t>(load_integer(seed, 0)), static_cast<std::uint32_t>(load_integer(seed, 1))},
        step_(static_cast<std::uint32_t>(load_integer(step, 0))),
        salt_(static_cast<std::uint32_t>(call.integer(QUERN_KEY_SALT))) {}

  /// Numbers first .. first + count of the tensor.
  void fill(std::int64_t first, std::int64_t count, float* out) const noexcept {
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = first + i;
      if (i == 0 || at % 4 == 0) words = philox({static_cast<std::uint32_t>(at / 4), step_, salt_, 0}, key_);
      out[i] = static_cast<float>(philox_unit(words[static_cast<std::size_t>(at % 4)]));
    }
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t step_, salt_;
};

/// Calls each(row, first, count, buffer, i) for parts of rows, i being the row-major index of the first element.
template <typename Each>
void for_parts(const Tensor& y, Context& context, const Each& each) noexcept {
  const std::int64_t n = y.last(), parts = (n + map_part - 1) / map_part;
  context.parallel(y.rows() * parts, rows_a_part(std::min(n, map_part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float numbers[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * map_part;
      each(row, first, std::min(map_part, n - first), numbers, row * n + first);
    }
  });
}

void run_uniform(const Call& call, Context& context) noexcept {
  const Uniform uniform(call, call.input(0), call.input(1));
  const Tensor& y = call.output(0);
  for_parts(y, context, [&](std::int64_t row, std::int64_t first, std::int64_t count, float* numbers, std::int64_t index) {
    uniform.fill(index, count, numbers);
    store_row(y, row, first, count, numbers);
  });
}

void run_dropout(const Call& call, Context& context) noexcept {
  const Uniform uniform(call, call.input(1), call.input(2));
  const Tensor &x = call.input(0), &y = call.output(0);
  const auto p = static_cast<float>(call.real(QUERN_KEY_P));
  for_parts(y, context, [&](std::int64_t row, std::int64_t first, std::int64_t count, float* numbers, std::int64_t index) {
    float values[map_part];
    uniform.fill(index, count, numbers);
    load_row(x, row, first, count, values);
    for (std::int64_t i = 0; i < count; ++i) values[i] = numbers[i] >= p ? values[i] / (1.0f - p) : 0.0f;
    store_row(y, row, first, count, values);
  });
}

constexpr Kernel kernels_random_uniform[] = {
    {QUERN_OP_RANDOM_UNIFORM, "random_uniform.portable", Isa::baseline, accepts_random, run_uniform},
    {QUERN_OP_DROPOUT, "dropout.portable", Isa::baseline, accepts_random, run_dropout},
};

}  // namespace

const std::span<const Kernel> random_uniform_kernels = kernels_random_uniform;

}  // namespace quern::cpu
