// Adapters, dropout and losses against f64, with what they skip and refuse.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

constexpr double u = 0x1p-24;
const float nan = std::nanf("");

double half_ulp(quern_dtype dtype) { return dtype == QUERN_F32 ? u : dtype == QUERN_F16 ? 0x1p-11 : 0x1p-8; }

struct Pool {
  Tensor pool, table;
};
/// Adapters of these ranks one after another, A before B, with scale 0.5 + the number of the slot.
Pool make_pool(quern_dtype dtype, const std::vector<std::int32_t>& ranks, std::int32_t k, std::int32_t n) {
  std::vector<std::int32_t> rows;
  std::int32_t at = 3;  // an odd start
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    rows.insert(rows.end(), {at, at + ranks[s] * k, ranks[s], std::bit_cast<std::int32_t>(0.5f + static_cast<float>(s))});
    at += ranks[s] * (k + n);
  }
  return {random_tensor(dtype, {at}, 1), ints({static_cast<std::int64_t>(ranks.size()), 4}, rows)};
}

TEST(LoraMatmul, MatchesF64WithTheAdapterOfEachRow) {
  constexpr std::int64_t k = 70, n = 600, rows = 19;
  Tensor slot = make(QUERN_I32, {rows});
  for (std::size_t i = 0; i < rows; ++i) slot.integers()[i] = std::int32_t{-1} + static_cast<std::int32_t>(i / 3 % 4);
  for (const std::string& family : families())
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
      Plugin plugin(2, {{"force_kernel", family}});
      const Pool p = make_pool(dtype, {5, 300, 0}, k, n);  // the second is longer than the part that is taken at a time
      const Tensor x = random_tensor(dtype, {rows, k}, 2), base = random_tensor(QUERN_F32, {rows, n}, 3), y = make(QUERN_F32, {rows, n});
      const Outcome outcome = run_node(plugin, QUERN_OP_LORA_MATMUL, {x, p.pool, p.table, slot, base}, {y}, {{QUERN_KEY_ALPHA, 2.0}});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      EXPECT_EQ(outcome.faults, 0u);
      const std::vector<double> in = meaning(x), pool = meaning(p.pool);
      for (std::size_t t = 0; t < rows; ++t) {
        const std::int32_t s = slot.integers()[t];
        if (s == -1) {
          EXPECT_EQ(std::memcmp(y.f32().data() + t * n, base.f32().data() + t * n, n * 4), 0);
          continue;
        }
        const std::int32_t* entry = p.table.integers().data() + s * 4;
        const double scale = 2 * (0.5 + s);
        const auto rank = static_cast<std::size_t>(entry[2]);
        std::vector<double> low(rank, 0.0), low_size(rank, 0.0);
        for (std::size_t r = 0; r < rank; ++r)
          for (std::size_t i = 0; i < k; ++i) {
            const double product = pool[static_cast<std::size_t>(entry[0]) + r * k + i] * in[t * k + i];
            low[r] += product;
            low_size[r] += std::fabs(product);
          }
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0, size = 0, inherited = 0;
          for (std::size_t r = 0; r < rank; ++r) {
            const double b = pool[static_cast<std::size_t>(entry[1]) + j * rank + r];
            sum += b * low[r];
            size += std::fabs(b * low[r]);
            inherited += std::fabs(b) * low_size[r];
          }
          const double before = static_cast<double>(base.f32()[t * n + j]), exact = before + scale * sum;
          // Two sums in a row: that of A x, weighted by B, and that of B; then the scale and base.
          const double bound = scale * ((2 * std::sqrt(static_cast<double>(k)) + 8) * u * inherited +
                                        (2 * std::sqrt(static_cast<double>(rank)) + 8) * u * size) +
                               4 * u * (std::fabs(before) + scale * std::fabs(sum));
          ASSERT_LE(std::fabs(static_cast<double>(y.f32()[t * n + j]) - exact), bound) << family << " row " << t << " slot " << s;
        }
      }
    }
}

TEST(LoraMatmul, ARowHasTheSameBitsAloneAndInABatch) {
  const Pool p = make_pool(QUERN_F16, {16, 260}, 64, 40);
  const Tensor x = random_tensor(QUERN_F32, {11, 64}, 4), slot = ints({11}, {0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0}),
               y = make(QUERN_F32, {11, 40});
  Plugin one(1), two(2);
  ASSERT_EQ(run_node(two, QUERN_OP_LORA_MATMUL, {x, p.pool, p.table, slot}, {y}).status, QUERN_OK);
  for (std::int64_t t = 0; t < 11; ++t) {
    const Tensor row = of({1, 64}, {x.f32().begin() + t * 64, x.f32().begin() + (t + 1) * 64}), z = make(QUERN_F32, {1, 40});
    ASSERT_EQ(
        run_node(one, QUERN_OP_LORA_MATMUL, {row, p.pool, p.table, ints({1}, {slot.integers()[static_cast<std::size_t>(t)]})}, {z}).status,
        QUERN_OK);
    EXPECT_EQ(std::memcmp(z.f32().data(), y.f32().data() + t * 40, 160), 0) << t;
  }
}

TEST(LoraMatmul, NoAdapterCopiesBaseBitForBit) {
  Plugin plugin;
  const Pool p = make_pool(QUERN_F32, {1}, 4, 3);
  const Tensor base = make(QUERN_F16, {1, 3}), y = make(QUERN_F16, {1, 3});
  const std::uint16_t bits[3] = {0x7c01, 0x8000, 0xfe55};  // a signalling NaN, -0, another NaN
  std::memcpy(base.raw().data(), bits, 6);
  ASSERT_EQ(
      run_node(plugin, QUERN_OP_LORA_MATMUL, {random_tensor(QUERN_F16, {1, 4}, 5), p.pool, p.table, ints({1}, {-1}), base}, {y}).status,
      QUERN_OK);
  EXPECT_EQ(std::memcmp(y.raw().data(), bits, 6), 0);
}

TEST(LoraMatmul, ASlotOrAnAdapterOutOfRangeGivesZerosAndAFault) {
  Plugin plugin;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const Tensor pool = random_tensor(QUERN_F32, {20}, 6), x = random_tensor(QUERN_F32, {1, 4}, 7), base = of({1, 2}, {5, 6}),
               y = make(QUERN_F32, {1, 2});
  const Tensor table = ints({7, 4}, {0, 8, 2, 0, -1, 8, 2, 0, 13, 0, 2, 0, 0, 17, 2, 0, 0, 0, most, 0, most, most, 1, 0, 0, 8, -1, 0});
  for (const std::int32_t slot : {0, 1, 2, 3, 4, 5, 6, 7, -2}) {
    const Outcome outcome = run_node(plugin, QUERN_OP_LORA_MATMUL, {x, pool, table, ints({1}, {slot}), base}, {y});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, slot == 0 ? 0u : QUERN_FAULT_INDEX_RANGE) << slot;
    EXPECT_EQ(y.floats(), slot == 0 ? (std::vector<float>{5, 6}) : (std::vector<float>{0, 0})) << slot;  // slot 0 has a scale of 0
  }
}

TEST(LoraMerge, AddsTheProductOnce) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
    const Tensor w = random_tensor(dtype, {19, 300}, 8), a = random_tensor(QUERN_F32, {6, 300}, 9),
                 b = random_tensor(QUERN_F16, {19, 6}, 10), y = make(dtype, {19, 300});
    ASSERT_EQ(run_node(plugin, QUERN_OP_LORA_MERGE, {w, a, b}, {y}, {{QUERN_KEY_ALPHA, 0.5}}).status, QUERN_OK);
    const std::vector<double> weights = meaning(w), left = meaning(b), right = meaning(a), got = meaning(y);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double exact = weights[i];
      for (std::size_t r = 0; r < 6; ++r) exact += 0.5 * left[i / 300 * 6 + r] * right[r * 300 + i % 300];
      // f64 sums, rounded to f32 and then to y.
      ASSERT_LE(std::fabs(got[i] - exact), (half_ulp(dtype) + u) * std::fabs(exact) + 3e-8);
    }
  }
}

Tensor seed_of(std::int32_t a, std::int32_t b) {
  Tensor t = ints({2}, {a, b});
  t.dtype = QUERN_U32;
  return t;
}

TEST(Dropout, KeepsWhereTheUniformNumberIsNotBelowP) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16}) {
    const Tensor x = random_tensor(dtype, {7, 1001}, 11), y = make(dtype, {7, 1001}), uniform = make(QUERN_F32, {7, 1001});
    const std::vector<Attribute> salted = {{QUERN_KEY_SALT, 9}};
    ASSERT_EQ(run_node(plugin, QUERN_OP_RANDOM_UNIFORM, {seed_of(3, 4), ints({1}, {5})}, {uniform}, salted).status, QUERN_OK);
    ASSERT_EQ(run_node(plugin, QUERN_OP_DROPOUT, {x, seed_of(3, 4), ints({1}, {5})}, {y}, {{QUERN_KEY_P, 0.25}, salted[0]}).status,
              QUERN_OK);
    const std::vector<double> in = meaning(x), got = meaning(y);
    int kept = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double exact = uniform.f32()[i] >= 0.25f ? in[i] / 0.75 : 0.0;
      kept += uniform.f32()[i] >= 0.25f;
      ASSERT_LE(std::fabs(got[i] - exact), (half_ulp(dtype) + u) * std::fabs(exact) + (exact == 0 ? 0 : 3e-8));
    }
    EXPECT_NEAR(kept, 7007 * 0.75, 6 * std::sqrt(7007 * 0.1875));  // six standard deviations
  }
  const Tensor x = of({3}, {nan, -0.0f, 2}), y = make(QUERN_F32, {3});
  ASSERT_EQ(run_node(plugin, QUERN_OP_DROPOUT, {x, seed_of(0, 0), ints({1}, {0})}, {y}).status, QUERN_OK);  // p is 0
  EXPECT_EQ(std::memcmp(x.raw().data(), y.raw().data(), 12), 0);
  const Outcome refused = run_node(plugin, QUERN_OP_DROPOUT, {x, seed_of(0, 0), ints({1}, {0})}, {y}, {{QUERN_KEY_P, 1.0}});
  EXPECT_NE(refused.text.find("p is 1"), std::string::npos) << refused.text;
}

TEST(MaskedMean, CountsWhatTheMaskShowsAndNeverReadsTheRest) {
  Plugin plugin;
  const Tensor y = make(QUERN_F32, {1}), count = make(QUERN_F32, {1});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MASKED_MEAN, {of({5}, {1, nan, 3, 8, nan}), ints({5}, {1, 0, -7, 1, 0})}, {y, count}).status,
            QUERN_OK);
  EXPECT_EQ(y.f32()[0], 4.0f);
  EXPECT_EQ(count.f32()[0], 3.0f);
  ASSERT_EQ(run_node(plugin, QUERN_OP_MASKED_MEAN, {of({2}, {nan, 1}), ints({2}, {0, 0})}, {y, count}).status, QUERN_OK);
  EXPECT_EQ(y.f32()[0], 0.0f);
  EXPECT_EQ(count.f32()[0], 0.0f);
  ASSERT_EQ(run_node(plugin, QUERN_OP_MASKED_MEAN, {make(QUERN_F32, {0}), make(QUERN_I32, {0})}, {y, count}).status, QUERN_OK);
  EXPECT_EQ(y.f32()[0], 0.0f);
}

TEST(CrossEntropy, MatchesF64OverAVocabulary) {
  Plugin plugin(2);
  constexpr std::size_t n = 50000;
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
    for (const auto& [smoothing, z_loss] : {std::pair{0.0, 0.0}, std::pair{0.1, 1e-3}, std::pair{1.0, 0.0}}) {
      const Tensor x = random_tensor(dtype, {3, n}, 12, 4.0), label = ints({3}, {0, 49999, 777}), loss = make(QUERN_F32, {3}),
                   lse = make(QUERN_F32, {3});
      const std::vector<Attribute> attributes = {{QUERN_KEY_SMOOTHING, smoothing}, {QUERN_KEY_Z_LOSS, z_loss}};
      ASSERT_EQ(run_node(plugin, QUERN_OP_CROSS_ENTROPY, {x, label}, {loss, lse}, attributes).status, QUERN_OK);
      const std::vector<double> all = meaning(x);
      for (std::size_t t = 0; t < 3; ++t) {
        double largest = -1e30, sum = 0, total = 0;
        for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, all[t * n + i]);
        for (std::size_t i = 0; i < n; ++i) sum += std::exp(all[t * n + i] - largest), total += all[t * n + i];
        const double log_sum = largest + std::log(sum);
        const double exact = log_sum - (1 - smoothing) * all[t * n + static_cast<std::size_t>(label.integers()[t])] -
                             smoothing * total / n + z_loss * log_sum * log_sum;
        const double bound = (4 * std::sqrt(static_cast<double>(n)) + 32) * u + 4 * u * (std::fabs(largest) + std::fabs(exact));
        EXPECT_LE(std::fabs(static_cast<double>(lse.f32()[t]) - log_sum), bound);
        EXPECT_LE(std::fabs(static_cast<double>(loss.f32()[t]) - exact), bound);
      }
    }
}

TEST(CrossEntropy, IgnoredRowsAreExactlyZeroAndLabelsOutOfRangeAFault) {
  Plugin plugin;
  const Tensor loss = make(QUERN_F32, {3}), lse = make(QUERN_F32, {3});
  const Tensor x = of({3, 2}, {nan, 1, 1e4f, -1e4f, 0, 0});
  Outcome outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY, {x, ints({3}, {-100, 1, 0})}, {loss, lse});
  EXPECT_EQ(outcome.faults, 0u);
  EXPECT_EQ(loss.f32()[0], 0.0f);
  EXPECT_EQ(loss.f32()[1], 2e4f);
  EXPECT_NEAR(loss.f32()[2], std::log(2.0f), 1e-6f);
  for (const std::int32_t bad : {2, -1}) {
    outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY, {x, ints({3}, {-100, 0, bad})}, {loss, lse});
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE) << bad;
    EXPECT_EQ(loss.f32()[2], 0.0f);
  }
  outcome = run_node(plugin, QUERN_OP_CROSS_ENTROPY, {x, ints({3}, {1, 1, 1})}, {loss, lse}, {{QUERN_KEY_IGNORE, 1}});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(loss.f32()[i], 0.0f);
}

TEST(CrossEntropy, ATermWithAFactorOfZeroDoesNotMakeNaN) {
  Plugin plugin;
  const Tensor loss = make(QUERN_F32, {1}), lse = make(QUERN_F32, {1});
  ASSERT_EQ(run_node(plugin, QUERN_OP_CROSS_ENTROPY, {of({1, 2}, {-std::numeric_limits<float>::infinity(), 3}), ints({1}, {1})},
                     {loss, lse})
                .status,
            QUERN_OK);
  EXPECT_EQ(loss.f32()[0], 0.0f);
}

}  // namespace
}  // namespace quern::cpu_test
