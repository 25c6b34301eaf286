// See loop_guard.hpp.
#include "loop_guard.hpp"

#include <algorithm>

namespace quern::runtime {

bool LoopGuard::push(std::int32_t token) noexcept {
  bool circles = false;
  const auto known = static_cast<std::uint32_t>(std::min<std::uint64_t>(count_, longest_period));
  for (std::uint32_t period = 1; period <= known; ++period) {
    std::uint32_t& repeated = repeated_[period - 1];
    repeated = last_[(count_ - period) % longest_period] == token ? repeated + 1 : 0;
    circles |= repeated >= std::max(least_repeated, least_rounds * period);
  }
  last_[count_ % longest_period] = token;
  ++count_;
  return circles;
}

}  // namespace quern::runtime
