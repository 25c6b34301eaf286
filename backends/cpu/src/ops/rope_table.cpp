// table[p][i] = (cos, sin) of (first + p) * f_i, times mscale; all in f64, rounded once.
//
// f_i = base^(-2i/d) / factors[i], changed by the scaling:
//   1 linear  f / factor
//   2 yarn    between f (fast pairs, more than beta_fast turns over original_context) and f / factor (slow ones, fewer than
//             beta_slow turns), a straight ramp over the pair number between the two corners, which are rounded outwards
//   3 llama3  f / factor for wavelengths above original_context / low_freq_factor, f below original_context / high_freq_factor,
//             and a mix that is linear in original_context / wavelength between
//   4 ntk     base * factor^(d / (d - 2)) in place of base
//   5 dynamic ntk with factor * c / original_context - factor + 1 in place of factor, c = max(position_count, original_context)
// Sources: Peng et al. 2023 (arXiv:2309.00071) for yarn; the Llama 3.1 model card for llama3.
#include "tables.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quern::cpu {
namespace {

enum { no_scaling = 0, linear = 1, yarn = 2, llama3 = 3, ntk = 4, dynamic = 5 };

/// The pair at which a frequency makes `turns` turns over the original context.
double pair_of_turns(double turns, double d, double base, double context) noexcept {
  return d * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

/// What dynamic scaling has in place of factor, for `count` positions.
double dynamic_factor(double factor, double count, double context) noexcept {
  return factor * std::max(count, context) / context - factor + 1;
}

double frequency(const Call& call, std::int64_t pair, std::int64_t pairs, std::int64_t count) noexcept {
  const double d = 2.0 * static_cast<double>(pairs), factor = call.real(QUERN_KEY_FACTOR);
  const auto context = static_cast<double>(call.integer(QUERN_KEY_ORIGINAL_CONTEXT));
  const std::int64_t scaling = call.integer(QUERN_KEY_SCALING);
  double base = call.real(QUERN_KEY_BASE);
  if (scaling == ntk && d > 2) base *= std::pow(factor, d / (d - 2));
  if (scaling == dynamic && d > 2) base *= std::pow(dynamic_factor(factor, static_cast<double>(count), context), d / (d - 2));
  double f = std::pow(base, -2.0 * static_cast<double>(pair) / d);
  if (call.input(1).present()) f /= static_cast<double>(load_scalar(call.input(1), pair));
  if (scaling == linear) return f / factor;
  if (scaling == yarn) {
    const double low = std::max(0.0, std::floor(pair_of_turns(call.real(QUERN_KEY_BETA_FAST), d, base, context)));
    const double high = std::min(d - 1, std::ceil(pair_of_turns(call.real(QUERN_KEY_BETA_SLOW), d, base, context)));
    const double ramp = std::clamp((static_cast<double>(pair) - low) / std::max(0.001, high - low), 0.0, 1.0);
    return f * (1 - ramp) + f / factor * ramp;
  }
  if (scaling == llama3) {
    const double low = call.real(QUERN_KEY_LOW_FREQ_FACTOR), high = call.real(QUERN_KEY_HIGH_FREQ_FACTOR);
    const double turns = context * f / (2 * std::numbers::pi);  // original_context / wavelength
    if (turns < low) return f / factor;
    if (turns > high) return f;
    const double smooth = (turns - low) / (high - low);
    return (1 - smooth) * f / factor + smooth * f;
  }
  return f;
}

void run_rope_table(const Call& call, Context& context) noexcept {
  const Tensor& table = call.output(0);
  const std::int64_t count = call.input(0).present() ? load_integer(call.input(0), 0) : table.dims[0];
  const std::int64_t positions = std::clamp<std::int64_t>(count, 0, table.dims[0]);
  const std::int64_t pairs = table.dims[1];
  const double mscale = call.real(QUERN_KEY_MSCALE), first = static_cast<double>(call.integer(QUERN_KEY_FIRST));
  context.parallel(pairs, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const double f = frequency(call, pair, pairs, count);
      for (std::int64_t p = 0; p < positions; ++p) {
        const double angle = (first + static_cast<double>(p)) * f;
        const float both[2] = {static_cast<float>(std::cos(angle) * mscale), static_cast<float>(std::sin(angle) * mscale)};
        store_floats(bytes_of(table) + p * table.strides[0] + pair * table.strides[1], QUERN_F32, table.strides[2], 0, 2, both);
      }
    }
  });
}

constexpr Kernel kernels_rope_table[] = {{QUERN_OP_ROPE_TABLE, "rope_table.portable", Isa::baseline, accepts_any, run_rope_table}};

}  // namespace

const std::span<const Kernel> rope_table_kernels = kernels_rope_table;

}  // namespace quern::cpu
