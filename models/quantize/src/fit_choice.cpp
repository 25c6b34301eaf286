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
namespace avx512 {
extern const Fits fits;
}
#endif

std::span<const Fits* const> runnable_fits() noexcept {
#if defined(__x86_64__)
  static constexpr std::array<const Fits*, 3> all = {&portable::fits, &avx2::fits, &avx512::fits};
  return std::span(all).first(!__builtin_cpu_supports("avx2") ? 1 : __builtin_cpu_supports("avx512f") ? 3 : 2);
#else
  static constexpr std::array<const Fits*, 1> all = {&portable::fits};
  return all;
#endif
}

const Fits& fits() noexcept {
  static const Fits& best = *runnable_fits().back();
  return best;
}

}  // namespace quern::quantize
