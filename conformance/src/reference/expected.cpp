// See expected.hpp.
#include "reference/expected.hpp"

#include "case_table/case.hpp"

#include <algorithm>
#include <cmath>

namespace quern::conformance {

void ExpectedOutput::reserve(std::size_t count) {
  value.reserve(count);
  bound.reserve(count);
}

void ExpectedOutput::keep(const Tensor& before, std::size_t part, std::size_t parts) {
  scale.clear();
  independent = false;
  if (rule == Rule::bits) {
    const std::size_t size = bytes.size() / parts;
    const auto from = before.bytes().subspan(part * size, size);
    std::copy(from.begin(), from.end(), bytes.begin() + static_cast<std::ptrdiff_t>(part * size));
    return;
  }
  const auto size = before.count() / static_cast<std::int64_t>(parts);
  const std::int64_t first = static_cast<std::int64_t>(part) * size;
  for (std::size_t e = 0; e < value.size(); ++e) {
    const std::int64_t element = index.empty() ? static_cast<std::int64_t>(e) : index[e];
    if (element < first || element >= first + size) continue;
    value[e] = before.at(element);
    bound[e] = 0;
    if (!fast_bound.empty()) fast_bound[e] = 0;
    if (!deviation.empty()) deviation[e] = 0;
  }
}

double ReferenceCall::attribute(std::uint32_t key, double fallback) const { return what.attribute(key, fallback); }

double accumulation_bound(Tier tier, double length, double scale) noexcept {
  // 2 sqrt(K): the probabilistic bound of a sum of K terms (measured: 4.1 u S for random data, K/100 for positive data summed one
  // by one at K = 11008, where 2 sqrt(K) + 8 = 218). K/8: one truncation of up to an ulp of the partial sum for 8 products.
  // 8 u16: f16 partial sums of 32 positive terms lose at most 32/2 u16 of a 32nd each, twice that with the store.
  switch (tier) {
    case Tier::t1: return (2.0 * std::sqrt(length) + 8.0) * u32 * scale;
    case Tier::t2: return (length / 8.0 + 2.0 * std::sqrt(length) + 16.0) * u32 * scale;
    case Tier::t3: return 8.0 * u16 * scale;
  }
  return 0.0;
}

double half_ulp_f32(double r) noexcept {
  if (r == 0.0 || !std::isfinite(r)) return 0x1p-150;
  return std::ldexp(1.0, std::max(std::ilogb(r), -126) - 24);
}

}  // namespace quern::conformance
