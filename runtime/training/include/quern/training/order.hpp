// The order of the examples in each epoch, and which of them are kept for validation.
//
// Both are functions of the seed: a run that resumes needs its epoch and its position alone.
#pragma once

#include <cstdint>
#include <vector>

namespace quern::training {

/// Numbers of the examples 0 to count - 1 as epoch `epoch` has them: by the 64-bit keys of philox(example, epoch, 0, Purpose::order), ties
/// by number.
std::vector<std::uint32_t> epoch_order(std::uint32_t count, std::uint64_t seed, std::uint32_t epoch);

struct Split {
  std::vector<std::uint32_t> train, validation;  // ascending numbers; together each example once
};

/// The `validation` examples with the smallest keys of philox(example, 0, 0, Purpose::split) are the validation set.
/// Throws Error(QUERN_INVALID_ARGUMENT) where that leaves nothing to train on.
Split split_examples(std::uint32_t count, std::uint32_t validation, std::uint64_t seed);

}  // namespace quern::training
