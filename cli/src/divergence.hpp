// How far a model's predictions lie from those of another.
#pragma once

#include <cstdint>
#include <span>

namespace quern::cli {

/// Sums over positions of the Kullback-Leibler divergence from the reference, sum p log(p / q), in nats.
struct Divergence {
  std::uint64_t positions = 0, same_best = 0;
  double sum = 0, most = 0;

  /// Logits of one position over one vocabulary. NaN where the logits are not finite.
  void add(std::span<const float> reference, std::span<const float> model);
  double mean() const noexcept { return sum / static_cast<double>(positions); }
};

}  // namespace quern::cli
