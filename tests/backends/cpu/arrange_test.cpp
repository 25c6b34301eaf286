// Ops that move, repeat and sum whole elements: concat, pad, repeat, sum_to, set_rows and index_add.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr double u = 0x1p-24;

/// Index in row-major order of `at` in a tensor of `dims`.
std::size_t flat(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) index = index * dims[d] + at[d];
  return static_cast<std::size_t>(index);
}
std::vector<std::int64_t> unflat(const std::vector<std::int64_t>& dims, std::int64_t index) {
  std::vector<std::int64_t> at(dims.size());
  for (std::size_t d = dims.size(); d-- > 0; index /= dims[d]) at[d] = index % dims[d];
  return at;
}

TEST(Concat, JoinsAlongEveryAxis) {
  Plugin plugin(2);
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
      std::vector<Tensor> inputs;
      std::vector<std::int64_t> total = {3, 4, 5};
      total[axis] = 0;
      for (const std::int64_t size : {2, 0, 1, 6}) {
        std::vector<std::int64_t> dims = {3, 4, 5};
        dims[axis] = size;
        total[axis] += size;
        inputs.push_back(random_tensor(dtype, dims, static_cast<std::uint32_t>(size)));
      }
      const Tensor y = make(dtype, total);
      const Outcome outcome = run_node(plugin, QUERN_OP_CONCAT, inputs, {y}, {{QUERN_KEY_AXIS, static_cast<double>(axis)}});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      const std::vector<double> got = meaning(y);
      std::int64_t start = 0;
      for (const Tensor& x : inputs) {
        const std::vector<double> from = meaning(x);
        for (std::int64_t i = 0; i < x.elements(); ++i) {
          std::vector<std::int64_t> at = unflat(x.dims, i);
          at[axis] += start;
          ASSERT_EQ(got[flat(total, at)], from[static_cast<std::size_t>(i)]) << "axis " << axis;
        }
        start += x.dims[axis];
      }
    }
}

TEST(Concat, JoinsBlocksByteForByte) {
  Plugin plugin;
  const Tensor a = random_tensor(QUERN_Q4_0, {2, 64}, 1), b = random_tensor(QUERN_Q4_0, {2, 32}, 2), y = make(QUERN_Q4_0, {2, 96});
  const Outcome outcome = run_node(plugin, QUERN_OP_CONCAT, {a, b}, {y}, {{QUERN_KEY_AXIS, 1}});
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(std::memcmp(y.raw().data() + row * 54, a.raw().data() + row * 36, 36), 0);
    EXPECT_EQ(std::memcmp(y.raw().data() + row * 54 + 36, b.raw().data() + row * 18, 18), 0);
  }
}

TEST(Concat, RefusesInputsThatDoNotFit) {
  Plugin plugin;
  const Tensor a = of({2, 2}, {1, 2, 3, 4}), y = make(QUERN_F32, {4, 2});
  EXPECT_EQ(run_node(plugin, QUERN_OP_CONCAT, {a, of({1, 2}, {1, 2})}, {y}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_CONCAT, {a, of({2, 1}, {1, 2})}, {y}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_CONCAT, {a, ints({2, 2}, {1, 2, 3, 4})}, {y}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_CONCAT, {a, a}, {y}, {{QUERN_KEY_AXIS, 2}}).status, QUERN_INVALID_ARGUMENT);
}

TEST(Pad, SurroundsAlongEveryAxis) {
  Plugin plugin(2);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::vector<std::int64_t> size = {2, 3, 400};
    std::vector<std::int64_t> padded = size;
    padded[axis] += 7;
    const Tensor x = random_tensor(QUERN_F16, size, 3), y = make(QUERN_F16, padded);
    const Outcome outcome =
        run_node(plugin, QUERN_OP_PAD, {x}, {y},
                 {{QUERN_KEY_AXIS, static_cast<double>(axis)}, {QUERN_KEY_BEFORE, 3}, {QUERN_KEY_AFTER, 4}, {QUERN_KEY_VALUE, -2.0}});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    const std::vector<double> from = meaning(x), got = meaning(y);
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      std::vector<std::int64_t> at = unflat(padded, i);
      at[axis] -= 3;
      const bool inside = at[axis] >= 0 && at[axis] < size[axis];
      ASSERT_EQ(got[static_cast<std::size_t>(i)], inside ? from[flat(size, at)] : -2.0) << "axis " << axis << " element " << i;
    }
  }
}

TEST(Pad, OfNothingIsAllValueAndHugeCountsAreRefused) {
  Plugin plugin;
  const Tensor y = make(QUERN_F32, {2, 3});
  ASSERT_EQ(run_node(plugin, QUERN_OP_PAD, {make(QUERN_F32, {2, 0})}, {y},
                     {{QUERN_KEY_AXIS, 1}, {QUERN_KEY_AFTER, 3}, {QUERN_KEY_VALUE, 5}})
                .status,
            QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(run_node(plugin, QUERN_OP_PAD, {of({2}, {1, 2})}, {make(QUERN_F32, {2})},
                     {{QUERN_KEY_BEFORE, 0x1.fffffffffffffp62}, {QUERN_KEY_AFTER, 0x1.fffffffffffffp62}})
                .status,
            QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_PAD, {of({2}, {1, 2})}, {make(QUERN_F32, {1})}, {{QUERN_KEY_BEFORE, -1}}).status,
            QUERN_INVALID_ARGUMENT);
}

struct Shapes {
  std::vector<std::int64_t> small, large;
};
const Shapes fitting[] = {{{3}, {12}},      {{1}, {700}},         {{2, 3}, {4, 3}},        {{2, 3}, {2, 6}},
                          {{3}, {2, 5, 6}}, {{1, 300}, {7, 300}}, {{2, 1, 5}, {4, 3, 10}}, {{4, 1}, {4, 1000}}};

std::size_t source_of(const Shapes& s, std::int64_t i) {
  const std::vector<std::int64_t> at = unflat(s.large, i);
  std::vector<std::int64_t> from;
  for (std::size_t d = 0; d < s.small.size(); ++d) from.push_back(at[s.large.size() - s.small.size() + d] % s.small[d]);
  return flat(s.small, from);
}

TEST(Repeat, FillsTheLargerShape) {
  Plugin plugin(2);
  for (const Shapes& s : fitting)
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
      const Tensor x = random_tensor(dtype, s.small, 4), y = make(dtype, s.large);
      const Outcome outcome = run_node(plugin, QUERN_OP_REPEAT, {x}, {y});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      const std::vector<double> from = meaning(x), got = meaning(y);
      for (std::int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], from[source_of(s, i)]) << i;
    }
  EXPECT_EQ(run_node(plugin, QUERN_OP_REPEAT, {of({2}, {1, 2})}, {make(QUERN_F32, {3})}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(run_node(plugin, QUERN_OP_REPEAT, {make(QUERN_F32, {0})}, {make(QUERN_F32, {3})}).status, QUERN_INVALID_ARGUMENT);
}

TEST(SumTo, IsTheTransposeOfRepeat) {
  Plugin plugin(2);
  for (const Shapes& s : fitting)
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
      const Tensor x = random_tensor(dtype, s.large, 5), y = make(dtype, s.small);
      const Outcome outcome = run_node(plugin, QUERN_OP_SUM_TO, {x}, {y});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      const std::vector<double> from = meaning(x), got = meaning(y);
      std::vector<double> sum(got.size()), size(got.size());
      for (std::int64_t i = 0; i < x.elements(); ++i) {
        sum[source_of(s, i)] += from[static_cast<std::size_t>(i)];
        size[source_of(s, i)] += std::fabs(from[static_cast<std::size_t>(i)]);
      }
      const double k = static_cast<double>(x.elements() / y.elements()), unit = dtype == QUERN_F16    ? 0x1p-11
                                                                                : dtype == QUERN_BF16 ? 0x1p-8
                                                                                                      : u;
      for (std::size_t i = 0; i < got.size(); ++i)  // T1: (2 sqrt(K) + 8) u S, and the store
        ASSERT_LE(std::fabs(got[i] - sum[i]), (2 * std::sqrt(k) + 8) * u * size[i] + unit * 1.0625 * std::fabs(sum[i]) + 0x1p-25) << i;
    }
}

TEST(SumTo, TakesARangedNumberOfRows) {
  Plugin plugin(2);
  GraphSpec graph;
  Tensor x = of({4, 3}, {1, 2, 3, 4, 5, 6, 100, 100, 100, 100, 100, 100}), z = make(QUERN_F32, {4, 3}, QUERN_VALUE_OUTPUT);
  const Tensor y = make(QUERN_F32, {1, 3}, QUERN_VALUE_OUTPUT);
  x.symbols = z.symbols = {1, 0};
  quern_symbol rows{};
  rows.min = 1;
  rows.max = 4;
  rows.multiple_of = 1;
  rows.extent = QUERN_NONE;
  graph.symbols.push_back(rows);
  const std::uint32_t xi = graph.add(x), yi = graph.add(y), zi = graph.add(z);
  graph.nodes.push_back({QUERN_OP_SUM_TO, {xi}, {yi}});
  graph.nodes.push_back({QUERN_OP_REPEAT, {yi}, {zi}});
  const Outcome outcome = plugin.run(graph, {2});
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(y.floats(), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ((std::vector<float>(z.f32().begin(), z.f32().begin() + 6)), (std::vector<float>{5, 7, 9, 5, 7, 9}));
  EXPECT_EQ(z.raw()[24], 0xa5);
}

TEST(SetRows, TheLastOfDuplicatesWinsAndOtherRowsKeepTheirBits) {
  Plugin one(1), four(4);
  for (Plugin* plugin : {&one, &four}) {
    const Tensor x = random_tensor(QUERN_F32, {6, 300}, 6), table = make(QUERN_F32, {5, 300}, QUERN_VALUE_STATE);
    const Outcome outcome = run_node(*plugin, QUERN_OP_SET_ROWS, {x, ints({6}, {1, 3, 1, -1, 3, 0})}, {table});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, 0u);
    for (const auto& [row, from] : {std::pair{0, 5}, std::pair{1, 2}, std::pair{3, 4}})
      EXPECT_EQ(std::memcmp(table.f32().data() + row * 300, x.f32().data() + from * 300, 1200), 0) << row;
    for (const std::size_t row : {2u, 4u})
      for (std::size_t i = 0; i < 1200; ++i) ASSERT_EQ(table.raw()[row * 1200 + i], 0xa5);
  }
}

TEST(SetRows, EncodesBlocksWithinHalfAStep) {
  Plugin plugin;
  for (const quern_dtype dtype : {QUERN_Q8_0, QUERN_Q4_0, QUERN_F16, QUERN_BF16}) {
    const Tensor x = random_tensor(QUERN_F32, {2, 64}, 7), table = make(dtype, {3, 64}, QUERN_VALUE_STATE);
    std::memset(table.raw().data(), 0, table.bytes());
    ASSERT_EQ(run_node(plugin, QUERN_OP_SET_ROWS, {x, ints({2}, {2, 0})}, {table}).status, QUERN_OK);
    const std::vector<double> from = meaning(x), got = meaning(table);
    for (std::size_t block = 0; block < 4; ++block) {
      double largest = 0;
      for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(from[block * 32 + i]));
      // q8_0 has steps of amax / 127; q4_0 of amax / 8, and its far end is cut at 7 of 8 steps.
      const double step = dtype == QUERN_Q8_0   ? largest / 127 * (0.5 + 0x1p-6)
                          : dtype == QUERN_Q4_0 ? largest / 8 * (1 + 0x1p-6)
                                                : largest * (dtype == QUERN_F16 ? 0x1p-11 : 0x1p-8);
      for (std::size_t i = 0; i < 32; ++i)
        ASSERT_LE(std::fabs(got[(block < 2 ? 2 : 0) * 64 + block % 2 * 32 + i] - from[block * 32 + i]), step) << "dtype " << dtype;
    }
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(got[64 + i], 0.0);
  }
}

TEST(SetRows, AnIndexOutOfRangeWritesNothingAndFaults) {
  Plugin plugin(2);
  for (const std::uint32_t op : {QUERN_OP_SET_ROWS, QUERN_OP_INDEX_ADD}) {
    const Tensor table = of({2, 2}, {1, 2, 3, 4}, QUERN_F32, QUERN_VALUE_STATE);
    const Outcome outcome = run_node(plugin, op, {of({3, 2}, {9, 9, 9, 9, 0, 0}), ints({3}, {2, -2, -1})}, {table});
    EXPECT_EQ(outcome.status, QUERN_OK);
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
    EXPECT_EQ(table.floats(), (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST(SetRows, APredicateARowSkipsRows) {
  Plugin plugin(2);
  GraphSpec graph;
  const Tensor table = of({3, 1}, {1, 2, 3}, QUERN_F32, QUERN_VALUE_STATE);
  const std::uint32_t x = graph.add(of({3, 1}, {7, 8, 9})), index = graph.add(ints({3}, {0, 1, 2})), to = graph.add(table),
                      live = graph.add(ints({3}, {1, 0, 1}));
  graph.nodes.push_back({QUERN_OP_SET_ROWS, {x, index}, {to}, {}, live});
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(table.floats(), (std::vector<float>{7, 2, 9}));
}

TEST(IndexAdd, AddsInOrderWithAnyThreads) {
  Plugin one(1), four(4);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
    const Tensor x = random_tensor(QUERN_F32, {200, 33}, 8), start = random_tensor(dtype, {7, 33}, 9);
    std::vector<std::int32_t> index;
    for (int i = 0; i < 200; ++i) index.push_back(i % 11 < 7 ? i % 11 : -1);
    Tensor a = make(dtype, {7, 33}, QUERN_VALUE_STATE), b = make(dtype, {7, 33}, QUERN_VALUE_STATE);
    std::memcpy(a.raw().data(), start.raw().data(), start.bytes());
    std::memcpy(b.raw().data(), start.raw().data(), start.bytes());
    ASSERT_EQ(run_node(one, QUERN_OP_INDEX_ADD, {x, ints({200}, index)}, {a}).status, QUERN_OK);
    ASSERT_EQ(run_node(four, QUERN_OP_INDEX_ADD, {x, ints({200}, index)}, {b}).status, QUERN_OK);
    EXPECT_EQ(std::memcmp(a.raw().data(), b.raw().data(), a.bytes()), 0);
    std::vector<double> sum = meaning(start), size(sum.size());
    const std::vector<double> from = meaning(x), got = meaning(a);
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::fabs(sum[i]);
    for (std::size_t i = 0; i < 200; ++i)
      for (std::size_t j = 0; j < 33; ++j)
        if (index[i] >= 0) {
          sum[static_cast<std::size_t>(index[i]) * 33 + j] += from[i * 33 + j];
          size[static_cast<std::size_t>(index[i]) * 33 + j] += std::fabs(from[i * 33 + j]);
        }
    // Each of the about 18 additions a row is stored: T1 in the unit of the table.
    const double unit = dtype == QUERN_F16 ? 0x1p-11 : dtype == QUERN_BF16 ? 0x1p-8 : u;
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_LE(std::fabs(got[i] - sum[i]), (2 * std::sqrt(19.0) + 8) * unit * size[i]) << i;
  }
}

}  // namespace
}  // namespace quern::cpu_test
