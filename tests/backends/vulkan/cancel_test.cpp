// A cancel is for the run that was submitted, though that waits for another one's on the same device, and for nothing else.
#include "sample_fixture.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace {

using namespace quern_test;

class VulkanCancel : public SampleTest {
 protected:
  static constexpr std::int64_t n = 384;

  void SetUp() override {
    quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
    quern_plugin_api table = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
    ASSERT_EQ(sample_query()(&query, &table, error), QUERN_OK) << error.text();
    quern_plugin* asked = nullptr;
    ASSERT_EQ(table.create(&host.table, &asked, error), QUERN_OK) << error.text();
    quern_device* opened = nullptr;
    const bool none = table.device_open(asked, 0, &opened, error) != QUERN_OK;
    if (!none) table.device_close(opened, error);
    table.destroy(asked);
    if (none) GTEST_SKIP() << "no Vulkan device: " << error.text();
    SampleTest::SetUp();
  }

  Ready copy_of(const std::vector<float>& from, const quern_span& to) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
    g.node(QUERN_OP_COPY, {x}, {y});
    return ready(g, {{x, holding(from)}, {y, to}});
  }
  /// A chain of products that takes seconds on a processor, cut into parts between which a cancel is heard.
  Ready chain() {
    constexpr int products = 2000;
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {n, n}), w = g.value(QUERN_VALUE_CONSTANT, {n, n});
    const std::uint32_t between[2] = {g.value(QUERN_VALUE_INTERNAL, {n, n}), g.value(QUERN_VALUE_INTERNAL, {n, n})};
    const auto y = g.value(QUERN_VALUE_OUTPUT, {n, n});
    for (int i = 0; i < products; ++i) g.node(QUERN_OP_MATMUL, {i == 0 ? x : between[(i + 1) % 2], w}, {i + 1 == products ? y : between[i % 2]});
    const std::vector<float> zeros(n * n, 0);
    return ready(g, {{x, holding(zeros)}, {w, holding(zeros)}, {y, holding(zeros)}});
  }
  /// As run(), from another thread than the test's.
  quern_status outcome_of(const Ready& r) {
    quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    quern_run run = run_of(r);
    run.status = &status;
    const quern_array runs = {&run, 1, sizeof run};
    const quern_status submitted = api.submit(device, nullptr, &runs, nullptr);
    return submitted != QUERN_OK ? submitted : status.code;
  }
};

TEST_F(VulkanCancel, ReachesARunThatWaitsForAnotherOnTheSameDevice) {
  const std::vector<float> numbers = {1, 2, 3, 4}, zeros(4, 0);
  const quern_span to = holding(zeros);
  const Ready first = chain(), second = copy_of(numbers, to);
  ASSERT_EQ(first.prepared, QUERN_OK);
  ASSERT_EQ(second.prepared, QUERN_OK);
  quern_status of_first = QUERN_INTERNAL, of_second = QUERN_INTERNAL;
  std::thread running([&] { of_first = outcome_of(first); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it has the device now
  std::atomic<bool> submitting{false};
  std::thread waiting([&] {
    submitting = true;
    of_second = outcome_of(second);
  });
  while (!submitting) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(api.run_cancel(second.instance, nullptr), QUERN_OK);
  EXPECT_EQ(api.run_cancel(first.instance, nullptr), QUERN_OK);
  running.join();
  waiting.join();
  if (of_first == QUERN_OK) {
    drop(first);
    drop(second);
    GTEST_SKIP() << "a fast device: nothing waited for the first run any more";
  }
  EXPECT_EQ(of_first, QUERN_CANCELLED);
  EXPECT_EQ(of_second, QUERN_CANCELLED);
  EXPECT_EQ(contents(to), zeros);
  EXPECT_EQ(outcome_of(second), QUERN_OK);  // the next is free
  EXPECT_EQ(contents(to), numbers);
  EXPECT_EQ(api.run_cancel(second.instance, nullptr), QUERN_OK);
  EXPECT_EQ(outcome_of(second), QUERN_OK) << "a cancel of an idle instance is nothing";
  drop(first);
  drop(second);
}

}  // namespace
