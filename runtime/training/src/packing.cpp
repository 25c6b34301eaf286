#include "quern/training/packing.hpp"

#include "quern/graph/error.hpp"
#include "quern/training/order.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace quern::training {

namespace {

/// The room in each bin of a window, as a tree of maxima: the first bin with room is found in log n.
class Rooms {
 public:
  Rooms(std::size_t bins, std::uint32_t budget) : leaves_(std::bit_ceil(bins)), most_(2 * leaves_, budget) {}

  /// The first bin that has this much room; there is one, since each example has a bin of its own in the end.
  std::size_t take(std::uint32_t rows) {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (most_[2 * node] < rows ? 1 : 0);
    const std::size_t bin = node - leaves_;
    most_[node] -= rows;
    while (node /= 2) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    return bin;
  }

 private:
  std::size_t leaves_;
  std::vector<std::uint32_t> most_;
};

/// Appends the bins of one window of the order.
void pack(std::span<const std::uint32_t> window, std::span<const std::uint32_t> lengths, std::uint32_t budget, MicroBatches& out) {
  std::vector<std::uint32_t> places(window.size());
  std::iota(places.begin(), places.end(), 0u);
  std::ranges::stable_sort(places, [&](std::uint32_t a, std::uint32_t b) { return lengths[window[a]] > lengths[window[b]]; });
  Rooms rooms(window.size(), budget);
  std::vector<std::size_t> bin_of(window.size());
  for (const std::uint32_t place : places) bin_of[place] = rooms.take(lengths[window[place]]);
  std::vector<std::vector<std::uint32_t>> bins(window.size());
  for (std::size_t place = 0; place < window.size(); ++place) bins[bin_of[place]].push_back(window[place]);
  for (std::size_t place = 0; place < window.size(); ++place) {
    std::vector<std::uint32_t>& bin = bins[bin_of[place]];
    if (bin.empty()) continue;
    out.examples.insert(out.examples.end(), bin.begin(), bin.end());
    out.ends.push_back(out.examples.size());
    bin.clear();
  }
}

}  // namespace

MicroBatches micro_batches(std::span<const std::uint32_t> lengths, const PackingOptions& options, std::uint64_t seed, std::uint32_t epoch) {
  const std::uint64_t budget = std::uint64_t{options.micro_batch_size} * options.sequence_len;
  if (budget == 0 || budget > UINT32_MAX || lengths.size() >= UINT32_MAX)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("a micro-batch of ", options.micro_batch_size, " x ", options.sequence_len, " tokens of ", lengths.size(),
                       " examples cannot be made; both sizes are 1 or more, and rows have 32 bits"));
  const auto count = static_cast<std::uint32_t>(lengths.size());
  for (std::uint32_t example = 0; example < count; ++example)
    if (lengths[example] > options.sequence_len)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("example ", example, " has ", lengths[example], " tokens, and sequence_len is ", options.sequence_len));
  std::vector<std::uint32_t> order(count);
  if (options.shuffle) order = epoch_order(count, seed, epoch);
  else std::iota(order.begin(), order.end(), 0u);
  MicroBatches out;
  out.examples.reserve(count);
  const std::size_t together = options.sample_packing ? packing_window : options.micro_batch_size;
  for (std::size_t begin = 0; begin < count; begin += together) {
    const std::span<const std::uint32_t> window = std::span(order).subspan(begin, std::min<std::size_t>(together, count - begin));
    if (options.sample_packing) {
      pack(window, lengths, static_cast<std::uint32_t>(budget), out);
    } else {
      out.examples.insert(out.examples.end(), window.begin(), window.end());
      out.ends.push_back(out.examples.size());
    }
  }
  return out;
}

}  // namespace quern::training
