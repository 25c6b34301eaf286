// See attention_reference.hpp.
#include "ops/attention_reference.hpp"

#include <algorithm>
#include <limits>

namespace quern::conformance {
namespace {

bool is_narrow(quern_dtype dtype) { return dtype != QUERN_F32; }

}  // namespace

AttentionRules attention_rules(const ReferenceCall& call, const Tensor& q, const Tensor& k) {
  AttentionRules rules;
  rules.scale = call.attribute(QUERN_KEY_SCALE, 1);
  rules.softcap = call.attribute(QUERN_KEY_SOFTCAP, 0);
  rules.tier = is_narrow(q.dtype()) && is_narrow(k.dtype()) ? Tier::t2 : Tier::t1;
  rules.conversions = call.what.fast_conversions;
  return rules;
}

double alibi_slope(double max_bias, std::int64_t head, std::int64_t heads) {
  if (max_bias <= 0) return 1.0;
  std::int64_t n = 1;
  while (2 * n <= heads) n *= 2;
  const double step = head < n ? static_cast<double>(head + 1) / static_cast<double>(n)
                               : static_cast<double>(2 * (head - n) + 1) / static_cast<double>(2 * n);
  return std::exp2(-max_bias * step);
}

double AttentionRow::relative_conversion() const noexcept {
  return (rules_.conversions & QUERN_CONVERT_BF16) != 0 ? 0x1p-8 : rules_.conversions != 0 ? 0x1p-11 : 0.0;
}

void AttentionRow::add(std::int64_t index, const double* q, const double* k, std::int64_t size, double mask, double slope) {
  double dot = 0, products = 0, squares = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double product = q[i] * k[i];
    dot += product;
    products += std::fabs(product);
    squares += product * product;
  }
  Key key{};
  key.index = index;
  key.score = rules_.scale * dot;
  key.error = accumulation_bound(rules_.tier, static_cast<double>(size), std::fabs(rules_.scale) * products);
  key.sigma = relative_conversion() * std::fabs(rules_.scale) * std::sqrt(2.0 * squares / 3.0);
  key.slope = 1.0;
  if (rules_.softcap > 0) {
    const double t = std::tanh(key.score / rules_.softcap);
    key.slope_error = 20 * u32 + 2.0 * key.error / rules_.softcap;
    key.score = rules_.softcap * t;
    key.slope = 1.0 - t * t;
    key.error += 10 * u32 * std::fabs(key.score);
  }
  if (mask != 0.0) {
    const double added = slope * mask;
    const bool absorbed = std::fabs(key.score) < half_ulp_f32(added) / 2;
    key.score = absorbed ? added : key.score + added;
    key.error = (absorbed ? 0.0 : key.error + u32 * std::fabs(key.score)) + (slope == 1.0 ? 0.0 : 2 * u32 * std::fabs(added));
  }
  keys_.push_back(key);
}

void AttentionRow::close(const double* sink) {
  double top = sink == nullptr ? -std::numeric_limits<double>::infinity() : *sink;
  for (const Key& key : keys_)
    if (!std::isnan(top) && !(key.score <= top)) top = key.score;  // a NaN stays
  lse_ = top;
  if (top == -std::numeric_limits<double>::infinity()) {
    for (Key& key : keys_) key.p = 0.0;
    return;
  }
  double sum = sink == nullptr ? 0.0 : std::exp(*sink - top);
  for (Key& key : keys_) sum += key.p = std::exp(key.score - top);
  for (Key& key : keys_) key.p /= sum;
  lse_ = top + std::log(sum);
}

void AttentionRow::close_with(double lse) {
  lse_ = lse;
  for (Key& key : keys_) key.p = std::isinf(lse) ? 0.0 : std::exp(key.score - lse);
}

double AttentionRow::lse_bound() const {
  // The sum of exp is off by (4 sqrt(n) + 32) u relatively and by the scores' errors; its log by as much absolutely. Then the largest is
  // added.
  double moved = 0;
  for (const Key& key : keys_) moved += key.p == 0.0 ? 0.0 : key.p * std::expm1(key.error);
  return (4.0 * std::sqrt(static_cast<double>(keys_.size())) + 32.0) * u32 + moved +
         4.0 * u32 * (std::isfinite(lse_) ? std::fabs(lse_) : 0.0);
}

void AttentionRow::append(const std::vector<double>& sum, const std::vector<double>& scale, const std::vector<double>& moved,
                          quern_dtype dtype, ExpectedOutput& y) const {
  double mean = 0;
  for (const Key& key : keys_) mean += key.p == 0.0 ? 0.0 : key.p * std::expm1(key.error);
  const auto count = static_cast<double>(keys_.size());
  const double own = (4.0 * std::sqrt(count) + 32.0) * u32, floor = count * 0x1p-149;
  for (std::size_t i = 0; i < sum.size(); ++i)
    y.add(sum[i], own * scale[i] + moved[i] + mean * scale[i] + (sum[i] == 0.0 ? 0.0 : floor) + narrow_store(dtype, sum[i]));
}

}  // namespace quern::conformance
