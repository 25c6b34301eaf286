// y = alpha * a b^T + bias + beta * c, b a known matrix [n, k]; and matmul_id, whose b is a known matrix for each expert.
//
// E_acc: T1 of S for f32 a, T2 for a of 16 bits, as ops/matmul_reference.cpp has it, with the parts of weights in fast numerics where they
// have minimums. Deviation: alpha^2 sum b^2 (s^2 + d^2 / 3), s that of a, d half a step of the widest conversion that the node allows in
// fast numerics, and beta^2 that of c.
#include "graphs/reference/node_reference.hpp"

#include "ops/matmul_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>

namespace quern::conformance {
namespace {

constexpr double most_products = 1 << 24;
constexpr std::int64_t seeded_outputs = 4096;

struct Sums {
  double product = 0, size = 0, variance = 0;
};

/// A row of a as the products read it: the size and the variance of each element.
struct Row {
  const double* value;
  std::vector<double> size, variance;
};
/// A row of b; size: |value|, or that of its parts.
struct Weights {
  std::vector<double> value, size;
};

/// Four elements side by side: the order of sums is free in f64.
using Four = double __attribute__((vector_size(4 * sizeof(double))));

struct FourSums {
  Four product{}, size{}, variance{};
};

[[gnu::always_inline]] inline Sums multiply_as_compiled(const Row& a, const Weights& b, std::int64_t k) {
  const double *const x = a.value, *const x_size = a.size.data(), *const variance = a.variance.data();
  const double *const w = b.value.data(), *const w_size = b.size.data();
  FourSums sums[2];
  const auto add = [&](FourSums& to, std::int64_t first) {
    const auto load = [first](Four& four, const double* from) { std::memcpy(&four, from + first, sizeof four); };
    Four x_at, w_at, x_size_at, w_size_at, variance_at;
    load(x_at, x), load(w_at, w), load(x_size_at, x_size), load(w_size_at, w_size), load(variance_at, variance);
    to.product += x_at * w_at;
    to.size += x_size_at * w_size_at;
    to.variance += variance_at * w_at * w_at;
  };
  std::int64_t first = 0;
  for (; first + 8 <= k; first += 8) add(sums[0], first), add(sums[1], first + 4);
  const auto sum = [](const Four& one, const Four& other) {
    const Four both = one + other;
    return (both[0] + both[1]) + (both[2] + both[3]);
  };
  Sums all = {sum(sums[0].product, sums[1].product), sum(sums[0].size, sums[1].size), sum(sums[0].variance, sums[1].variance)};
  for (; first < k; ++first) {
    all.product += x[first] * w[first];
    all.size += x_size[first] * w_size[first];
    all.variance += variance[first] * w[first] * w[first];
  }
  return all;
}

#if defined(__x86_64__)
/// The same operations in the same order, so the same bits: AVX2 alone has no fused multiply-add.
[[gnu::target("avx2")]] Sums multiply_avx2(const Row& a, const Weights& b, std::int64_t k) { return multiply_as_compiled(a, b, k); }

Sums multiply(const Row& a, const Weights& b, std::int64_t k) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  return avx2 ? multiply_avx2(a, b, k) : multiply_as_compiled(a, b, k);
}
#else
Sums multiply(const Row& a, const Weights& b, std::int64_t k) { return multiply_as_compiled(a, b, k); }
#endif

std::uint32_t conversions(const NodeCall& call) { return call.numerics == Numerics::fast ? call.node.fast_conversions : 0; }

/// `parts`: the size is that of the converted element, as weights with minimums want it.
Row row_of_a(const NodeCall& call, const double* a, const double* deviation, std::int64_t k, bool parts) {
  const std::uint32_t allowed = conversions(call);
  const double relative = (allowed & QUERN_CONVERT_BF16) != 0                         ? 0x1p-8
                          : (allowed & (QUERN_CONVERT_F16 | QUERN_CONVERT_TF32)) != 0 ? 0x1p-11
                                                                                      : 0.0;
  const std::int64_t block = std::max<std::int64_t>(32, unit_of(call.input(1).tensor->dtype()).elements);
  Row row{a, std::vector<double>(static_cast<std::size_t>(k)), std::vector<double>(static_cast<std::size_t>(k))};
  for (std::int64_t first = 0; first < k; first += block) {
    double largest = 0;
    for (std::int64_t l = first; l < std::min(k, first + block); ++l) largest = std::max(largest, std::fabs(a[l]));
    const double int8 = (allowed & QUERN_CONVERT_INT8) != 0 ? largest / 254.0 : 0.0;
    for (std::int64_t l = first; l < std::min(k, first + block); ++l) {
      const double step = std::max(int8, relative * std::fabs(a[l]));
      row.size[static_cast<std::size_t>(l)] = parts ? converted_size(a[l], step) : std::fabs(a[l]);
      row.variance[static_cast<std::size_t>(l)] = deviation[l] * deviation[l] + step * step / 3.0;
    }
  }
  return row;
}

/// The columns to judge: all, or those beside each power of two and both ends, and seeded ones, so that they hold 4,096 outputs.
std::vector<std::int64_t> columns_of(const NodeCall& call, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<std::int64_t> columns;
  const bool all = !call.sparse || static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= most_products;
  if (all) {
    for (std::int64_t j = 0; j < n; ++j) columns.push_back(j);
    return columns;
  }
  std::set<std::int64_t> chosen = {0, n - 1, std::max<std::int64_t>(0, n - 2)};
  for (std::int64_t tile = 4; tile < n; tile *= 2) chosen.insert({tile - 1, tile});
  const CounterRandom random = CounterRandom::of(call.seed);
  for (std::int64_t i = 0; i < (seeded_outputs + m - 1) / m; ++i)
    chosen.insert(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(n))));
  columns.assign(chosen.begin(), chosen.end());
  return columns;
}

}  // namespace

void matmul_node(const NodeCall& call, Result& y) {
  const Operand &a = call.input(0), &b = call.input(1);
  if (!b.exact() || b.dims.size() != 2) throw std::logic_error("a matmul of a whole graph has a known matrix as b");
  const std::int64_t k = b.dims[1], n = b.dims[0], m = a.count() / k;
  const double alpha = call.attribute(QUERN_KEY_ALPHA, 1), beta = call.attribute(QUERN_KEY_BETA, 1);
  const std::vector<double> values = a.values(), deviations = a.deviations();
  const bool parts = has_parts(b.tensor->dtype(), conversions(call));
  std::vector<Row> rows;
  for (std::int64_t row = 0; row < m; ++row)
    rows.push_back(row_of_a(call, &values[static_cast<std::size_t>(row * k)], &deviations[static_cast<std::size_t>(row * k)], k, parts));
  const std::vector<double> bias = call.has(2) ? call.input(2).values() : std::vector<double>();
  const std::vector<double> c = call.has(3) ? call.input(3).values() : std::vector<double>();
  const std::vector<double> c_deviation = call.has(3) ? call.input(3).deviations() : std::vector<double>();
  const std::vector<std::int64_t> columns = columns_of(call, m, n, k);
  const bool wide = !a.exact() || a.tensor->dtype() == QUERN_F32;

  const std::size_t outputs = static_cast<std::size_t>(m) * columns.size();
  y.value.resize(outputs), y.bound.resize(outputs), y.deviation.resize(outputs);
  if (columns.size() != static_cast<std::size_t>(n)) y.index.resize(outputs);
  Weights weights{std::vector<double>(static_cast<std::size_t>(k)), std::vector<double>(static_cast<std::size_t>(k))};
  for (std::size_t j = 0; j < columns.size(); ++j) {
    b.tensor->read_sized(columns[j] * k, k, weights.value.data(), weights.size.data());
    if (!parts) std::ranges::transform(weights.value, weights.size.begin(), [](double v) { return std::fabs(v); });
    for (std::int64_t row = 0; row < m; ++row) {
      const Sums sums = multiply(rows[static_cast<std::size_t>(row)], weights, k);
      double r = alpha * sums.product, size = std::fabs(alpha) * sums.size, square = alpha * alpha * sums.variance;
      const auto term = [&](double t) { r += t, size += std::fabs(t); };
      if (!bias.empty()) term(bias[static_cast<std::size_t>(columns[j])]);
      if (!c.empty()) {
        const auto at = static_cast<std::size_t>(row * n + columns[j]);
        term(beta * c[at]);
        square += beta * beta * c_deviation[at] * c_deviation[at];
      }
      const std::size_t at = static_cast<std::size_t>(row) * columns.size() + j;
      y.value[at] = r;
      y.bound[at] = accumulation_bound(wide ? Tier::t1 : Tier::t2, static_cast<double>(k), size) +
                    (call.dtypes[0] == QUERN_F32 ? 0.0 : half_ulp_f32(r));
      y.deviation[at] = std::sqrt(square);
      if (!y.index.empty()) y.index[at] = row * n + columns[j];
    }
  }
  y.independent = a.exact() && call.numerics == Numerics::fast && call.node.fast_conversions != 0 && m >= 8;
  if (!y.independent) return;
  RowShares shares(k);
  std::vector<std::int64_t> at(static_cast<std::size_t>(k));
  std::iota(at.begin(), at.end(), 0);
  std::vector<double> value(at.size()), step(at.size());
  for (const Row& row : rows) {
    std::copy_n(row.value, at.size(), value.begin());
    std::ranges::transform(row.variance, step.begin(), [](double variance) { return std::sqrt(3.0 * variance); });
    shares.add(at, value, step);
  }
  y.sharing = sharing_of_conversions(n, shares.shares());
  y.gain_variance = gain_variance_of_weights(n, shares.shares(), b.tensor->dtype(), call.node.fast_conversions);
}

void matmul_id_node(const NodeCall& call, Result& y) {
  const Operand &a = call.input(0), &b = call.input(1), &id = call.input(2);
  if (!b.exact() || !id.exact()) throw std::logic_error("a matmul_id of a whole graph has known experts and ids that the run shows");
  const std::int64_t experts = b.dims[0], n = b.dims[1], k = b.dims[2], used = id.dims[1], pairs = id.count(), rows = a.count() / k;
  const bool shared = a.dims[1] == 1, parts = has_parts(b.tensor->dtype(), conversions(call)),
             wide = !a.exact() || a.tensor->dtype() == QUERN_F32;
  const std::vector<double> values = a.values(), deviations = a.deviations();
  std::vector<Row> row_of;
  for (std::int64_t row = 0; row < rows; ++row)
    row_of.push_back(row_of_a(call, &values[static_cast<std::size_t>(row * k)], &deviations[static_cast<std::size_t>(row * k)], k, parts));
  const auto outputs = static_cast<std::size_t>(pairs * n);
  y.value.resize(outputs), y.bound.resize(outputs), y.deviation.resize(outputs);  // 0 where there is no such expert
  Weights weights{std::vector<double>(static_cast<std::size_t>(k)), std::vector<double>(static_cast<std::size_t>(k))};
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    std::vector<std::int64_t> of_expert;
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      if (static_cast<std::int64_t>(id.tensor->at(pair)) == expert) of_expert.push_back(pair);
    for (std::int64_t column = 0; column < n && !of_expert.empty(); ++column) {
      b.tensor->read_sized((expert * n + column) * k, k, weights.value.data(), weights.size.data());
      if (!parts) std::ranges::transform(weights.value, weights.size.begin(), [](double v) { return std::fabs(v); });
      for (const std::int64_t pair : of_expert) {
        const Sums sums = multiply(row_of[static_cast<std::size_t>(shared ? pair / used : pair)], weights, k);
        const auto at = static_cast<std::size_t>(pair * n + column);
        y.value[at] = sums.product;
        y.bound[at] = accumulation_bound(wide ? Tier::t1 : Tier::t2, static_cast<double>(k), sums.size) +
                      (call.dtypes[0] == QUERN_F32 ? 0.0 : half_ulp_f32(sums.product));
        y.deviation[at] = std::sqrt(sums.variance);
      }
    }
  }
}

}  // namespace quern::conformance
