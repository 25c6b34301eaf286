#include "divergence.hpp"

#include <algorithm>
#include <cmath>

namespace quern::cli {
namespace {

/// The log of the sum of exp, in f64.
double log_sum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

std::ptrdiff_t best_of(std::span<const float> logits) { return std::ranges::max_element(logits) - logits.begin(); }

}  // namespace

void Divergence::add(std::span<const float> reference, std::span<const float> model) {
  const double of_reference = log_sum(reference), of_model = log_sum(model);
  double kl = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - of_reference;
    const double p = std::exp(log_p);
    if (p != 0) kl += p * (log_p - (model[i] - of_model));
  }
  ++positions;
  same_best += best_of(reference) == best_of(model);
  sum += kl;
  if (!(kl <= most)) most = std::isnan(most) ? most : kl;  // keeps a NaN
}

}  // namespace quern::cli
