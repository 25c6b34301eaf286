#include "quern/training/initial.hpp"

#include "quern/graph/error.hpp"
#include "quern/training/philox.hpp"

#include <cmath>

namespace quern::training {

void fill_initial_a(std::span<float> a, std::uint64_t k, std::uint32_t matrix, std::uint64_t seed) {
  constexpr std::uint64_t most = std::uint64_t{1} << 34;  // the counter has 32 bits for four values each
  if (k == 0 || a.size() % k != 0 || a.size() > most)
    throw Error(QUERN_INVALID_ARGUMENT, concat("initial values: A has ", a.size(), " values in rows of ", k,
                                               "; whole rows are needed, and at most ", most, " values"));
  const double root = std::sqrt(static_cast<double>(k));
  PhiloxWords words{};
  for (std::uint64_t i = 0; i < a.size(); ++i) {
    if (i % 4 == 0) words = philox(seed, static_cast<std::uint32_t>(i / 4), 0, matrix, Purpose::initial);
    a[i] = static_cast<float>((2 * double{uniform(words[i % 4])} - 1) / root);
  }
}

}  // namespace quern::training
