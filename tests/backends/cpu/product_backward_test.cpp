// Gradients of matmul_id and lora_matmul against f64 sums, with duplicates, absent experts and adapters, and threads.
#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

const quern_dtype float_dtypes[] = {QUERN_F32, QUERN_F16, QUERN_BF16};
using Doubles = std::vector<double>;

struct Experts {
  std::size_t t = 150, used = 3, experts = 5, n = 70, k = 300;
  bool shared = false;  // one row of a for a token
  quern_dtype dtype = QUERN_F32;
};
struct ExpertProblem {
  Tensor dy, a, b, id, da, db;
  explicit ExpertProblem(const Experts& c) {
    const auto t = static_cast<std::int64_t>(c.t), used = static_cast<std::int64_t>(c.used), n = static_cast<std::int64_t>(c.n),
               k = static_cast<std::int64_t>(c.k), e = static_cast<std::int64_t>(c.experts);
    dy = random_tensor(c.dtype, {t, used, n}, 1);
    a = random_tensor(c.dtype, {t, c.shared ? 1 : used, k}, 2);
    b = random_tensor(c.dtype, {e, n, k}, 3);
    id = make(QUERN_I32, {t, used});
    for (std::size_t i = 0; i < c.t * c.used; ++i)
      id.integers()[i] = static_cast<std::int32_t>(i * i / 3 % (c.experts - 1));  // the last expert has no token, some tokens one twice
    id.integers()[4] = -1;
    da = make(c.dtype, a.dims);
    db = make(c.dtype, b.dims);
  }
};

void expect_experts(const Experts& c, const ExpertProblem& p, const Doubles& before, const std::string& what) {
  const Doubles dy = meaning(p.dy), a = meaning(p.a), b = meaning(p.b);
  Doubles da(a.size(), 0.0), da_size(a.size(), 0.0), db = before, db_size(b.size(), 0.0);
  for (std::size_t i = 0; i < db.size(); ++i) db_size[i] = std::fabs(db[i]);
  for (std::size_t pair = 0; pair < c.t * c.used; ++pair) {
    const std::int32_t e = p.id.integers()[pair];
    if (e < 0 || static_cast<std::size_t>(e) >= c.experts) continue;
    const std::size_t row = c.shared ? pair / c.used : pair;
    for (std::size_t n = 0; n < c.n; ++n)
      for (std::size_t k = 0; k < c.k; ++k) {
        const std::size_t at = (static_cast<std::size_t>(e) * c.n + n) * c.k + k;
        da[row * c.k + k] += dy[pair * c.n + n] * b[at], da_size[row * c.k + k] += std::fabs(dy[pair * c.n + n] * b[at]);
        db[at] += dy[pair * c.n + n] * a[row * c.k + k], db_size[at] += std::fabs(dy[pair * c.n + n] * a[row * c.k + k]);
      }
  }
  const Doubles got_a = meaning(p.da), got_b = meaning(p.db);
  for (std::size_t i = 0; i < da.size(); ++i)
    ASSERT_LE(std::fabs(got_a[i] - da[i]), accumulation(c.n * (c.shared ? c.used : 1)) * da_size[i] + out_error(c.dtype, da[i]))
        << what << " da[" << i << "]";
  for (std::size_t i = 0; i < db.size(); ++i)
    ASSERT_LE(std::fabs(got_b[i] - db[i]), accumulation(c.t * c.used) * db_size[i] + out_error(c.dtype, db[i]))
        << what << " db[" << i << "]";
}

TEST(MatmulIdBackward, MatchesF64ForBothGradients) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const bool shared : {false, true})
        for (const bool accumulate : {false, true}) {
          Plugin plugin(3, {{"force_kernel", family}});
          Experts c;
          c.dtype = dtype, c.shared = shared;
          ExpertProblem p(c);
          Doubles before(static_cast<std::size_t>(p.db.elements()), 0.0);
          if (accumulate) {
            p.db = random_tensor(dtype, p.db.dims, 4);
            p.db.kind = QUERN_VALUE_STATE;
            before = meaning(p.db);
          }
          const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {p.dy, p.a, p.b, p.id}, {p.da, p.db},
                                           {{QUERN_KEY_ACCUMULATE, accumulate ? 1.0 : 0.0}});
          ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
          EXPECT_EQ(outcome.faults, 0u);
          expect_experts(c, p, before,
                         family + " dtype " + std::to_string(dtype) + (shared ? " shared" : "") + (accumulate ? " accumulate" : ""));
        }
}

TEST(MatmulIdBackward, OneGradientAloneHasTheSameBitsAndThreadsChangeNone) {
  Plugin one(1), four(4);
  for (const bool shared : {false, true}) {
    Experts c;
    c.shared = shared, c.t = 300, c.k = 64;
    const ExpertProblem both(c), alone(c);
    ASSERT_EQ(run_node(four, QUERN_OP_MATMUL_ID_BACKWARD, {both.dy, both.a, both.b, both.id}, {both.da, both.db}).status, QUERN_OK);
    ASSERT_EQ(run_node(one, QUERN_OP_MATMUL_ID_BACKWARD, {alone.dy, alone.a, absent(), alone.id}, {absent(), alone.db}).status, QUERN_OK);
    ASSERT_EQ(run_node(one, QUERN_OP_MATMUL_ID_BACKWARD, {alone.dy, alone.a, alone.b, alone.id}, {alone.da}).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(both.da.raw().data(), alone.da.raw().data(), alone.da.bytes()), 0);
    EXPECT_EQ(std::memcmp(both.db.raw().data(), alone.db.raw().data(), alone.db.bytes()), 0);
  }
}

TEST(MatmulIdBackward, AnExpertOutOfRangeGivesNothingAndAFault) {
  Plugin plugin;
  Experts c;
  c.t = 4, c.n = 3, c.k = 5;
  const ExpertProblem p(c);
  p.id.integers()[1] = 5;
  p.id.integers()[2] = -7;
  const Outcome outcome = run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {p.dy, p.a, p.b, p.id}, {p.da, p.db});
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  expect_experts(c, p, Doubles(static_cast<std::size_t>(p.db.elements()), 0.0), "out of range");
  EXPECT_NE(run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {p.dy, p.a, absent(), p.id}, {p.da}).text.find("da is wanted but there is no b"),
            std::string::npos);
  EXPECT_NE(run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {p.dy, p.a, p.b, p.id}, {absent(), absent()}).text.find("neither da nor db"),
            std::string::npos);
}

TEST(MatmulIdBackward, ADeadRowAddsNothing) {
  Plugin plugin;
  Experts c;
  c.t = 6, c.n = 4, c.k = 5;
  const ExpertProblem p(c), hidden(c);
  for (const bool nan : {false, true}) {
    const ExpertProblem& q = nan ? p : hidden;
    for (std::size_t i = 0; i < c.used * c.n; ++i) q.dy.f32()[2 * c.used * c.n + i] = nan ? std::nanf("") : 0.0f;
    const Outcome outcome = nan ? run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {q.dy, q.a, q.b, q.id}, {q.da, q.db}, {}, nullptr,
                                           ints({6}, {1, 1, 0, 1, 1, 1}))
                                : run_node(plugin, QUERN_OP_MATMUL_ID_BACKWARD, {q.dy, q.a, q.b, q.id}, {q.da, q.db});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  }
  EXPECT_EQ(std::memcmp(p.db.raw().data(), hidden.db.raw().data(), p.db.bytes()), 0);
}

struct Adapters {
  Tensor pool, table;
};
/// Adapters of these ranks one after another, A before B, with scale 0.5 + the number of the slot.
Adapters make_adapters(quern_dtype dtype, const std::vector<std::int32_t>& ranks, std::int32_t k, std::int32_t n) {
  std::vector<std::int32_t> rows;
  std::int32_t at = 3;  // an odd start
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    rows.insert(rows.end(), {at, at + ranks[s] * k, ranks[s], std::bit_cast<std::int32_t>(0.5f + static_cast<float>(s))});
    at += ranks[s] * (k + n);
  }
  return {random_tensor(dtype, {at + 2}, 5), ints({static_cast<std::int64_t>(ranks.size()), 4}, rows)};
}

struct LoraSlopes {
  Doubles dx, dpool, dx_size, dpool_size;
};
/// In f64; sizes are bounds in units of 1, from the two sums that follow each other.
LoraSlopes lora_slopes(const Doubles& x, const Doubles& pool, const Tensor& table, const Tensor& slot, const Doubles& dy, std::size_t k,
                       std::size_t n, double alpha) {
  const std::size_t rows = static_cast<std::size_t>(slot.elements());
  LoraSlopes s{Doubles(x.size(), 0.0), Doubles(pool.size(), 0.0), Doubles(x.size(), 0.0), Doubles(pool.size(), 0.0)};
  const double e_k = accumulation(k), e_n = accumulation(n), e_t = accumulation(rows);
  for (std::size_t t = 0; t < rows; ++t) {
    const std::int32_t chosen = slot.integers()[t];
    if (chosen < 0) continue;
    const std::int32_t* entry = table.integers().data() + chosen * 4;
    const auto a = static_cast<std::size_t>(entry[0]), b = static_cast<std::size_t>(entry[1]), rank = static_cast<std::size_t>(entry[2]);
    const double scale = alpha * static_cast<double>(std::bit_cast<float>(entry[3])), e_r = accumulation(rank);
    for (std::size_t r = 0; r < rank; ++r) {
      double h = 0, g = 0, h_size = 0, g_size = 0;
      for (std::size_t i = 0; i < k; ++i) h += pool[a + r * k + i] * x[t * k + i], h_size += std::fabs(pool[a + r * k + i] * x[t * k + i]);
      for (std::size_t j = 0; j < n; ++j)
        g += pool[b + j * rank + r] * dy[t * n + j], g_size += std::fabs(pool[b + j * rank + r] * dy[t * n + j]);
      for (std::size_t i = 0; i < k; ++i) {
        s.dx[t * k + i] += scale * g * pool[a + r * k + i],
            s.dx_size[t * k + i] += std::fabs(scale * pool[a + r * k + i]) * (e_n * g_size + (e_r + 2 * u) * std::fabs(g));
        s.dpool[a + r * k + i] += scale * g * x[t * k + i],
            s.dpool_size[a + r * k + i] += std::fabs(scale * x[t * k + i]) * (e_n * g_size + (e_t + 2 * u) * std::fabs(g));
      }
      for (std::size_t j = 0; j < n; ++j) {
        s.dpool[b + j * rank + r] += scale * h * dy[t * n + j];
        s.dpool_size[b + j * rank + r] += std::fabs(scale * dy[t * n + j]) * (e_k * h_size + (e_t + 2 * u) * std::fabs(h));
      }
    }
  }
  return s;
}

TEST(LoraMatmulBackward, TheFormulasAreTheSlopes) {
  constexpr std::size_t k = 3, n = 2, rows = 4;
  const Adapters p = make_adapters(QUERN_F32, {2, 1}, k, n);
  const Tensor slot = ints({rows}, {1, 0, -1, 0});
  const Doubles x = meaning(random_tensor(QUERN_F32, {rows, k}, 6)), dy = meaning(random_tensor(QUERN_F32, {rows, n}, 7)),
                pool = meaning(p.pool);
  const auto loss = [&](const Doubles& at, const Doubles& weights) {
    double sum = 0;
    for (std::size_t t = 0; t < rows; ++t) {
      if (slot.integers()[t] < 0) continue;
      const std::int32_t* entry = p.table.integers().data() + slot.integers()[t] * 4;
      const auto rank = static_cast<std::size_t>(entry[2]);
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t r = 0; r < rank; ++r)
          for (std::size_t i = 0; i < k; ++i)
            sum += 2 * static_cast<double>(std::bit_cast<float>(entry[3])) * dy[t * n + j] *
                   weights[static_cast<std::size_t>(entry[1]) + j * rank + r] * weights[static_cast<std::size_t>(entry[0]) + r * k + i] *
                   at[t * k + i];
    }
    return sum;
  };
  const LoraSlopes s = lora_slopes(x, pool, p.table, slot, dy, k, n, 2);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(slope_at(x, i, [&](const Doubles& at) { return loss(at, pool); }), s.dx[i], 1e-8);
  for (std::size_t i = 0; i < pool.size(); ++i)
    EXPECT_NEAR(slope_at(pool, i, [&](const Doubles& at) { return loss(x, at); }), s.dpool[i], 1e-8);
}

TEST(LoraMatmulBackward, MatchesF64WithTheAdapterOfEachRow) {
  constexpr std::int64_t k = 300, n = 90, rows = 141;
  Tensor slot = make(QUERN_I32, {rows});
  for (std::size_t i = 0; i < rows; ++i) slot.integers()[i] = std::int32_t{-1} + static_cast<std::int32_t>(i * 7 / 3 % 4);
  for (const std::string& family : families())
    for (const quern_dtype dtype : float_dtypes)
      for (const bool accumulate : {false, true}) {
        Plugin plugin(3, {{"force_kernel", family}});
        const Adapters p = make_adapters(dtype, {5, 300, 0}, k, n);  // the second is longer than the part that is taken at a time
        const Tensor x = random_tensor(dtype, {rows, k}, 8), dy = random_tensor(dtype, {rows, n}, 9), dx = make(dtype, {rows, k});
        Tensor dpool = random_tensor(dtype, p.pool.dims, 10);
        dpool.kind = QUERN_VALUE_STATE;
        const Doubles before = meaning(dpool);
        const Outcome outcome = run_node(plugin, QUERN_OP_LORA_MATMUL_BACKWARD, {x, p.pool, p.table, slot, dy}, {dx, dpool},
                                         {{QUERN_KEY_ALPHA, 2}, {QUERN_KEY_ACCUMULATE, accumulate ? 1.0 : 0.0}});
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        EXPECT_EQ(outcome.faults, 0u);
        const LoraSlopes s = lora_slopes(meaning(x), meaning(p.pool), p.table, slot, meaning(dy), k, n, 2);
        const Doubles got_x = meaning(dx), got_pool = meaning(dpool);
        for (std::size_t i = 0; i < got_x.size(); ++i)
          ASSERT_LE(std::fabs(got_x[i] - s.dx[i]), s.dx_size[i] + out_error(dtype, s.dx[i])) << family << " dx[" << i << "]";
        for (std::size_t i = 0; i < got_pool.size(); ++i) {
          const double r = s.dpool[i] + (accumulate ? before[i] : 0);
          ASSERT_LE(std::fabs(got_pool[i] - r), s.dpool_size[i] + 2 * u * std::fabs(r) + out_error(dtype, r))
              << family << " dpool[" << i << "]";
        }
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got_pool[i], accumulate ? before[i] : 0.0);  // of no adapter
      }
}

TEST(LoraMatmulBackward, SharedElementsAddUpAndThreadsChangeNoBit) {
  constexpr std::int64_t k = 33, n = 17, rows = 130;
  const Adapters p = make_adapters(QUERN_F32, {4}, k, n);
  const Tensor twice = ints({2, 4}, {p.table.integers()[0], p.table.integers()[1], 4, std::bit_cast<std::int32_t>(1.0f),
                                     p.table.integers()[0], p.table.integers()[1], 4, std::bit_cast<std::int32_t>(-2.0f)});
  const Tensor x = random_tensor(QUERN_F32, {rows, k}, 11), dy = random_tensor(QUERN_F32, {rows, n}, 12), dx = make(QUERN_F32, {rows, k}),
               again = make(QUERN_F32, {rows, k});
  const Tensor dpool = make(QUERN_F32, p.pool.dims), pool_again = make(QUERN_F32, p.pool.dims);
  Tensor slot = make(QUERN_I32, {rows});
  for (std::size_t i = 0; i < rows; ++i) slot.integers()[i] = i % 3 == 0;
  Plugin one(1), four(4);
  ASSERT_EQ(run_node(one, QUERN_OP_LORA_MATMUL_BACKWARD, {x, p.pool, twice, slot, dy}, {dx, dpool}).status, QUERN_OK);
  ASSERT_EQ(run_node(four, QUERN_OP_LORA_MATMUL_BACKWARD, {x, p.pool, twice, slot, dy}, {again, pool_again}).status, QUERN_OK);
  EXPECT_EQ(std::memcmp(dx.raw().data(), again.raw().data(), dx.bytes()), 0);
  EXPECT_EQ(std::memcmp(dpool.raw().data(), pool_again.raw().data(), dpool.bytes()), 0);
  const LoraSlopes s = lora_slopes(meaning(x), meaning(p.pool), twice, slot, meaning(dy), k, n, 1);
  for (std::size_t i = 0; i < s.dpool.size(); ++i)
    ASSERT_LE(std::fabs(static_cast<double>(dpool.f32()[i]) - s.dpool[i]), s.dpool_size[i] + 2 * u * std::fabs(s.dpool[i]));
}

TEST(LoraMatmulBackward, ASlotOrAnAdapterOutOfRangeGivesZerosAndAFault) {
  Plugin plugin;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const Tensor x = random_tensor(QUERN_F32, {3, 4}, 13), dy = random_tensor(QUERN_F32, {3, 2}, 14),
               pool = random_tensor(QUERN_F32, {20}, 15), dx = make(QUERN_F32, {3, 4}), dpool = make(QUERN_F32, {20});
  const Tensor table =
      ints({3, 4}, {0, 4, 1, 0, 12, 0, most, 0, 17, 0, 1, 0});  // a good one, one of a huge rank, one whose A ends behind the pool
  for (const std::int32_t bad : {1, 2, 3, -2}) {
    const Outcome outcome = run_node(plugin, QUERN_OP_LORA_MATMUL_BACKWARD, {x, pool, table, ints({3}, {bad, -1, bad}), dy}, {dx, dpool});
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE) << bad;
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(dx.f32()[i], 0.0f);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(dpool.f32()[i], 0.0f);
  }
}

}  // namespace
}  // namespace quern::cpu_test
