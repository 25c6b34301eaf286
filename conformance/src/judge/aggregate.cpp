// See aggregate.hpp.
#include "judge/aggregate.hpp"

#include "judge/judge.hpp"

#include <cmath>
#include <cstdio>

namespace quern::conformance {
namespace {

constexpr std::size_t least_outputs = 512;

std::string text(const char* format, double a, double b) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, a, b);
  return buffer;
}

}  // namespace

Verdict judge_aggregate(const ExpectedOutput& expected, const std::vector<double>& got, quern_dtype dtype) {
  const std::vector<double>& accumulation = expected.accumulation(Numerics::fast);
  double rr = 0, ry = 0, chi_square = 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double r = expected.value[i], sigma = expected.deviation[i];
    if (!(sigma > 0) || !std::isfinite(r) || !std::isfinite(got[i])) continue;
    const double store = store_bound(dtype, r), acc = accumulation.empty() ? 0.0 : accumulation[i];
    const double weight = 1.0 / (sigma * sigma + store * store + acc * acc);
    rr += weight * r * r;
    ry += weight * r * got[i];
    chi_square += weight * (got[i] - r) * (got[i] - r);
    ++n;
  }
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  if (n < least_outputs || !(rr > 0)) return verdict;
  const double slope = ry / rr, allowed = 6.0 * std::sqrt(expected.sharing / rr + expected.gain_variance);
  const auto count = static_cast<double>(n);
  if (std::fabs(slope - 1.0) > allowed) {
    verdict.status = Status::fail;
    verdict.text = text("the outputs follow the reference with a slope of %.6f, allowed is 1 within %.2g", slope, allowed);
  } else if (chi_square > count + 6.0 * std::sqrt(2.0 * count * expected.sharing)) {
    verdict.status = Status::fail;
    verdict.text = text("the errors together are too large: chi-square %.1f over %.0f outputs", chi_square, count);
  }
  return verdict;
}

}  // namespace quern::conformance
