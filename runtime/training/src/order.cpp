#include "quern/training/order.hpp"

#include "quern/graph/error.hpp"
#include "quern/training/philox.hpp"

#include <algorithm>
#include <utility>

namespace quern::training {

namespace {

/// Numbers 0 to count - 1 by their keys, then by number.
std::vector<std::uint32_t> by_keys(std::uint32_t count, std::uint64_t seed, std::uint32_t step, Purpose purpose) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys;
  keys.reserve(count);
  for (std::uint32_t example = 0; example < count; ++example) {
    const PhiloxWords words = philox(seed, example, step, 0, purpose);
    keys.emplace_back(std::uint64_t{words[0]} << 32 | words[1], example);
  }
  std::ranges::sort(keys);
  std::vector<std::uint32_t> numbers;
  numbers.reserve(count);
  for (const auto& [key, example] : keys) numbers.push_back(example);
  return numbers;
}

}  // namespace

std::vector<std::uint32_t> epoch_order(std::uint32_t count, std::uint64_t seed, std::uint32_t epoch) {
  return by_keys(count, seed, epoch, Purpose::order);
}

Split split_examples(std::uint32_t count, std::uint32_t validation, std::uint64_t seed) {
  if (validation >= count && validation > 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("val_set_size asks for ", validation, " examples of ", count,
                                               ", which leaves none to train on; give a smaller number or more examples"));
  const std::vector<std::uint32_t> numbers = by_keys(count, seed, 0, Purpose::split);
  Split split{{numbers.begin() + validation, numbers.end()}, {numbers.begin(), numbers.begin() + validation}};
  std::ranges::sort(split.train);
  std::ranges::sort(split.validation);
  return split;
}

}  // namespace quern::training
