// A cancel is for the run that was submitted, though that waits for another one's on the same card, and for nothing else. Over a driver
// that computes copies alone, whose waits do not end while the file FAKE_PAUSE is there; a wait that it holds makes the file FAKE_PAUSE.held.
#include "sample_fixture.hpp"

#include "support/asleep.hpp"

#include <atomic>
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

TEST_F(CudaCancel, ReachesARunThatWaitsForAnotherOnTheSameCard) {
  const std::vector<float> numbers = {1, 2, 3, 4}, zeros(4, 0);
  const quern_span at_first = holding(zeros), at_second = holding(zeros);
  const Ready first = copy_of(numbers, at_first), second = copy_of(numbers, at_second);
  std::ofstream(pause).put('\n');
  quern_status of_first = QUERN_INTERNAL, of_second = QUERN_INTERNAL;
  std::thread running([&] { of_first = outcome_of(first); });
  while (!std::filesystem::exists(held)) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it has the card, and waits
  std::atomic<pid_t> submitting{0};
  std::thread waiting([&] {
    submitting = gettid();
    of_second = outcome_of(second);
  });
  while (submitting == 0) std::this_thread::yield();
  quern::test::wait_until_asleep(submitting);  // it waits for the card
  EXPECT_EQ(api.run_cancel(second.instance, nullptr), QUERN_OK);
  std::filesystem::remove(pause);
  running.join();
  waiting.join();
  EXPECT_EQ(of_first, QUERN_OK);
  EXPECT_EQ(of_second, QUERN_CANCELLED);
  EXPECT_EQ(contents(at_first), numbers);
  EXPECT_EQ(contents(at_second), zeros);
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
