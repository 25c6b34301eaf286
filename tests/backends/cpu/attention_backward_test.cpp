// Gradients of dense attention against f64 formulas, which are held to central differences of the forward.
#include "dense_attention_case.hpp"
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

using Doubles = std::vector<double>;

struct Case : DenseAttentionCase {
  Case() { queries = 70, keys = 75, query_offset = 5; }
};

struct Problem {
  Tensor q, k, v, y, lse, dy, dq, dk, dv;
  explicit Problem(const Case& c)
      : q(random_tensor(c.dtype, {c.batch, c.queries, c.heads, c.d}, 1)),
        k(random_tensor(c.dtype, {c.batch, c.keys, c.kv_heads, c.d}, 2)),
        v(random_tensor(c.dtype, {c.batch, c.keys, c.kv_heads, c.dv}, 3)),
        y(make(c.dtype, {c.batch, c.queries, c.heads, c.dv})),
        lse(make(QUERN_F32, {c.batch, c.queries, c.heads})),
        dy(random_tensor(c.dtype, y.dims, 4)),
        dq(make(c.dtype, q.dims)),
        dk(make(c.dtype, k.dims)),
        dv(make(c.dtype, v.dims)) {}
};

Outcome forward(Plugin& plugin, const Case& c, const Problem& p) {
  return run_node(plugin, QUERN_OP_ATTENTION_DENSE, {p.q, p.k, p.v, c.mask, c.sinks}, {p.y, p.lse}, attributes_of(c));
}
Outcome backward(Plugin& plugin, const Case& c, const Problem& p) {
  return run_node(plugin, QUERN_OP_ATTENTION_BACKWARD, {p.q, p.k, p.v, p.y, p.lse, p.dy, c.mask, c.sinks}, {p.dq, p.dk, p.dv},
                  attributes_of(c));
}

/// The forward in f64; -inf as score of what is hidden.
struct Forward {
  Doubles score, slope, y, lse;  // slope: of the softcap, [row][key]
};
Forward attend(const Case& c, const Doubles& q, const Doubles& k, const Doubles& v) {
  const Doubles mask = c.mask.dtype == QUERN_DTYPE_NONE || c.mask.dtype == QUERN_U8 ? Doubles{} : meaning(c.mask);
  const std::int64_t group = c.heads / c.kv_heads, rows = c.batch * c.queries * c.heads;
  Forward f;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t h = row % c.heads, t = row / c.heads % c.queries, b = row / c.heads / c.queries;
    const double sink = c.sinks.dtype == QUERN_DTYPE_NONE ? no_score : static_cast<double>(c.sinks.f32()[static_cast<std::size_t>(h)]);
    double best = sink, sum = 0;
    const std::size_t first = f.score.size();
    for (std::int64_t j = 0; j < c.keys; ++j) {
      const double m = mask_at(c, mask, b, h, t, j);
      f.score.push_back(no_score), f.slope.push_back(1);
      if ((c.causal && j > t + c.query_offset) || (c.window > 0 && j <= t + c.query_offset - c.window) || m == no_score) continue;
      double score = 0;
      for (std::int64_t i = 0; i < c.d; ++i)
        score +=
            q[static_cast<std::size_t>(row * c.d + i)] * k[static_cast<std::size_t>(((b * c.keys + j) * c.kv_heads + h / group) * c.d + i)];
      score *= c.scale;
      if (c.softcap > 0) {
        const double tanh = std::tanh(score / c.softcap);
        score = c.softcap * tanh, f.slope.back() = 1 - tanh * tanh;
      }
      f.score.back() = score + slope_of(c.max_bias, h) * m;
      best = std::max(best, f.score.back());
    }
    if (best != no_score) sum = std::exp(sink - best);
    for (std::size_t j = first; j < f.score.size(); ++j)
      if (f.score[j] != no_score) sum += std::exp(f.score[j] - best);
    f.lse.push_back(best == no_score ? no_score : best + std::log(sum));
    for (std::int64_t i = 0; i < c.dv; ++i) {
      double r = 0;
      for (std::int64_t j = 0; j < c.keys; ++j)
        if (f.score[first + static_cast<std::size_t>(j)] != no_score)
          r += std::exp(f.score[first + static_cast<std::size_t>(j)] - f.lse.back()) *
               v[static_cast<std::size_t>(((b * c.keys + j) * c.kv_heads + h / group) * c.dv + i)];
      f.y.push_back(r);
    }
  }
  return f;
}

/// The gradients and, for each element, how much an error of one unit roundoff in each of its terms' products could make.
struct Slopes {
  Doubles dq, dk, dv, dq_size, dk_size, dv_size;
};
/// y and lse are what the op is given. `relative` bounds the relative error of P dP and P d, per term, in units of 1.
Slopes slopes_of(const Case& c, const Doubles& q, const Doubles& k, const Doubles& v, const Doubles& y, const Doubles& lse,
                 const Doubles& dy) {
  const Forward f = attend(c, q, k, v);
  const std::int64_t group = c.heads / c.kv_heads, rows = c.batch * c.queries * c.heads;
  Slopes s;
  for (auto* to : {&s.dq, &s.dq_size}) to->assign(q.size(), 0.0);
  for (auto* to : {&s.dk, &s.dk_size}) to->assign(k.size(), 0.0);
  for (auto* to : {&s.dv, &s.dv_size}) to->assign(v.size(), 0.0);
  const double root = accumulation(static_cast<std::size_t>(c.d)), root_v = accumulation(static_cast<std::size_t>(c.dv));
  const double root_rows = accumulation(static_cast<std::size_t>(std::max(c.keys, c.queries * group)));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t h = row % c.heads, b = row / c.heads / c.queries;
    double inner = 0, inner_size = 0;
    for (std::int64_t i = 0; i < c.dv; ++i) {
      const double product = y[static_cast<std::size_t>(row * c.dv + i)] * dy[static_cast<std::size_t>(row * c.dv + i)];
      inner += product, inner_size += std::fabs(product);
    }
    for (std::int64_t j = 0; j < c.keys; ++j) {
      const double score = f.score[static_cast<std::size_t>(row * c.keys + j)], slope = f.slope[static_cast<std::size_t>(row * c.keys + j)];
      if (score == no_score) continue;
      const std::int64_t key = (b * c.keys + j) * c.kv_heads + h / group;
      double dp = 0, dp_size = 0, product_size = 0;
      for (std::int64_t i = 0; i < c.dv; ++i) {
        const double product = dy[static_cast<std::size_t>(row * c.dv + i)] * v[static_cast<std::size_t>(key * c.dv + i)];
        dp += product, dp_size += std::fabs(product);
      }
      for (std::int64_t i = 0; i < c.d; ++i)
        product_size += std::fabs(q[static_cast<std::size_t>(row * c.d + i)] * k[static_cast<std::size_t>(key * c.d + i)]);
      const double p = std::exp(score - lse[static_cast<std::size_t>(row)]), ds = c.scale * slope * p * (dp - inner);
      // P is off by the score's error, by that of exp and by the rounding of its argument; dS by that and by those of dP and d, and the
      // slope of the softcap, 1 - tanh^2, by 4 u and twice the score's error over the cap.
      const double score_error =
          root * c.scale * product_size + 4 * u * (std::fabs(score) + (c.max_bias > 0 || c.mask.dtype != QUERN_DTYPE_NONE ? 2 : 0));
      const double p_error = p * (score_error + (8 + 4 * std::fabs(score - lse[static_cast<std::size_t>(row)])) * u);
      const double slope_error = c.softcap > 0 ? 4 * u + 2 * score_error / c.softcap : 0;
      const double ds_error = c.scale * ((p_error + 4 * u * p) * std::fabs(dp - inner) * slope +
                                         p * slope * (root_v * (dp_size + inner_size)) + p * std::fabs(dp - inner) * slope_error);
      for (std::int64_t i = 0; i < c.dv; ++i) {
        const double dy_i = dy[static_cast<std::size_t>(row * c.dv + i)];
        s.dv[static_cast<std::size_t>(key * c.dv + i)] += p * dy_i;
        s.dv_size[static_cast<std::size_t>(key * c.dv + i)] += (p_error + root_rows * p) * std::fabs(dy_i);
      }
      for (std::int64_t i = 0; i < c.d; ++i) {
        const double q_i = q[static_cast<std::size_t>(row * c.d + i)], k_i = k[static_cast<std::size_t>(key * c.d + i)];
        s.dq[static_cast<std::size_t>(row * c.d + i)] += ds * k_i;
        s.dq_size[static_cast<std::size_t>(row * c.d + i)] += (ds_error + root_rows * std::fabs(ds)) * std::fabs(k_i);
        s.dk[static_cast<std::size_t>(key * c.d + i)] += ds * q_i;
        s.dk_size[static_cast<std::size_t>(key * c.d + i)] += (ds_error + root_rows * std::fabs(ds)) * std::fabs(q_i);
      }
    }
  }
  return s;
}

void expect_close(const Case& c, const Problem& p, const std::string& what) {
  const Slopes s = slopes_of(c, meaning(p.q), meaning(p.k), meaning(p.v), meaning(p.y), meaning(p.lse), meaning(p.dy));
  const struct {
    const char* name;
    const Tensor& got;
    const Doubles &exact, &bound;
  } outputs[] = {{"dq", p.dq, s.dq, s.dq_size}, {"dk", p.dk, s.dk, s.dk_size}, {"dv", p.dv, s.dv, s.dv_size}};
  for (const auto& o : outputs) {
    const Doubles got = meaning(o.got);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::fabs(got[i] - o.exact[i]), o.bound[i] + out_error(c.dtype, o.exact[i]))
          << what << ": " << o.name << "[" << i << "] is " << got[i] << " for " << o.exact[i];
  }
}
void check(const Case& c, const std::string& what, const std::string& family = {}) {
  std::map<std::string, std::string> options;
  if (!family.empty()) options["force_kernel"] = family;
  Plugin plugin(2, options);
  const Problem p(c);
  ASSERT_EQ(forward(plugin, c, p).status, QUERN_OK) << what;
  const Outcome outcome = backward(plugin, c, p);
  ASSERT_EQ(outcome.status, QUERN_OK) << what << ": " << outcome.text;
  expect_close(c, p, what);
}

TEST(AttentionBackward, TheFormulasAreTheSlopes) {
  Case c;
  c.batch = 1, c.queries = 3, c.keys = 4, c.heads = 2, c.kv_heads = 1, c.d = 3, c.dv = 2, c.query_offset = 1;
  for (const double softcap : {0.0, 0.7})
    for (const bool sinks : {false, true}) {
      c.softcap = softcap;
      c.sinks = sinks ? of({2}, {0.5f, -1}) : absent();
      const Problem p(c);
      const Doubles q = meaning(p.q), k = meaning(p.k), v = meaning(p.v), dy = meaning(p.dy);
      const Forward f = attend(c, q, k, v);
      const Slopes s = slopes_of(c, q, k, v, f.y, f.lse, dy);
      for (std::size_t i = 0; i < q.size(); ++i)
        EXPECT_NEAR(slope_at(q, i, [&](const Doubles& at) { return dot(attend(c, at, k, v).y, dy); }), s.dq[i], 1e-8);
      for (std::size_t i = 0; i < k.size(); ++i)
        EXPECT_NEAR(slope_at(k, i, [&](const Doubles& at) { return dot(attend(c, q, at, v).y, dy); }), s.dk[i], 1e-8);
      for (std::size_t i = 0; i < v.size(); ++i)
        EXPECT_NEAR(slope_at(v, i, [&](const Doubles& at) { return dot(attend(c, q, k, at).y, dy); }), s.dv[i], 1e-8);
    }
}

TEST(AttentionBackward, MatchesF64InEveryDtype) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
      for (const std::int64_t keys : {1, 9, 64, 130}) {
        Case c;
        c.dtype = dtype;
        c.keys = keys;
        c.query_offset = std::max<std::int64_t>(0, keys - 70);
        const std::string what = family + " dtype " + std::to_string(dtype) + " keys " + std::to_string(keys);
        check(c, what, family);
        c.causal = false;
        check(c, what + " not causal", family);
      }
  Case wide;
  wide.queries = 5, wide.d = 300, wide.dv = 260, wide.heads = 2, wide.scale = 0.05;
  check(wide, "heads of 300");
}

TEST(AttentionBackward, AppliesWindowSoftcapMasksSlopesAndSinks) {
  each_variation(Case{}, [](const Case& c, const std::string& what) { check(c, what); });
}

/// Writes NaN into position `at` of every batch of x [b, positions, ...].
void poison(const Tensor& x, std::int64_t at) {
  const std::int64_t size = x.dims[2] * x.dims[3];
  for (std::int64_t b = 0; b < x.dims[0]; ++b) std::fill_n(x.f32().begin() + (b * x.dims[1] + at) * size, size, std::nanf(""));
}

TEST(AttentionBackward, HiddenKeysValuesAndQueriesMayBeNaN) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    Case c;
    c.mask = make(QUERN_U8, {70, 75});
    for (std::size_t i = 0; i < 70 * 75; ++i) c.mask.raw()[i] = i % 75 != 2 && i / 75 != 33;  // nobody sees key 2, query 33 sees nobody
    c.query_offset = 0;                                                                       // keys 70 to 74 lie in the future of all
    const Problem clean(c), p(c);
    ASSERT_EQ(forward(plugin, c, clean).status, QUERN_OK);
    ASSERT_EQ(backward(plugin, c, clean).status, QUERN_OK);
    for (const std::int64_t j : {2, 70, 74}) poison(p.k, j), poison(p.v, j);
    ASSERT_EQ(forward(plugin, c, p).status, QUERN_OK);
    poison(p.q, 33);
    poison(p.dy, 33);
    ASSERT_EQ(backward(plugin, c, p).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(clean.dq.raw().data(), p.dq.raw().data(), p.dq.bytes()), 0) << family;  // the bits, not only the values
    EXPECT_EQ(std::memcmp(clean.dk.raw().data(), p.dk.raw().data(), p.dk.bytes()), 0) << family;
    EXPECT_EQ(std::memcmp(clean.dv.raw().data(), p.dv.raw().data(), p.dv.bytes()), 0) << family;
    for (std::int64_t i = 0; i < c.heads * c.d; ++i) EXPECT_EQ(p.dq.f32()[static_cast<std::size_t>(33 * c.heads * c.d + i)], 0.0f);
    for (std::int64_t i = 0; i < c.kv_heads * c.d; ++i) EXPECT_EQ(p.dk.f32()[static_cast<std::size_t>(2 * c.kv_heads * c.d + i)], 0.0f);
  }
}

TEST(AttentionBackward, ANaNStaysWithTheKeysItsQuerySees) {
  Plugin plugin(2);
  Case c;
  c.batch = 1, c.query_offset = 0, c.keys = 70;
  const Problem clean(c), p(c);
  ASSERT_EQ(forward(plugin, c, clean).status, QUERN_OK);
  ASSERT_EQ(backward(plugin, c, clean).status, QUERN_OK);
  p.q.f32()[static_cast<std::size_t>((10 * c.heads + 0) * c.d)] =
      std::nanf("");  // query 10 of head 0, which sees keys 0 to 10 of kv head 0
  ASSERT_EQ(forward(plugin, c, p).status, QUERN_OK);
  ASSERT_EQ(backward(plugin, c, p).status, QUERN_OK);
  for (std::int64_t row = 0; row < c.queries * c.heads; ++row) {
    const auto at = static_cast<std::size_t>(row * c.d);
    if (row == 10 * c.heads) EXPECT_TRUE(std::isnan(p.dq.f32()[at]));
    else EXPECT_EQ(std::memcmp(p.dq.f32().data() + at, clean.dq.f32().data() + at, static_cast<std::size_t>(c.d) * 4), 0) << row;
  }
  for (std::int64_t row = 0; row < c.keys * c.kv_heads; ++row) {
    const auto at = static_cast<std::size_t>(row * c.d);
    if (row % c.kv_heads == 0 && row / c.kv_heads <= 10) EXPECT_TRUE(std::isnan(p.dk.f32()[at])) << row;
    else EXPECT_EQ(std::memcmp(p.dk.f32().data() + at, clean.dk.f32().data() + at, static_cast<std::size_t>(c.d) * 4), 0) << row;
  }
}

TEST(AttentionBackward, ThreadsAndABatchAroundItChangeNoBit) {
  Plugin one(1), four(4);
  const Case c;
  const Problem a(c), b(c);
  ASSERT_EQ(forward(one, c, a).status, QUERN_OK);
  ASSERT_EQ(backward(one, c, a).status, QUERN_OK);
  ASSERT_EQ(forward(four, c, b).status, QUERN_OK);
  ASSERT_EQ(backward(four, c, b).status, QUERN_OK);
  Case alone = c;
  alone.batch = 1;
  const Problem first(alone);
  const auto copy_first = [](const Tensor& from, const Tensor& to) { std::memcpy(to.raw().data(), from.raw().data(), to.bytes()); };
  copy_first(a.q, first.q), copy_first(a.k, first.k), copy_first(a.v, first.v), copy_first(a.dy, first.dy);
  ASSERT_EQ(forward(four, alone, first).status, QUERN_OK);
  ASSERT_EQ(backward(four, alone, first).status, QUERN_OK);
  for (const auto& [x, y, z] :
       {std::tuple{&a.dq, &b.dq, &first.dq}, std::tuple{&a.dk, &b.dk, &first.dk}, std::tuple{&a.dv, &b.dv, &first.dv}}) {
    EXPECT_EQ(std::memcmp(x->raw().data(), y->raw().data(), x->bytes()), 0);
    EXPECT_EQ(std::memcmp(x->raw().data(), z->raw().data(), z->bytes()), 0);
  }
}

TEST(AttentionBackward, WithoutKeysOrQueriesGradientsAreZero) {
  Plugin plugin;
  Case c;
  c.keys = 0;
  const Problem p(c);
  ASSERT_EQ(forward(plugin, c, p).status, QUERN_OK);
  ASSERT_EQ(backward(plugin, c, p).status, QUERN_OK);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.dq.elements()); ++i) ASSERT_EQ(p.dq.f32()[i], 0.0f);
  c = Case{};
  c.queries = 0;
  const Problem none(c);
  ASSERT_EQ(backward(plugin, c, none).status, QUERN_OK);
  for (std::size_t i = 0; i < static_cast<std::size_t>(none.dk.elements()); ++i) ASSERT_EQ(none.dk.f32()[i], 0.0f);
}

TEST(AttentionBackward, RefusesShapesThatDoNotFit) {
  Plugin plugin;
  const Case c;
  Problem p(c);
  p.lse = make(QUERN_F32, {c.batch, c.queries, c.kv_heads});
  Outcome outcome = backward(plugin, c, p);
  EXPECT_EQ(outcome.status, QUERN_INVALID_ARGUMENT);
  EXPECT_NE(outcome.text.find("lse is [2, 70, 2] f32"), std::string::npos) << outcome.text;
  Problem other(c);
  other.dk = make(QUERN_F32, {c.batch, c.keys, c.kv_heads, c.dv});
  outcome = backward(plugin, c, other);
  EXPECT_NE(outcome.text.find("dk is [2, 75, 2, 20] f32 and k is [2, 75, 2, 24] f32"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace quern::cpu_test
