// Dense attention and its log of the sum of exp against a naive f64 computation.
#include "dense_attention_case.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

constexpr double u = 0x1p-24;

using Case = DenseAttentionCase;

struct Problem {
  Tensor q, k, v, y, lse;
  explicit Problem(const Case& c)
      : q(random_tensor(c.dtype, {c.batch, c.queries, c.heads, c.d}, 1)),
        k(random_tensor(c.dtype, {c.batch, c.keys, c.kv_heads, c.d}, 2)),
        v(random_tensor(c.dtype, {c.batch, c.keys, c.kv_heads, c.dv}, 3)),
        y(make(c.dtype, {c.batch, c.queries, c.heads, c.dv})),
        lse(make(QUERN_F32, {c.batch, c.queries, c.heads})) {}
};

Outcome attend(Plugin& plugin, const Case& c, const Problem& p) {
  return run_node(plugin, QUERN_OP_ATTENTION_DENSE, {p.q, p.k, p.v, c.mask, c.sinks}, {p.y, p.lse}, attributes_of(c));
}

/// Within S_v ((4 sqrt(kv) + 32) u + 2 max ds) of f64, and lse within (4 sqrt(kv) + 32 + 2 |s - max|) u + 2 max ds.
void expect_close(const Case& c, const Problem& p, const std::string& what) {
  const std::vector<double> q = meaning(p.q), k = meaning(p.k), v = meaning(p.v), y = meaning(p.y);
  const std::vector<double> mask = c.mask.dtype == QUERN_DTYPE_NONE || c.mask.dtype == QUERN_U8 ? std::vector<double>{} : meaning(c.mask);
  const double unit = c.dtype == QUERN_F16 ? 0x1p-11 : c.dtype == QUERN_BF16 ? 0x1p-8 : u;
  const std::int64_t group = c.heads / c.kv_heads;
  for (std::int64_t row = 0; row < c.batch * c.queries * c.heads; ++row) {
    const std::int64_t h = row % c.heads, t = row / c.heads % c.queries, b = row / c.heads / c.queries;
    std::vector<double> scores(static_cast<std::size_t>(c.keys), no_score);
    double top = no_score, slack = 0;
    for (std::int64_t j = 0; j < c.keys; ++j) {
      const double m = mask_at(c, mask, b, h, t, j);
      if ((c.causal && j > t + c.query_offset) || (c.window > 0 && j <= t + c.query_offset - c.window) || m == no_score) continue;
      double score = 0, s = 0;
      for (std::int64_t i = 0; i < c.d; ++i) {
        const double product =
            q[static_cast<std::size_t>(row * c.d + i)] * k[static_cast<std::size_t>(((b * c.keys + j) * c.kv_heads + h / group) * c.d + i)];
        score += product, s += std::fabs(product);
      }
      score *= c.scale;
      if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
      score += slope_of(c.max_bias, h) * m;
      // The product, and the roundings of tanh, slope and sum.
      slack = std::max(slack, (2 * std::sqrt(static_cast<double>(c.d)) + 8) * u * c.scale * s + 4 * u * (std::fabs(score) + std::fabs(m)));
      scores[static_cast<std::size_t>(j)] = score;
      top = std::max(top, score);
    }
    const double sink = c.sinks.dtype == QUERN_DTYPE_NONE ? no_score : static_cast<double>(c.sinks.f32()[static_cast<std::size_t>(h)]),
                 best = std::max(top, sink);
    const double lse = static_cast<double>(p.lse.f32()[static_cast<std::size_t>(row)]);
    double sum = best == no_score ? 0 : std::exp(sink - best), spread = 0;
    for (const double s : scores)
      if (s != no_score) sum += std::exp(s - best), spread = std::max(spread, best - s);
    if (top == no_score) {
      for (std::int64_t i = 0; i < c.dv; ++i) ASSERT_EQ(y[static_cast<std::size_t>(row * c.dv + i)], 0.0) << what;
      if (sink == no_score) EXPECT_EQ(lse, no_score) << what;
      else EXPECT_EQ(lse, sink) << what;
      continue;
    }
    const double root = 4 * std::sqrt(static_cast<double>(c.keys)) + 32, r_lse = best + std::log(sum);
    ASSERT_LE(std::fabs(lse - r_lse), (root + 2 * spread) * u + 2 * slack + u * std::fabs(r_lse) * 1.0625) << what << " row " << row;
    for (std::int64_t i = 0; i < c.dv; ++i) {
      double r = 0, s_v = 0;
      for (std::int64_t j = 0; j < c.keys; ++j) {
        if (scores[static_cast<std::size_t>(j)] == no_score) continue;
        const double w = std::exp(scores[static_cast<std::size_t>(j)] - best) / sum,
                     value = v[static_cast<std::size_t>(((b * c.keys + j) * c.kv_heads + h / group) * c.dv + i)];
        r += w * value, s_v += w * std::fabs(value);
      }
      const double got = y[static_cast<std::size_t>(row * c.dv + i)];
      ASSERT_LE(std::fabs(got - r), s_v * (root * u + 2 * slack) + unit * std::fabs(r) * 1.0625 + 0x1p-25)
          << what << " row " << row << ": " << got << " for " << r;
    }
  }
}

void check(const Case& c, const std::string& what) {
  Plugin plugin(2);
  const Problem p(c);
  const Outcome outcome = attend(plugin, c, p);
  ASSERT_EQ(outcome.status, QUERN_OK) << what << ": " << outcome.text;
  expect_close(c, p, what);
}

TEST(AttentionDense, MatchesF64InEveryDtype) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
    for (const std::int64_t keys : {1, 9, 300}) {
      Case c;
      c.dtype = dtype;
      c.keys = keys;
      c.query_offset = keys - 5 > 0 ? keys - 5 : 0;
      check(c, "dtype " + std::to_string(dtype) + " keys " + std::to_string(keys));
      c.causal = false;
      check(c, "not causal, dtype " + std::to_string(dtype));
    }
}

TEST(AttentionDense, AppliesWindowSoftcapMasksSlopesAndSinks) {
  each_variation(Case{}, [](const Case& c, const std::string& what) { check(c, what); });
}

TEST(AttentionDense, HiddenKeysAndValuesMayBeNaN) {
  Plugin plugin;
  Case c;
  c.mask = make(QUERN_U8, {5, 9});
  for (std::size_t i = 0; i < 45; ++i) c.mask.raw()[i] = i % 9 != 2;
  c.query_offset = 0;  // keys 5 to 8 lie in the future of all
  const Problem p(c);
  for (std::int64_t b = 0; b < 2; ++b)
    for (const std::int64_t j : {2, 5, 8}) {
      for (std::int64_t i = 0; i < c.kv_heads * c.d; ++i)
        p.k.f32()[static_cast<std::size_t>((b * c.keys + j) * c.kv_heads * c.d + i)] = std::nanf("");
      for (std::int64_t i = 0; i < c.kv_heads * c.dv; ++i)
        p.v.f32()[static_cast<std::size_t>((b * c.keys + j) * c.kv_heads * c.dv + i)] = std::nanf("");
    }
  ASSERT_EQ(attend(plugin, c, p).status, QUERN_OK);
  expect_close(c, p, "NaN where nothing looks");
}

TEST(AttentionDense, ANaNStaysInItsRowAndThreadsChangeNoBits) {
  Plugin one(1), four(4);
  const Case c;
  const Problem a(c), b(c);
  ASSERT_EQ(attend(one, c, a).status, QUERN_OK);
  b.q.f32()[0] = std::nanf("");
  ASSERT_EQ(attend(four, c, b).status, QUERN_OK);
  const auto dv = static_cast<std::size_t>(c.dv);
  for (std::size_t i = 0; i < dv; ++i) EXPECT_TRUE(std::isnan(b.y.f32()[i]));
  EXPECT_TRUE(std::isnan(b.lse.f32()[0]));
  EXPECT_EQ(std::memcmp(a.y.f32().data() + dv, b.y.f32().data() + dv, (static_cast<std::size_t>(a.y.elements()) - dv) * 4), 0);
  EXPECT_EQ(std::memcmp(a.lse.f32().data() + 1, b.lse.f32().data() + 1, (static_cast<std::size_t>(a.lse.elements()) - 1) * 4), 0);
}

TEST(AttentionDense, RefusesShapesThatDoNotFit) {
  Plugin plugin;
  Case c;
  c.mask = make(QUERN_F32, {5, 8});
  const Problem p(c);
  Outcome outcome = attend(plugin, c, p);
  EXPECT_EQ(outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(outcome.text.find("mask is [5, 8] f32"), std::string::npos) << outcome.text;
  c.mask = absent();
  c.query_offset = -1;
  EXPECT_EQ(attend(plugin, c, p).status, QUERN_INVALID_ARGUMENT);
  c = Case{};
  c.kv_heads = 4;
  const Problem uneven(c);
  EXPECT_EQ(attend(plugin, c, uneven).status, QUERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quern::cpu_test
