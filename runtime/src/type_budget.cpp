#include "type_budget.hpp"

#include <algorithm>
#include <limits>

namespace quern::runtime {
namespace {

constexpr std::uint64_t steps = 4096;

/// Types for the tensors so far.
struct Sum {
  std::uint64_t extra = 0;  // bytes above those of the smallest types
  double error = std::numeric_limits<double>::infinity();
  std::uint32_t before = 0, option = 0;  // the sum without the last tensor, and the type of that
};

std::uint64_t least_bytes(const std::vector<TypeOption>& options) { return std::ranges::min(options, {}, &TypeOption::bytes).bytes; }

/// Each sum with each type of one more tensor, by size, in steps of the room.
std::vector<Sum> with_tensor(const std::vector<Sum>& sums, const std::vector<TypeOption>& options, std::uint64_t room) {
  const std::uint64_t least = least_bytes(options);
  std::vector<Sum> best(steps + 1);
  for (std::uint32_t before = 0; before < sums.size(); ++before)
    for (std::uint32_t option = 0; option < options.size(); ++option) {
      const Sum next{sums[before].extra + (options[option].bytes - least), sums[before].error + options[option].error, before, option};
      if (next.extra > room) continue;
      const double share = room == 0 ? 0 : static_cast<double>(next.extra) / static_cast<double>(room);
      Sum& there = best[static_cast<std::size_t>(share * steps)];
      if (next.error < there.error || (next.error == there.error && next.extra < there.extra)) there = next;
    }
  std::vector<Sum> kept;
  for (const Sum& sum : best)
    if (sum.error < (kept.empty() ? std::numeric_limits<double>::infinity() : kept.back().error)) kept.push_back(sum);
  return kept;
}

}  // namespace

std::vector<std::size_t> least_error(std::span<const std::vector<TypeOption>> options, std::uint64_t budget) {
  std::uint64_t room = budget;
  for (const std::vector<TypeOption>& of_one : options) room -= least_bytes(of_one);
  std::vector<std::vector<Sum>> sums{{Sum{0, 0, 0, 0}}};
  for (const std::vector<TypeOption>& of_one : options) sums.push_back(with_tensor(sums.back(), of_one, room));
  std::vector<std::size_t> taken(options.size());
  std::size_t at = sums.back().size() - 1;  // the largest that is kept has the least error
  for (std::size_t i = options.size(); i > 0; --i) {
    taken[i - 1] = sums[i][at].option;
    at = sums[i][at].before;
  }
  return taken;
}

}  // namespace quern::runtime
