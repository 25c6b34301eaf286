#include "fits.hpp"

#include <array>

namespace quern::quantize {

namespace portable {
extern const Fits fits;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Fits fits;
}
#endif

std::span<const Fits* const> runnable_fits() noexcept {
#if defined(__x86_64__)
  static constexpr std::array<const Fits*, 2> all = {&portable::fits, &avx2::fits};
  return std::span(all).first(__builtin_cpu_supports("avx2") ? 2 : 1);
#else
  static constexpr std::array<const Fits*, 1> all = {&portable::fits};
  return all;
#endif
}

const Fits& fits() noexcept {
  static const Fits& best = *runnable_fits().back();
  return best;
}

double error_of(const BlockLayout& layout, const Block& block, const float* x, const float* weights) {
  float values[most_elements];
  values_of(layout, block, values);
  double error = 0;
  for (int i = 0; i < layout.elements(); ++i) {
    const double off = static_cast<double>(x[i]) - values[i];
    error += weights[i] * off * off;
  }
  return error;
}

}  // namespace quern::quantize
