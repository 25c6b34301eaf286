// See dealing.hpp.
#include "worker/dealing.hpp"

#include "worker/host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace quern::conformance {
namespace {

constexpr std::uint64_t many_bytes = 64 << 20;  // of a case that runs before all others
constexpr std::uint64_t alone_bytes = 1 << 20;  // of a case that is dealt by itself
constexpr std::size_t most_dealt = 256;

bool is_dealt_alone(const Case& c) { return c.script || host_bytes(c) >= alone_bytes; }

}  // namespace

void longest_first(std::vector<const Case*>& cases) {
  const auto rest = std::ranges::stable_partition(cases, [](const Case* c) { return !c->script && host_bytes(*c) >= many_bytes; });
  std::ranges::stable_sort(cases.begin(), rest.begin(), std::ranges::greater(), [](const Case* c) { return host_bytes(*c); });
  const auto others = std::ranges::stable_partition(rest, [](const Case* c) { return static_cast<bool>(c->script); });
  std::ranges::stable_partition(others, [](const Case* c) { return c->graph != nullptr || c->every_kernel; });
}

Dealer::Dealer(const std::vector<const Case*>& cases, std::size_t lanes) : cases_(cases), lanes_(std::max<std::size_t>(lanes, 1)) {}

std::pair<std::size_t, std::size_t> Dealer::take() {
  const std::lock_guard lock(mutex_);
  const std::size_t first = next_, left = cases_.size() - first;
  std::size_t count = std::min({left, most_dealt, std::max<std::size_t>(1, left / (lanes_ * 4))});
  for (std::size_t i = 0; i < count; ++i)
    if (is_dealt_alone(*cases_[first + i])) count = std::max<std::size_t>(1, i);
  next_ += count;
  return {first, next_};
}

}  // namespace quern::conformance
