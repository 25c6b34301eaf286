// Micro-batches: which examples are computed together, a function of seed and epoch alone.
//
// Rows of several examples lie one behind the other without padding. Attention sees its own example only, so the composition changes no
// loss beyond rounding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern::training {

struct PackingOptions {
  std::uint32_t micro_batch_size = 1;  // examples; packed, it is a factor of the budget
  std::uint32_t sequence_len = 2048;   // tokens that an example has at most
  bool sample_packing = false;         // fill micro_batch_size * sequence_len rows with as many examples as fit
  bool shuffle = true;                 // or else the order of the files, in every epoch
};

/// Micro-batches of one epoch. Batch b has the examples examples[ends[b - 1]] to examples[ends[b] - 1], with ends[-1] = 0.
struct MicroBatches {
  std::vector<std::uint32_t> examples;  // each once
  std::vector<std::uint64_t> ends;

  std::size_t size() const noexcept { return ends.size(); }
  std::span<const std::uint32_t> operator[](std::size_t batch) const noexcept {
    const std::uint64_t begin = batch == 0 ? 0 : ends[batch - 1];
    return std::span(examples).subspan(begin, ends[batch] - begin);
  }
};

/// Examples that first-fit decreasing looks at together.
inline constexpr std::size_t packing_window = 4096;

/// `lengths` has the tokens of each example. Unpacked, micro_batch_size neighbours of the order make a batch, and the last may have fewer.
/// Packed, the examples of each window of the order are placed in the first bin that has room, the longest first and equal ones by the order.
/// Bins follow each other by their first example in the order, and so do the examples in a bin.
/// Time n log n. Throws Error(QUERN_INVALID_ARGUMENT) for a budget of 0 or of 2^32 rows or more, and for an example longer than sequence_len.
MicroBatches micro_batches(std::span<const std::uint32_t> lengths, const PackingOptions& options, std::uint64_t seed, std::uint32_t epoch);

}  // namespace quern::training
