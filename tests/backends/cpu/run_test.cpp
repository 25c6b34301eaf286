// Runs: extents, patches, predicates, views, cancellation, scratch, and that a submit allocates nothing.
#include "harness.hpp"

#include "counting_new.hpp"
#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#if QUERN_SANITIZER != 0
#define QUERN_TEST_COUNTS_ALLOCATIONS 0
#else
#define QUERN_TEST_COUNTS_ALLOCATIONS 1
#endif

namespace quern::cpu_test {
namespace {

quern_symbol symbol(std::int64_t max, std::uint32_t extent = QUERN_NONE) { return {{"n", 1}, 0, max, 1, extent, 0}; }

TEST(Run, TouchesNothingBeyondTheBoundOfTheRun) {
  Plugin plugin(2);
  GraphSpec graph;
  graph.symbols = {symbol(8)};
  Tensor x = of({8, 4}, std::vector<float>(32, 2.0f)), y = of({8, 4}, std::vector<float>(32, -1.0f), QUERN_F32, QUERN_VALUE_OUTPUT);
  x.symbols = y.symbols = {1, 0};
  graph.nodes.push_back({QUERN_OP_SCALE, {graph.add(x)}, {graph.add(y)}, {{QUERN_KEY_ALPHA, 3.0}}});
  ASSERT_EQ(plugin.run(graph, {3}).status, QUERN_OK);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y.f32()[i], i < 12 ? 6.0f : -1.0f);
}

TEST(Run, ReadsExactExtentsFromMemoryAfterPatches) {
  Plugin plugin(2);
  GraphSpec graph;
  Tensor x = of({8, 4}, std::vector<float>(32, 2.0f)), y = of({8, 4}, std::vector<float>(32, -1.0f), QUERN_F32, QUERN_VALUE_OUTPUT);
  x.symbols = y.symbols = {1, 0};
  const std::uint32_t xi = graph.add(x), yi = graph.add(y);
  Tensor count = ints({1}, {8});
  count.kind = QUERN_VALUE_STATE;
  const std::uint32_t extent = graph.add(count);
  graph.symbols = {symbol(8, extent)};
  graph.nodes.push_back({QUERN_OP_SCALE, {xi}, {yi}, {{QUERN_KEY_ALPHA, 3.0}}});
  Prepared prepared(plugin, graph, {5});
  ASSERT_EQ(prepared.outcome.status, QUERN_OK) << prepared.outcome.text;
  const std::int32_t two = 2, nine = 9;
  EXPECT_EQ(prepared.submit({}, {{extent, 0, 0, 4, &two}}).status, QUERN_OK);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y.f32()[i], i < 8 ? 6.0f : -1.0f);
  EXPECT_EQ(prepared.submit({}, {{extent, 0, 0, 4, &nine}}).status, QUERN_INVALID_ARGUMENT);  // beyond the instance's bound
  EXPECT_EQ(prepared.submit({{0, 0, 6}}).status, QUERN_INVALID_ARGUMENT);
}

TEST(Run, APatchOutsideItsValueIsRefusedAndChangesNothing) {
  Plugin plugin;
  GraphSpec graph;
  const Tensor x = of({4}, {1, 2, 3, 4});
  graph.nodes.push_back({QUERN_OP_SCALE, {graph.add(x)}, {graph.add(make(QUERN_F32, {4}, QUERN_VALUE_OUTPUT))}});
  Prepared prepared(plugin, graph);
  const float data[2] = {9, 9};
  EXPECT_EQ(prepared.submit({}, {{0, 0, 0, 4, data}, {0, 0, 12, 8, data}}).status, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(prepared.submit({}, {{1, 0, 0, 4, data}}).status, QUERN_INVALID_ARGUMENT);  // an output
  EXPECT_EQ(x.floats(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Run, APredicateOfZeroWritesNothing) {
  Plugin plugin;
  GraphSpec graph;
  const Tensor y = of({2}, {-1, -1}, QUERN_F32, QUERN_VALUE_OUTPUT), live = ints({1}, {0});
  const std::uint32_t xi = graph.add(of({2}, {1, 2})), yi = graph.add(y), pi = graph.add(live);
  graph.nodes.push_back({QUERN_OP_SCALE, {xi}, {yi}, {}, pi});
  ASSERT_EQ(plugin.run(graph).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{-1, -1}));
  live.integers()[0] = 1;
  ASSERT_EQ(plugin.run(graph).status, QUERN_OK);
  EXPECT_EQ(y.floats(), (std::vector<float>{1, 2}));
}

TEST(Run, ViewsOfAnInternalValueWorkAsSlices) {
  // qkv = x w^T; then q and k are columns of it: y = silu(q) in place of k's copy.
  Plugin plugin(2);
  GraphSpec graph;
  const std::uint32_t x = graph.add(random_tensor(QUERN_F32, {3, 32}, 1)), w = graph.add(random_tensor(QUERN_F32, {8, 32}, 2));
  Tensor qkv = make(QUERN_F32, {3, 8}, QUERN_VALUE_INTERNAL);
  const std::uint32_t all = graph.add(qkv);
  Tensor right = make(QUERN_F32, {3, 4}, QUERN_VALUE_INTERNAL);
  right.strides = {32, 4};
  right.alias_of = all;
  right.alias_offset = 16;
  const std::uint32_t k = graph.add(right);
  const Tensor y = make(QUERN_F32, {3, 4}, QUERN_VALUE_OUTPUT), full = make(QUERN_F32, {3, 8}, QUERN_VALUE_OUTPUT);
  const std::uint32_t yi = graph.add(y), fi = graph.add(full);
  graph.nodes = {{QUERN_OP_MATMUL, {x, w}, {all}},
                 {QUERN_OP_SCALE, {k}, {k}, {{QUERN_KEY_ALPHA, -2.0}}},
                 {QUERN_OP_COPY, {k}, {yi}},
                 {QUERN_OP_COPY, {all}, {fi}}};
  const Outcome outcome = plugin.run(graph);
  ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
  const Tensor plain = make(QUERN_F32, {3, 8});
  ASSERT_EQ(run_node(plugin, QUERN_OP_MATMUL, {graph.values[x], graph.values[w]}, {plain}).status, QUERN_OK);
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 8; ++c) {
      const float expected = plain.f32()[r * 8 + c] * (c < 4 ? 1.0f : -2.0f);
      EXPECT_EQ(full.f32()[r * 8 + c], expected);
      if (c >= 4) { EXPECT_EQ(y.f32()[r * 4 + c - 4], expected); }
    }
}

TEST(Run, AnOpThatDoesNotRunInPlaceIsRefusedThere) {
  Plugin plugin;
  GraphSpec graph;
  Tensor x = make(QUERN_F32, {4, 4}, QUERN_VALUE_STATE), view = make(QUERN_F32, {4, 4}, QUERN_VALUE_STATE);
  const std::uint32_t xi = graph.add(x);
  view.alias_of = xi;
  view.strides = {4, 16};
  graph.nodes.push_back({QUERN_OP_COPY, {xi}, {graph.add(view)}});
  const Outcome outcome = plugin.run(graph);
  EXPECT_EQ(outcome.status, QUERN_UNSUPPORTED);
  EXPECT_NE(outcome.text.find("shares memory with input 0"), std::string::npos) << outcome.text;
}

TEST(Run, ReusesScratchOfValuesThatAreDone) {
  Plugin plugin;
  GraphSpec graph;
  std::uint32_t at = graph.add(of({1024}, std::vector<float>(1024, 1.0f)));
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t next = graph.add(make(QUERN_F32, {1024}, i == 19 ? QUERN_VALUE_OUTPUT : QUERN_VALUE_INTERNAL));
    graph.nodes.push_back({QUERN_OP_SCALE, {at}, {next}, {{QUERN_KEY_ALPHA, 2.0}}});
    at = next;
  }
  Prepared prepared(plugin, graph);
  EXPECT_LE(prepared.info.scratch_bytes, 2u * 4096u);
  ASSERT_EQ(prepared.submit().status, QUERN_OK);
  for (const float v : graph.values[at].f32().first(1024)) EXPECT_EQ(v, 1048576.0f);
}

TEST(Run, EmptyTensorsLaunchNothing) {
  Plugin plugin(2);
  const Tensor y = make(QUERN_F32, {0, 8});
  EXPECT_EQ(run_node(plugin, QUERN_OP_MATMUL, {make(QUERN_F32, {0, 32}), random_tensor(QUERN_Q8_0, {8, 32}, 1)}, {y}).status, QUERN_OK);
  const Tensor z = make(QUERN_F32, {2, 3});
  EXPECT_EQ(run_node(plugin, QUERN_OP_MATMUL, {make(QUERN_F32, {2, 0}), make(QUERN_F32, {3, 0})}, {z}).status, QUERN_OK);
  for (const float v : z.f32().first(6)) EXPECT_EQ(v, 0.0f);
}

/// A chain of large products; 400 take many seconds.
void make_long(GraphSpec& graph, int products) {
  const std::uint32_t w = graph.add(random_tensor(QUERN_F32, {1024, 1024}, 1));
  std::uint32_t at = graph.add(random_tensor(QUERN_F32, {1024, 1024}, 2));
  for (int i = 0; i < products; ++i) {
    const std::uint32_t next = graph.add(make(QUERN_F32, {1024, 1024}, i + 1 == products ? QUERN_VALUE_OUTPUT : QUERN_VALUE_INTERNAL));
    if (graph.values[next].kind == QUERN_VALUE_INTERNAL) graph.values[next].memory.reset();
    graph.nodes.push_back({QUERN_OP_MATMUL, {at, w}, {next}});
    at = next;
  }
}

/// What all threads of this process have computed.
double computed_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Run, CancelEndsARunSoonAndTheNextOneIsFree) {
  Plugin plugin(2);
  double one_product = 0;
  {
    GraphSpec few;
    make_long(few, 4);
    Prepared prepared(plugin, few);
    const double start = computed_seconds();
    ASSERT_EQ(prepared.submit().status, QUERN_OK);
    one_product = (computed_seconds() - start) / 4;
  }
  GraphSpec graph;
  make_long(graph, 400);
  Prepared prepared(plugin, graph);
  ASSERT_EQ(prepared.outcome.status, QUERN_OK) << prepared.outcome.text;
  const double start = computed_seconds();
  double cancelled = 0;
  std::thread other([&] {
    while (computed_seconds() - start < one_product) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until it is under way
    plugin.api().run_cancel(prepared.instance, nullptr);
    cancelled = computed_seconds();
  });
  const Outcome outcome = prepared.submit();
  const double ended = computed_seconds();
  other.join();
  EXPECT_EQ(outcome.status, QUERN_CANCELLED);
  EXPECT_NE(outcome.node, QUERN_NONE);
  EXPECT_LT(ended - cancelled, 20 * one_product) << "about one is promised, and 400 were asked for";
  GraphSpec small;
  small.nodes.push_back({QUERN_OP_SCALE, {small.add(of({1}, {1}))}, {small.add(make(QUERN_F32, {1}, QUERN_VALUE_OUTPUT))}});
  EXPECT_EQ(plugin.run(small).status, QUERN_OK);
}

TEST(Run, TwoPluginHandlesAndTwoSessionsWorkAtOnce) {
  Plugin one(2), two(2);
  const auto work = [](Plugin& plugin, std::uint32_t seed) {
    const Tensor a = random_tensor(QUERN_F32, {4, 256}, seed), b = random_tensor(QUERN_Q4_1, {100, 256}, seed + 1),
                 first = make(QUERN_F32, {4, 100});
    if (run_node(plugin, QUERN_OP_MATMUL, {a, b}, {first}).status != QUERN_OK) return false;
    for (int i = 0; i < 100; ++i) {
      const Tensor y = make(QUERN_F32, {4, 100});
      if (run_node(plugin, QUERN_OP_MATMUL, {a, b}, {y}).status != QUERN_OK ||
          std::memcmp(y.f32().data(), first.f32().data(), y.bytes()) != 0)
        return false;
    }
    return true;
  };
  std::atomic<int> good{0};
  std::thread a([&] { good += work(one, 1); }), b([&] { good += work(one, 10); }), c([&] { good += work(two, 20); });
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(good.load(), 3);
}

TEST(Run, TenThousandSubmitsAllocateNothing) {
#if !QUERN_TEST_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "allocations are the sanitizer's here";
#else
  Plugin plugin(2);
  GraphSpec graph;
  Tensor count = ints({1}, {1});
  count.kind = QUERN_VALUE_STATE;
  const std::uint32_t x = graph.add(random_tensor(QUERN_F32, {4, 64}, 1)), weight = graph.add(random_tensor(QUERN_F32, {64}, 2)),
                      w = graph.add(random_tensor(QUERN_Q4_1, {256, 64}, 3)),
                      normed = graph.add(make(QUERN_F32, {4, 64}, QUERN_VALUE_INTERNAL)),
                      y = graph.add(make(QUERN_F32, {4, 256}, QUERN_VALUE_OUTPUT)), extent = graph.add(count);
  graph.symbols = {symbol(4, extent)};
  for (const std::uint32_t id : {x, normed, y}) graph.values[id].symbols = {1, 0};
  graph.nodes = {{QUERN_OP_RMS_NORM, {x, weight}, {normed}, {{QUERN_KEY_EPSILON, 1e-5}}}, {QUERN_OP_MATMUL, {normed, w}, {y}}};
  const std::uint64_t before_compile = allocation_count();
  Prepared prepared(plugin, graph);
  ASSERT_EQ(prepared.outcome.status, QUERN_OK) << prepared.outcome.text;
  quern_run_status status{};
  status.header = {sizeof(status), QUERN_TYPE_RUN_STATUS, nullptr};
  quern_run run{};
  run.header = {sizeof(run), QUERN_TYPE_RUN, nullptr};
  run.instance = prepared.instance;
  run.status = &status;
  const quern_array runs = {&run, 1, sizeof(run)};
  const std::uint64_t before = allocation_count();
  ASSERT_GT(before, before_compile) << "the plugin's allocations are not seen";
  std::uint64_t failures = 0;
  for (std::int32_t i = 0; i < 10000; ++i) {
    count.integers()[0] = i % 5;  // another number of rows each time
    failures += plugin.api().submit(plugin.device(), nullptr, &runs, nullptr) != QUERN_OK || status.code != QUERN_OK;
  }
  EXPECT_EQ(allocation_count(), before);
  EXPECT_EQ(failures, 0u);
  quern_counters counters{};
  counters.header = {sizeof(counters), QUERN_TYPE_COUNTERS, nullptr};
  ASSERT_EQ(plugin.api().counters(prepared.instance, &counters, nullptr), QUERN_OK);
  EXPECT_EQ(counters.runs, 10000u);
  EXPECT_EQ(counters.host_allocations + counters.device_allocations + counters.compiles + counters.rerecords, 0u);
#endif
}

}  // namespace
}  // namespace quern::cpu_test
