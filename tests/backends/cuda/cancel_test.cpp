// A cancel is for the run that was submitted, though another one's is in flight on the same card, and for nothing else. The host is one that makes
// no queues: its calls wait. Over a driver that computes copies alone, and ends nothing while the file FAKE_PAUSE is there; who waits for it
// makes the file FAKE_PAUSE.held.
#include "sample_fixture.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace {

using namespace quern_test;

class CudaCancel : public SampleTest {
 protected:
  void SetUp() override {
    setenv("FAKE_PAUSE", pause.c_str(), 1);
    host.table.abi_minor = 0;
    SampleTest::SetUp();
  }
  void TearDown() override {
    std::filesystem::remove(pause);
    std::filesystem::remove(held);
    SampleTest::TearDown();
  }

  Ready copy_of(const std::vector<float>& from, const quern_span& to) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
    g.node(QUERN_OP_COPY, {x}, {y});
    return ready(g, {{x, holding(from)}, {y, to}});
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

  const std::string pause = testing::TempDir() + "quern-cuda-cancel-" + std::to_string(getpid()), held = pause + ".held";
};

TEST_F(CudaCancel, ReachesARunThatIsInFlightBehindAnotherOnTheSameCard) {
  const std::vector<float> numbers = {1, 2, 3, 4}, zeros(4, 0);
  const quern_span at_first = holding(zeros), at_second = holding(zeros);
  const Ready first = copy_of(numbers, at_first), second = copy_of(numbers, at_second);
  std::ofstream(pause).put('\n');
  quern_status of_first = QUERN_INTERNAL, of_second = QUERN_INTERNAL;
  std::thread running([&] { of_first = outcome_of(first); });
  while (!std::filesystem::exists(held)) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it has the card, and waits
  std::thread waiting([&] { of_second = outcome_of(second); });
  quern_counters counters = zeroed<quern_counters>(QUERN_TYPE_COUNTERS);
  while (counters.runs == 0) {  // it has been given to the card
    ASSERT_EQ(api.counters(second.instance, &counters, nullptr), QUERN_OK);
    std::this_thread::yield();
  }
  EXPECT_EQ(api.run_cancel(second.instance, nullptr), QUERN_OK);
  std::filesystem::remove(pause);
  running.join();
  waiting.join();
  EXPECT_EQ(of_first, QUERN_OK);
  EXPECT_EQ(of_second, QUERN_CANCELLED);
  EXPECT_EQ(contents(at_first), numbers);
  EXPECT_EQ(outcome_of(second), QUERN_OK);  // the next is free
  EXPECT_EQ(contents(at_second), numbers);
  drop(first);
  drop(second);
}

TEST_F(CudaCancel, OfAnIdleInstanceDoesNotEndTheCaptureOfItsSteps) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {4});
  const auto symbol = g.range(x, 0, 1);
  std::map<std::uint32_t, quern_span> places = {{x, holding<float>({1, 2, 3, 4})}};
  for (int i = 0; i < 16; ++i) {  // what has fewer nodes is not captured
    const auto y = g.value(QUERN_VALUE_OUTPUT, {4});
    g.use(y, 0, symbol);
    g.node(QUERN_OP_COPY, {x}, {y});
    places[y] = buffer(16);
  }
  const Ready r = ready(g, places);
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  EXPECT_EQ(api.run_cancel(r.instance, nullptr), QUERN_OK);
  EXPECT_EQ(prepare(r, places), QUERN_OK) << error.text();
  drop(r);
}

}  // namespace
