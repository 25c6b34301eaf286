// Numbers of random_uniform, which dropout draws too: (philox4x32-10(counter = (i / 4, step, salt, 0), key = seed) word i % 4 + 0.5) / 2^32,
// rounded to f32, which may give 1.
#pragma once

#include "../philox.hpp"
#include "map_rows.hpp"

namespace quern::cpu {

constexpr std::int64_t most_random_numbers = std::int64_t{1} << 34;  // then the counter's word would repeat

inline Verdict accepts_random(const Call& call) {
  const Tensor& y = call.output(0);
  return y.elements() <= most_random_numbers ? Verdict::yes()
                                             : Verdict::no(concat("y is ", shape_text(y), "; at most 2^34 elements are taken"));
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
void for_random_parts(const Tensor& y, Context& context, const Each& each) noexcept {
  const std::int64_t n = y.last(), parts = (n + map_part - 1) / map_part;
  context.parallel(y.rows() * parts, rows_a_part(std::min(n, map_part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float numbers[map_part];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * map_part;
      each(row, first, std::min(map_part, n - first), numbers, row * n + first);
    }
  });
}

}  // namespace quern::cpu
