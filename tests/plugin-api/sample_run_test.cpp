// The sample plugin computes: ops against f64, ranges, predicates, patches, and nothing allocated in submit.
#include "count_allocations.hpp"
#include "sample_fixture.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace {

using namespace quern_test;
using SampleRun = SampleTest;

std::vector<float> numbers(std::size_t count, float seed) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = std::sin(seed + static_cast<float>(i) * 0.7f) * 3.0f;
  return v;
}

TEST_F(SampleRun, RmsNormFollowsItsDefinition) {
  constexpr std::size_t rows = 3, h = 37;
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {3, 37}), w = g.value(QUERN_VALUE_CONSTANT, {37});
  const auto y = g.value(QUERN_VALUE_OUTPUT, {3, 37}), plain = g.value(QUERN_VALUE_OUTPUT, {3, 37});
  g.node(QUERN_OP_RMS_NORM, {x, w}, {y}, {real(QUERN_KEY_EPSILON, 1e-3), real(QUERN_KEY_WEIGHT_OFFSET, 1)});
  g.node(QUERN_OP_RMS_NORM, {x}, {plain}, {real(QUERN_KEY_EPSILON, 1e-3)});
  const auto xs = numbers(rows * h, 1), ws = numbers(h, 5);
  const quern_span at_y = buffer(rows * h * 4), at_plain = buffer(rows * h * 4);
  const Ready r = ready(g, {{x, holding(xs)}, {w, holding(ws)}, {y, at_y}, {plain, at_plain}});
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  EXPECT_EQ(run(r).code, QUERN_OK) << error.text();
  const auto ys = contents(at_y), plains = contents(at_plain);
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < h; ++i) sum += static_cast<double>(xs[row * h + i]) * xs[row * h + i];
    const double scale = 1 / std::sqrt(sum / h + 1e-3);
    for (std::size_t i = 0; i < h; ++i) {
      const double want = xs[row * h + i] * scale;
      // (2 sqrt(h) + 8) ulp as in the op's contract, and one more rounding for weight + offset
      EXPECT_NEAR(plains[row * h + i], want, std::fabs(want) * 21 * 0x1p-24);
      EXPECT_NEAR(ys[row * h + i], want * (ws[i] + 1.0), std::fabs(want * (ws[i] + 1.0)) * 21 * 0x1p-24 + 0x1p-22);
    }
  }
  drop(r);
}

TEST_F(SampleRun, AddBroadcastsAndScalesItsSecondInput) {
  GraphBuilder g;
  const auto a = g.value(QUERN_VALUE_INPUT, {2, 2, 3}), b = g.value(QUERN_VALUE_INPUT, {2, 1, 3});
  const auto c = g.value(QUERN_VALUE_INPUT, {1}), s = g.value(QUERN_VALUE_OUTPUT, {2, 2, 3}), t = g.value(QUERN_VALUE_OUTPUT, {2, 2, 3});
  g.node(QUERN_OP_ADD, {a, b}, {s}, {real(QUERN_KEY_ALPHA, 2)});
  g.node(QUERN_OP_ADD, {a, c}, {t});
  const quern_span at_s = buffer(48), at_t = buffer(48);
  const Ready r = ready(g, {{a, holding<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
                            {b, holding<float>({10, 20, 30, 40, 50, 60})},
                            {c, holding<float>({0.5f})},
                            {s, at_s},
                            {t, at_t}});
  EXPECT_EQ(run(r).code, QUERN_OK);
  EXPECT_EQ(contents(at_s), (std::vector<float>{21, 42, 63, 24, 45, 66, 87, 108, 129, 90, 111, 132}));
  EXPECT_EQ(contents(at_t), (std::vector<float>{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5}));
  drop(r);
}

TEST_F(SampleRun, GluIsSiluOfGateTimesUp) {
  GraphBuilder g;
  const auto gate = g.value(QUERN_VALUE_INPUT, {5}), up = g.value(QUERN_VALUE_INPUT, {5}), y = g.value(QUERN_VALUE_OUTPUT, {5});
  g.node(QUERN_OP_GLU, {gate, up}, {y});
  const std::vector<float> gs = {-100, -1, 0, 1, 100}, us = {3, 3, 3, 3, 3};
  const quern_span at_y = buffer(20);
  const Ready r = ready(g, {{gate, holding(gs)}, {up, holding(us)}, {y, at_y}});
  EXPECT_EQ(run(r).code, QUERN_OK);
  const auto ys = contents(at_y);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(ys[i], 3.0 * gs[i] / (1 + std::exp(-static_cast<double>(gs[i]))), 1e-6 * 300);
  drop(r);
}

/// x -> internal sum -> internal view -> y in one plan: the scratch is the host's and exactly as large as announced.
TEST_F(SampleRun, ChainsThroughScratchAndAliases) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {2, 3}), sum = g.value(QUERN_VALUE_INTERNAL, {2, 3});
  const auto row = g.value(QUERN_VALUE_INTERNAL, {3}), y = g.value(QUERN_VALUE_OUTPUT, {3});
  g.values[row].uses = QUERN_VALUE_USES_ALIAS;
  g.values[row].alias_of = sum;
  g.values[row].alias_offset = 12;  // the second row
  g.node(QUERN_OP_ADD, {x, x}, {sum});
  g.node(QUERN_OP_ADD, {row, row}, {y});
  const quern_span at_y = buffer(12);
  const Ready r = ready(g, {{x, holding<float>({1, 2, 3, 4, 5, 6})}, {y, at_y}});
  EXPECT_EQ(r.info.scratch_bytes, r.info.scratch_alignment) << "24 bytes, in whole steps";
  EXPECT_EQ(r.info.private_bytes, 0u);
  EXPECT_EQ(run(r).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), (std::vector<float>{16, 20, 24}));
  drop(r);
}

TEST_F(SampleRun, RowsBeyondTheBoundOfARunAreNeitherReadNorWritten) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {4, 2}), y = g.value(QUERN_VALUE_OUTPUT, {4, 2});
  const auto tokens = g.range(x, 0, 0);
  g.use(y, 0, tokens);
  g.node(QUERN_OP_ADD, {x, x}, {y});
  const quern_span at_x = holding<float>({1, 2, 3, 4, 5, 6}), at_y = holding<float>({-1, -1, -1, -1, -1, -1});
  const Ready r = ready(g, {{x, at_x}, {y, at_y}}, {{tokens, 0, 3}});  // an instance for 3 rows: memory for 3 is enough
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  EXPECT_EQ(run(r, {}, {{tokens, 0, 2}}).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), (std::vector<float>{2, 4, 6, 8, -1, -1}));
  EXPECT_EQ(run(r, {}, {{tokens, 0, 0}}).code, QUERN_OK);
  quern_run four = run_of(r);
  const quern_bound bound = {tokens, 0, 4};
  four.bounds = {&bound, 1, sizeof bound};
  EXPECT_EQ(submit(four), QUERN_INVALID_ARGUMENT) << "above the instance's bound";
  drop(r);
}

TEST_F(SampleRun, ExactExtentsComeFromDeviceMemoryAndPatchesChangeThem) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {3, 2}), y = g.value(QUERN_VALUE_OUTPUT, {3, 2});
  const auto count = g.value(QUERN_VALUE_STATE, {1}, QUERN_I32);
  const auto tokens = g.range(x, 0, 0, count);
  g.use(y, 0, tokens);
  g.node(QUERN_OP_ADD, {x, x}, {y});
  const quern_span at_y = holding<float>({0, 0, 0, 0, 0, 0});
  const Ready r = ready(g, {{x, holding<float>({1, 2, 3, 4, 5, 6})}, {y, at_y}, {count, holding<std::int32_t>({1})}});
  EXPECT_EQ(run(r).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), (std::vector<float>{2, 4, 0, 0, 0, 0}));
  std::int32_t two = 2;
  const std::vector<quern_patch> patch = {{count, 0, 0, 4, &two}};
  EXPECT_EQ(run(r, patch).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), (std::vector<float>{2, 4, 6, 8, 0, 0}));
  two = 4;  // above the bound: the run fails in its status and writes nothing
  const quern_run_status bad = run(r, patch);
  EXPECT_EQ(bad.code, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(bad.rule, 11u);
  EXPECT_THAT(error.text(), testing::HasSubstr("symbol 0 has the extent 4, the run's bound is 3"));
  two = 3;
  EXPECT_EQ(run(r, patch).code, QUERN_OK) << "a failed run is not sticky";
  drop(r);
}

TEST_F(SampleRun, APredicateOfZeroWritesNothing) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {3, 2}), y = g.value(QUERN_VALUE_STATE, {3, 2}), z = g.value(QUERN_VALUE_STATE, {3, 2});
  const auto live = g.value(QUERN_VALUE_STATE, {1}, QUERN_U32), rows = g.value(QUERN_VALUE_INPUT, {3}, QUERN_I32);
  g.node(QUERN_OP_ADD, {x, x}, {y}).predicate = live;
  g.nodes[0].uses = QUERN_NODE_USES_PREDICATE;
  g.node(QUERN_OP_RMS_NORM, {x}, {z}, {real(QUERN_KEY_EPSILON, 1e-20)}).predicate = rows;
  g.nodes[1].uses = QUERN_NODE_USES_PREDICATE;
  const quern_span at_y = holding(std::vector<float>(6, 7)), at_z = holding(std::vector<float>(6, 7));
  const Ready r = ready(g, {{x, holding<float>({1, 1, 1, 1, 1, 1})},
                            {y, at_y},
                            {z, at_z},
                            {live, holding<std::uint32_t>({0})},
                            {rows, holding<std::int32_t>({1, 0, 5})}});
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  EXPECT_EQ(run(r).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), std::vector<float>(6, 7));
  EXPECT_EQ(contents(at_z), (std::vector<float>{1, 1, 7, 7, 1, 1}));
  const std::uint32_t one = 1;
  EXPECT_EQ(run(r, {{live, 0, 0, 4, &one}}).code, QUERN_OK);
  EXPECT_EQ(contents(at_y), std::vector<float>(6, 2));
  drop(r);
}

TEST_F(SampleRun, SubmitAllocatesNothing) {
  const std::uint64_t at_start = allocations_so_far();
  quern_device* seen = nullptr;
  ASSERT_EQ(api.device_open(plugin, 0, &seen, error), QUERN_OK);
  ASSERT_GT(allocations_so_far(), at_start) << "the count sees what the plugin allocates";
  ASSERT_EQ(api.device_close(seen, error), QUERN_OK);
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {4, 8}), y = g.value(QUERN_VALUE_OUTPUT, {4, 8});
  const auto tokens = g.range(x, 0, 1);
  g.use(y, 0, tokens);
  g.node(QUERN_OP_ADD, {x, x}, {y});
  const Ready r = ready(g, {{x, buffer(128)}, {y, buffer(128)}});
  quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  const float value = 4;
  const quern_patch patch = {x, 0, 4, 4, &value};
  const quern_bound bound = {tokens, 0, 3};
  quern_run one = run_of(r);
  one.status = &status;
  one.patches = {&patch, 1, sizeof patch};
  one.bounds = {&bound, 1, sizeof bound};
  const quern_array runs = {&one, 1, sizeof one};
  const std::uint64_t before = allocations_so_far();
  const int taken = host.allocations;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(api.submit(device, nullptr, &runs, error), QUERN_OK);
  EXPECT_EQ(allocations_so_far(), before);
  EXPECT_EQ(host.allocations, taken);
  quern_counters counters = zeroed<quern_counters>(QUERN_TYPE_COUNTERS);
  ASSERT_EQ(api.counters(r.instance, &counters, error), QUERN_OK);
  EXPECT_EQ(counters.runs, 100u);
  EXPECT_EQ(counters.device_allocations + counters.host_allocations + counters.compiles + counters.rerecords, 0u);
  EXPECT_EQ(counters.host_copies, 400u);
  drop(r);
}

TEST_F(SampleRun, RunsOfOneSubmitAreAllOrNothing) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {2}), y = g.value(QUERN_VALUE_OUTPUT, {2});
  g.node(QUERN_OP_ADD, {x, x}, {y});
  const quern_span at_y = holding<float>({0, 0});
  const Ready r = ready(g, {{x, holding<float>({1, 2})}, {y, at_y}});
  std::vector<quern_run> runs = {run_of(r), run_of(r)};
  runs[1].flags = 2;
  const quern_array both = list(runs);
  EXPECT_EQ(api.submit(device, nullptr, &both, error), QUERN_UNSUPPORTED);
  EXPECT_EQ(error.text(), "run flags: bit 1 is not known here");
  EXPECT_EQ(contents(at_y), (std::vector<float>{0, 0}));
  drop(r);
}

TEST_F(SampleRun, CancelEndsTheRunInFlightSoonAndTheNextIsFree) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {1 << 14, 64}), y = g.value(QUERN_VALUE_OUTPUT, {1 << 14, 64});
  for (int i = 0; i < 400; ++i) g.node(QUERN_OP_GLU, {x, x}, {y});  // seconds of work
  const std::uint64_t bytes = (1ull << 14) * 64 * 4;
  const quern_span at_x = holding(std::vector<float>(bytes / 4, 0.5f));
  const Ready r = ready(g, {{x, at_x}, {y, buffer(bytes)}});
  quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
  std::atomic<bool> done{false};
  std::thread runner([&] {
    status = run(r);
    done = true;
  });
  while (!done) {  // asked again, should the first come before the run has begun
    EXPECT_EQ(api.run_cancel(r.instance, nullptr), QUERN_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  runner.join();
  EXPECT_EQ(status.code, QUERN_CANCELLED);
  EXPECT_LT(status.node, 400u);
  EXPECT_EQ(status.op, std::uint32_t{QUERN_OP_GLU});
  drop(r);
}

}  // namespace
