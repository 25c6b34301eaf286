// See judge.hpp.
#include "judge/judge.hpp"

#include "judge/aggregate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace quern::conformance {
namespace {

std::string number(double x) {
  char text[48];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

Verdict failed(std::string text, std::uint64_t compared = 0) { return {Status::fail, std::move(text), 0, compared, {}}; }

Verdict judge_bits(const ExpectedOutput& expected, const Tensor& y) {
  const auto bytes = y.bytes();
  if (bytes.size() != expected.bytes.size())
    return failed("the output has " + std::to_string(bytes.size()) + " bytes, expected " + std::to_string(expected.bytes.size()));
  if (bytes.empty()) return {Status::unknown, "no byte was compared", 0, 0, {}};
  const Unit unit = unit_of(y.dtype());
  if (std::memcmp(bytes.data(), expected.bytes.data(), bytes.size()) == 0) return {Status::pass, {}, 0, bytes.size() / unit.bytes, {}};
  std::size_t first = 0;
  while (bytes[first] == expected.bytes[first]) ++first;
  return failed("byte " + std::to_string(first % unit.bytes) + " of " + (unit.elements == 1 ? "element " : "block ") +
                    std::to_string(first / unit.bytes) + " is " + std::to_string(static_cast<int>(bytes[first])) + ", expected " +
                    std::to_string(static_cast<int>(expected.bytes[first])),
                bytes.size() / unit.bytes);
}

/// r as the rule `value` wants it stored: rounded to f32, then to the dtype.
double stored(const Tensor& y, double r) { return y.rounded(static_cast<double>(static_cast<float>(r))); }

struct Comparison {
  bool ok;
  double ratio;  // of the error to its bound
};

Comparison compare_value(const Tensor& y, double got, double r, bool zero_sign) {
  const double wanted = stored(y, r);
  bool ok = std::isnan(wanted) ? std::isnan(got) : got == wanted;
  if (zero_sign && wanted == 0.0) ok = ok && std::signbit(got) == std::signbit(wanted);
  return {ok, ok ? 0.0 : std::numeric_limits<double>::infinity()};
}

Comparison compare_bounded(const Tensor& y, double got, double r, double bound) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(r)) return {std::isnan(got), std::isnan(got) ? 0.0 : infinity};
  if (std::isnan(got)) return {false, infinity};
  if (std::isinf(r)) return {got == r, got == r ? 0.0 : infinity};
  const double allowed = bound + store_bound(y.dtype(), r);
  if (std::isinf(got)) {  // legal where the dtype rounds a value within the bound to infinity
    const bool ok = is_float(y.dtype()) && y.rounded(r + std::copysign(bound, got)) == got;
    return {ok, ok ? 0.0 : infinity};
  }
  const double error = std::fabs(got - r);
  if (!(error <= allowed)) return {false, allowed > 0 ? error / allowed : infinity};
  return {true, allowed > 0 ? error / allowed : 0.0};
}

/// A zero in place of a result that is subnormal in f32, before its rounding to the dtype. Its sign is judged where the rule does.
bool is_flushed(const Tensor& y, double got, double r, bool zero_sign) {
  if (y.dtype() != QUERN_F32 && y.dtype() != QUERN_BF16) return false;
  return got == 0.0 && std::fabs(r) < 0x1p-126 && (!zero_sign || std::signbit(got) == std::signbit(r));
}

/// The best tier whose accumulation bound holds the errors of every element.
std::string attained_tier(const ExpectedOutput& expected, const std::vector<double>& got, quern_dtype dtype) {
  static constexpr std::pair<Tier, const char*> tiers[] = {{Tier::t1, "T1"}, {Tier::t2, "T2"}, {Tier::t3, "T3"}};
  for (const auto& [tier, name] : tiers) {
    bool holds = true;
    for (std::size_t i = 0; holds && i < got.size(); ++i) {
      const double r = expected.value[i];
      if (!std::isfinite(r) || !std::isfinite(got[i])) continue;
      holds = std::fabs(got[i] - r) <= accumulation_bound(tier, expected.length, expected.scale[i]) + store_bound(dtype, r);
    }
    if (holds) return name;
  }
  return "none";
}

bool well_formed(const ExpectedOutput& e, const Tensor& y) {
  const std::size_t n = e.value.size();
  const auto fits = [n](const auto& v) { return v.empty() || v.size() == n; };
  if (e.index.empty() && n != static_cast<std::size_t>(y.count())) return false;
  for (const std::int64_t i : e.index)
    if (i < 0 || i >= y.count()) return false;
  return fits(e.index) && fits(e.deviation) && fits(e.scale) && fits(e.fast_bound) && (e.rule == Rule::value || e.bound.size() == n);
}

}  // namespace

const char* status_name(Status status) {
  static constexpr const char* names[] = {"pass", "unsupported", "waived",  "resource", "unknown",
                                          "fail", "device_lost", "timeout", "crash"};
  return names[static_cast<int>(status)];
}

Status status_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Status::crash); ++i)
    if (name == status_name(static_cast<Status>(i))) return static_cast<Status>(i);
  throw std::invalid_argument("'" + name + "' is no status");
}

void Verdict::merge(const Verdict& other) {
  if (other.status > status) {
    status = other.status;
    text = other.text;
  }
  worst = std::fmax(worst, other.worst);
  compared += other.compared;
  tier = std::max(tier, other.tier);  // T1 < T2 < T3 < none, and the empty one before all
}

double store_bound(quern_dtype dtype, double r) noexcept {
  // u |r| (1 + 2^-4) for r that is off by its own bound, and half the smallest subnormal.
  const double size = std::isfinite(r) ? std::fabs(r) * 1.0625 : 0.0;
  switch (dtype) {
    case QUERN_F32: return u32 * size + 0x1p-150;
    case QUERN_F16: return u16 * size + 0x1p-25;
    case QUERN_BF16: return ub16 * size + 0x1p-134;
    default: return 0.0;
  }
}

Verdict judge(const ExpectedOutput& expected, const Tensor& y, Numerics numerics, const ExpectedOutput* flushed) {
  if (expected.rule == Rule::unset)
    return {Status::unknown, expected.problem.empty() ? "the reference set no rule for this output" : expected.problem, 0, 0, {}};
  if (expected.rule == Rule::bits) return judge_bits(expected, y);
  if (!well_formed(expected, y)) return {Status::unknown, "the reference's element counts do not agree with the output", 0, 0, {}};
  if (expected.value.empty()) return {Status::unknown, "no element was compared", 0, 0, {}};
  if (!is_float(y.dtype())) flushed = nullptr;
  if (flushed != nullptr && (!well_formed(*flushed, y) || flushed->rule != expected.rule || flushed->index != expected.index))
    return {Status::unknown, "the reference of flushed inputs judges other elements", 0, 0, {}};

  const bool converted = numerics == Numerics::fast && !expected.deviation.empty();
  const bool by_value = expected.rule == Rule::value && !converted;
  const auto allowed = [&](const ExpectedOutput& e, std::size_t i) {
    const std::vector<double>& accumulation = e.accumulation(numerics);
    return (by_value || accumulation.empty() ? 0.0 : accumulation[i]) + (converted && !e.deviation.empty() ? 8.0 * e.deviation[i] : 0.0);
  };
  const auto compare = [&](const ExpectedOutput& e, std::size_t i, double y_i) {
    if (converted && std::isinf(e.value[i]) && std::isnan(y_i)) return Comparison{true, 0.0};  // of a row that was scaled or split
    return by_value ? compare_value(y, y_i, e.value[i], e.zero_sign) : compare_bounded(y, y_i, e.value[i], allowed(e, i));
  };
  Verdict verdict{Status::pass, {}, 0, expected.value.size(), {}};
  std::vector<double> got(expected.value.size());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::int64_t at = expected.index.empty() ? static_cast<std::int64_t>(i) : expected.index[i];
    got[i] = y.at(at);
    Comparison c = compare(expected, i, got[i]);
    if (!c.ok && flushed != nullptr) {
      if (is_flushed(y, got[i], expected.value[i], expected.zero_sign) || is_flushed(y, got[i], flushed->value[i], expected.zero_sign))
        c = {true, 0.0};
      else if (const Comparison other = compare(*flushed, i, got[i]); other.ok) c = other;
    }
    verdict.worst = std::fmax(verdict.worst, c.ratio);
    if (c.ok) continue;
    if (wrong++ == 0) {
      verdict.text = "element " + std::to_string(at) + " is " + number(got[i]) + ", expected " +
                     number(by_value ? stored(y, expected.value[i]) : expected.value[i]) +
                     (by_value ? " exactly" : " within " + number(allowed(expected, i) + store_bound(y.dtype(), expected.value[i])));
    }
  }
  if (wrong > 0) {
    verdict.status = Status::fail;
    if (wrong > 1) verdict.text += ", and " + std::to_string(wrong - 1) + " more of " + std::to_string(got.size());
    return verdict;
  }
  if (!expected.scale.empty() && !converted) verdict.tier = attained_tier(expected, got, y.dtype());
  if (converted && expected.independent) verdict.merge(judge_aggregate(expected, got, y.dtype()));
  return verdict;
}

}  // namespace quern::conformance
