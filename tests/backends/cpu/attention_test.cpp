// Paged attention and the KV cache against a naive f64 computation.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

/// A paged cache filled through kv_write, and the f64 meaning of what it holds.
struct Cache {
  std::int64_t kv_heads, size, page, sequences, pages_per_sequence;
  Tensor k, v, table;

  Cache(std::int64_t heads, std::int64_t d, std::int64_t page_size, std::int64_t sequence_count, std::int64_t pages, quern_dtype dtype)
      : kv_heads(heads),
        size(d),
        page(page_size),
        sequences(sequence_count),
        pages_per_sequence(pages),
        k(make(dtype, {sequences * pages, heads, page_size, d}, QUERN_VALUE_STATE)),
        v(make(dtype, k.dims, QUERN_VALUE_STATE)),
        table(make(QUERN_I32, {sequences, pages})) {
    // Pages lie in reverse order, so that a kernel which ignores the table is found.
    for (std::int64_t i = 0; i < sequences * pages; ++i)
      table.integers()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(sequences * pages - 1 - i);
    for (const Tensor* t : {&k, &v})  // NaN wherever nothing is written
      if (dtype == QUERN_F32)
        for (float& f : t->f32().first(static_cast<std::size_t>(t->elements()))) f = std::nanf("");
      else std::memset(t->raw().data(), 0xff, t->bytes());
  }

  void fill(Plugin& plugin, std::int64_t sequence, std::int64_t length, std::uint32_t seed) {
    std::vector<std::int32_t> slots(static_cast<std::size_t>(length), static_cast<std::int32_t>(sequence)), positions;
    for (std::int64_t p = 0; p < length; ++p) positions.push_back(static_cast<std::int32_t>(p));
    for (const Tensor* t : {&k, &v}) {
      const Outcome outcome = run_node(plugin, QUERN_OP_KV_WRITE,
                                       {random_tensor(QUERN_F32, {length, kv_heads, size}, seed + (t == &v ? 1000 : 0)), table,
                                        ints({length}, slots), ints({length}, positions)},
                                       {*t});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      ASSERT_EQ(outcome.faults, 0u);
    }
  }

  std::vector<double> row(const Tensor& t, const std::vector<double>& all, std::int64_t sequence, std::int64_t position,
                          std::int64_t head) const {
    const std::int64_t id =
        t.dtype == QUERN_DTYPE_NONE ? 0 : table.integers()[static_cast<std::size_t>(sequence * pages_per_sequence + position / page)];
    const auto at = all.begin() + ((id * kv_heads + head) * page + position % page) * size;
    return {at, at + size};
  }
};

struct Case {
  std::vector<std::int32_t> slots, positions;
  double scale = 0.125, softcap = 0, max_bias = 0;
  std::int64_t window = 0;
  bool causal = true;
  Tensor kv_len = absent(), mask = absent(), sinks = absent();
};

std::vector<Attribute> attributes_of(const Case& c) {
  std::vector<Attribute> a = {{QUERN_KEY_SCALE, c.scale}};
  if (!c.causal) a.push_back({QUERN_KEY_CAUSAL, 0});
  if (c.window != 0) a.push_back({QUERN_KEY_WINDOW, static_cast<double>(c.window)});
  if (c.softcap != 0) a.push_back({QUERN_KEY_SOFTCAP, c.softcap});
  if (c.max_bias != 0) a.push_back({QUERN_KEY_MAX_BIAS, c.max_bias});
  return a;
}

Outcome attend(Plugin& plugin, const Cache& cache, const Tensor& q, const Case& c, const Tensor& y) {
  const auto t = static_cast<std::int64_t>(c.slots.size());
  return run_node(plugin, QUERN_OP_ATTENTION,
                  {q, cache.k, cache.v, cache.table, ints({t}, c.slots), ints({t}, c.positions), c.kv_len, c.mask, c.sinks}, {y},
                  attributes_of(c));
}

/// Compares with f64 within the bound of the conformance suite: S_v ((4 sqrt(kv) + 32) u + 2 max ds).
void expect_close(const Cache& cache, const Tensor& q, const Case& c, const Tensor& y, const std::string& what) {
  const std::int64_t heads = q.dims[1], group = heads / cache.kv_heads;
  const std::vector<double> queries = meaning(q), keys = meaning(cache.k), values = meaning(cache.v), got = meaning(y);
  for (std::size_t t = 0; t < c.slots.size(); ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t position = c.positions[t];
      std::int64_t end = c.causal ? position + 1 : c.kv_len.integers()[static_cast<std::size_t>(c.slots[t])];
      const std::int64_t first = c.window > 0 ? std::max<std::int64_t>(0, position - c.window + 1) : 0;
      if (position < 0) end = 0;
      std::vector<double> scores(static_cast<std::size_t>(std::max<std::int64_t>(0, end)), -std::numeric_limits<double>::infinity());
      double largest = -std::numeric_limits<double>::infinity(), slack = 0;
      for (std::int64_t j = first; j < end; ++j) {
        if (c.mask.dtype != QUERN_DTYPE_NONE) {
          const std::size_t at = t * static_cast<std::size_t>(c.mask.dims[1]) + static_cast<std::size_t>(j);
          if (c.mask.dtype == QUERN_U8 ? c.mask.raw()[at] == 0 : std::isinf(c.mask.f32()[at])) continue;
        }
        const std::vector<double> k = cache.row(cache.k, keys, c.slots[t], j, h / group);
        double dot = 0, s = 0;
        for (std::int64_t i = 0; i < cache.size; ++i) {
          const double p = queries[(static_cast<std::int64_t>(t) * heads + h) * cache.size + i] * k[static_cast<std::size_t>(i)];
          dot += p, s += std::fabs(p);
        }
        slack = std::max(slack, (2 * std::sqrt(static_cast<double>(cache.size)) + 8) * 0x1p-24 * c.scale * s);
        double score = dot * c.scale;
        if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
        if (c.mask.dtype == QUERN_F32) {
          double slope = 1;
          if (c.max_bias > 0)
            slope = std::exp2(-c.max_bias * static_cast<double>(h + 1) / static_cast<double>(heads));  // heads is a power of two here
          score += slope * static_cast<double>(c.mask.f32()[t * static_cast<std::size_t>(c.mask.dims[1]) + static_cast<std::size_t>(j)]);
        }
        scores[static_cast<std::size_t>(j)] = score;
        largest = std::max(largest, score);
      }
      double sum = 0;
      const double sink = c.sinks.dtype == QUERN_DTYPE_NONE ? -std::numeric_limits<double>::infinity()
                                                            : static_cast<double>(c.sinks.f32()[static_cast<std::size_t>(h)]);
      const bool any = largest > -std::numeric_limits<double>::infinity();
      if (any) {
        for (const double s : scores) sum += std::exp(s - largest);
        sum += std::exp(sink - largest);
      }
      for (std::int64_t i = 0; i < cache.size; ++i) {
        double r = 0, s_v = 0;
        for (std::int64_t j = first; j < end; ++j) {
          if (scores[static_cast<std::size_t>(j)] == -std::numeric_limits<double>::infinity()) continue;
          const double p = std::exp(scores[static_cast<std::size_t>(j)] - largest) / sum,
                       v = cache.row(cache.v, values, c.slots[t], j, h / group)[static_cast<std::size_t>(i)];
          r += p * v, s_v += p * std::fabs(v);
        }
        const double y_value = got[(static_cast<std::int64_t>(t) * heads + h) * cache.size + i];
        if (!any) {
          EXPECT_EQ(y_value, 0.0) << what;
          continue;
        }
        const double bound = s_v * ((4 * std::sqrt(static_cast<double>(end)) + 32) * 0x1p-24 + 2 * slack) + 1e-40;
        ASSERT_LE(std::fabs(y_value - r), bound)
            << what << " row " << t << " head " << h << " element " << i << ": " << y_value << " for " << r;
      }
    }
}

Case decode_case() {
  Case c;
  c.slots = {0, 1, 2, 0};
  c.positions = {149, 63, 0, -1};
  return c;
}

class AttentionTest : public ::testing::Test {
 protected:
  void filled(Plugin& plugin, Cache& cache) {
    cache.fill(plugin, 0, 150, 1);
    cache.fill(plugin, 1, 64, 2);
    cache.fill(plugin, 2, 1, 3);
  }
};

TEST_F(AttentionTest, MatchesF64ForEveryCacheFormatAndInstructionSet) {
  for (const std::string& family : families()) {
    Plugin plugin(2, {{"force_kernel", family}});
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}) {
      Cache cache(2, 64, 16, 3, 10, dtype);
      filled(plugin, cache);
      const Case c = decode_case();
      const Tensor q = random_tensor(QUERN_F32, {4, 6, 64}, 4), y = make(QUERN_F32, {4, 6, 64});
      ASSERT_EQ(attend(plugin, cache, q, c, y).status, QUERN_OK);
      expect_close(cache, q, c, y, family + " dtype " + std::to_string(dtype));
    }
  }
}

TEST_F(AttentionTest, MatchesF64ForAPrefillAndOddSizes) {
  Plugin plugin(2);
  for (const std::int64_t d : {40, 80, 128}) {
    Cache cache(1, d, 8, 1, 20, QUERN_F32);
    cache.fill(plugin, 0, 150, 5);
    Case c;
    for (int t = 0; t < 70; ++t) c.slots.push_back(0), c.positions.push_back(80 + t);
    const Tensor q = random_tensor(QUERN_F32, {70, 3, d}, 6), y = make(QUERN_F32, {70, 3, d});
    ASSERT_EQ(attend(plugin, cache, q, c, y).status, QUERN_OK);
    expect_close(cache, q, c, y, "d " + std::to_string(d));
  }
}

TEST_F(AttentionTest, AppliesWindowSoftcapSinksAndMasks) {
  Plugin plugin(2);
  Cache cache(2, 32, 16, 3, 10, QUERN_F32);
  filled(plugin, cache);
  const Tensor q = random_tensor(QUERN_F32, {4, 4, 32}, 7);
  const auto check = [&](const Case& c, const char* what) {
    const Tensor y = make(QUERN_F32, {4, 4, 32});
    const Outcome outcome = attend(plugin, cache, q, c, y);
    ASSERT_EQ(outcome.status, QUERN_OK) << what << outcome.text;
    expect_close(cache, q, c, y, what);
  };
  Case c = decode_case();
  c.window = 70;
  check(c, "window");
  c.softcap = 1.5;
  check(c, "window and softcap");
  c.sinks = of({4}, {0.5f, -3.0f, 4.0f, 20.0f});
  check(c, "window, softcap and sinks");
  c = decode_case();
  c.mask = make(QUERN_F32, {4, 160});
  for (std::size_t i = 0; i < 640; ++i)
    c.mask.f32()[i] = i % 3 == 0 ? -std::numeric_limits<float>::infinity() : 0.01f * static_cast<float>(i % 50);
  check(c, "float mask");
  c.max_bias = 8;
  check(c, "float mask with slopes");
  c.max_bias = 0;
  c.mask = make(QUERN_U8, {4, 160});
  for (std::size_t i = 0; i < 640; ++i) c.mask.raw()[i] = i % 4 != 1;
  check(c, "byte mask");
  c = decode_case();
  c.causal = false;
  c.kv_len = ints({3}, {100, 64, 0});
  check(c, "kv_len");
}

TEST_F(AttentionTest, AMaskedSlotMayHoldNaN) {
  Plugin plugin;
  Cache cache(1, 32, 16, 1, 1, QUERN_F32);
  cache.fill(plugin, 0, 10, 8);
  for (std::size_t i = 0; i < 32; ++i) cache.k.f32()[3 * 32 + i] = cache.v.f32()[3 * 32 + i] = std::nanf("");
  Case c;
  c.slots = {0};
  c.positions = {9};
  c.mask = make(QUERN_U8, {1, 16});
  for (std::size_t i = 0; i < 16; ++i) c.mask.raw()[i] = i != 3;
  const Tensor q = random_tensor(QUERN_F32, {1, 1, 32}, 9), y = make(QUERN_F32, {1, 1, 32});
  ASSERT_EQ(attend(plugin, cache, q, c, y).status, QUERN_OK);
  expect_close(cache, q, c, y, "NaN behind the mask");
}

TEST_F(AttentionTest, ARowHasTheSameBitsInAnyBatchAndWithAnyThreads) {
  Plugin one(1), two(2);
  Cache cache(3, 64, 16, 2, 20, QUERN_F16);
  cache.fill(one, 0, 300, 10);
  cache.fill(one, 1, 300, 11);
  const Tensor q = random_tensor(QUERN_F32, {40, 9, 64}, 12), together = make(QUERN_F32, {40, 9, 64});
  Case c;
  for (int t = 0; t < 40; ++t) c.slots.push_back(t % 7 == 0 ? 1 : 0), c.positions.push_back(255 + t);
  ASSERT_EQ(attend(two, cache, q, c, together).status, QUERN_OK);
  for (const int t : {0, 1, 17, 39}) {
    Case single;
    single.slots = {c.slots[static_cast<std::size_t>(t)]};
    single.positions = {c.positions[static_cast<std::size_t>(t)]};
    const Tensor alone = make(QUERN_F32, {1, 9, 64}), y = make(QUERN_F32, {1, 9, 64});
    std::memcpy(alone.f32().data(), q.f32().data() + t * 576, 576 * 4);
    ASSERT_EQ(attend(one, cache, alone, single, y).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(y.f32().data(), together.f32().data() + t * 576, 576 * 4), 0) << "row " << t;
  }
}

TEST_F(AttentionTest, AMissingPageGivesZerosAndAFault) {
  Plugin plugin;
  Cache cache(1, 32, 16, 2, 4, QUERN_F32);
  cache.fill(plugin, 0, 40, 13);
  cache.fill(plugin, 1, 40, 14);
  cache.table.integers()[1] = 99;
  Case c;
  c.slots = {0, 1, 5};
  c.positions = {39, 39, 1};
  const Tensor q = random_tensor(QUERN_F32, {3, 2, 32}, 15), y = make(QUERN_F32, {3, 2, 32});
  const Outcome outcome = attend(plugin, cache, q, c, y);
  EXPECT_EQ(outcome.status, QUERN_OK);
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y.f32()[i], 0.0f);
    EXPECT_EQ(y.f32()[128 + i], 0.0f);
  }
  EXPECT_NE(y.f32()[64], 0.0f);
}

TEST_F(AttentionTest, KvWriteSkipsMinusOneAndDeadRowsAndKeepsOtherBytes) {
  Plugin plugin;
  Cache cache(1, 32, 4, 1, 2, QUERN_F32);
  const Tensor x = random_tensor(QUERN_F32, {3, 1, 32}, 16);
  GraphSpec graph;
  Tensor live = ints({3}, {1, 1, 0});
  const std::uint32_t xi = graph.add(x), table = graph.add(cache.table), slot = graph.add(ints({3}, {0, 0, 0})),
                      position = graph.add(ints({3}, {5, -1, 6})), out = graph.add(cache.k), predicate = graph.add(live);
  graph.nodes.push_back({QUERN_OP_KV_WRITE, {xi, table, slot, position}, {out}, {}, predicate});
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(outcome.faults, 0u);
  for (std::size_t i = 0; i < 8 * 32; ++i) {
    const std::size_t written = 0 * 4 * 32 + 1 * 32;  // position 5 is slot 1 of page 1, which the table puts first
    if (i >= written && i < written + 32) EXPECT_EQ(cache.k.f32()[i], x.f32()[i - written]);
    else EXPECT_TRUE(std::isnan(cache.k.f32()[i])) << i;
  }
}

}  // namespace
}  // namespace quern::cpu_test
