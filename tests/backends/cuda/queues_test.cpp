// Queues of the plugin: what is in flight on them, what ends it, and what a host is told that makes none. Over a driver whose streams work as late
// as they may (FAKE_LATE), and not at all while the file FAKE_PAUSE is there.
#include "sample_fixture.hpp"

#include <array>
#include <filesystem>
#include <fstream>

namespace {

using namespace quern_test;

class CudaQueues : public SampleTest {
 protected:
  void SetUp() override {
    setenv("FAKE_PAUSE", pause.c_str(), 1);
    setenv("FAKE_LATE", "1", 1);
    host.table.abi_minor = QUERN_ABI_MINOR;
    SampleTest::SetUp();
    queue = new_queue();
    ASSERT_EQ(api.fence_create(device, 0, 0, &fence, error), QUERN_OK) << error.text();
  }
  void TearDown() override {
    std::filesystem::remove(pause);
    for (quern_queue* each : queues) { EXPECT_EQ(api.queue_destroy(each, error), QUERN_OK) << error.text(); }
    EXPECT_EQ(api.fence_destroy(fence, error), QUERN_OK) << error.text();
    SampleTest::TearDown();
    unsetenv("FAKE_LATE");
    unsetenv("FAKE_REFUSED");
    std::filesystem::remove(pause + ".held");
  }

  quern_queue* new_queue() {
    quern_queue* made = nullptr;
    EXPECT_EQ(api.queue_create(device, QUERN_QUEUE_COMPUTE, &made, error), QUERN_OK) << error.text();
    queues.push_back(made);
    return made;
  }
  void hold() const { std::ofstream(pause).put('\n'); }
  void release() const { std::filesystem::remove(pause); }

  Ready copy_of(const quern_span& from, const quern_span& to) {
    GraphBuilder g;
    const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
    g.node(QUERN_OP_COPY, {x}, {y});
    const Ready made = ready(g, {{x, from}, {y, to}});
    EXPECT_EQ(made.prepared, QUERN_OK) << error.text();
    return made;
  }
  /// A run of an instance that is in flight, and its status.
  struct Flight {
    quern_run_status status = zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS);
    quern_point point = {};
  };
  quern_status submit_on(quern_queue* on, const Ready& r, Flight& flight) {
    queue = on;
    quern_run run = run_of(r);
    run.status = &flight.status;
    run.sync = next_point();
    flight.point = point;
    return submit(run);
  }
  quern_status wait_for(const Flight& flight, std::uint64_t nanoseconds = UINT64_MAX) {
    const quern_array points = {&flight.point, 1, sizeof flight.point};
    return api.fence_wait(device, &points, 0, nanoseconds, error);
  }

  const std::string pause = testing::TempDir() + "quern-cuda-queues-" + std::to_string(getpid());
  const std::vector<float> numbers = {1, 2, 3, 4}, zeros = std::vector<float>(4, 0);
  std::vector<quern_queue*> queues;
};

TEST_F(CudaQueues, RunsOnTwoAreInFlightTogetherAndACancelEndsOne) {
  const quern_span at_first = holding(zeros), at_second = holding(zeros);
  const Ready first = copy_of(holding(numbers), at_first), second = copy_of(holding(numbers), at_second);
  hold();
  Flight one, two;
  quern_queue* const other = new_queue();
  EXPECT_EQ(submit_on(queues[0], first, one), QUERN_OK) << error.text();
  EXPECT_EQ(submit_on(other, second, two), QUERN_OK) << error.text();
  EXPECT_EQ(wait_for(one, 1'000'000), QUERN_TIMEOUT);
  EXPECT_EQ(api.run_cancel(second.instance, nullptr), QUERN_OK);
  release();
  EXPECT_EQ(wait_for(two), QUERN_OK) << error.text();
  EXPECT_EQ(two.status.code, QUERN_CANCELLED);
  EXPECT_EQ(wait_for(one), QUERN_OK) << error.text();
  EXPECT_EQ(one.status.code, QUERN_OK);
  EXPECT_EQ(contents(at_first), numbers);
  EXPECT_EQ(submit_on(other, second, two), QUERN_OK) << error.text();  // the next run is free
  EXPECT_EQ(wait_for(two), QUERN_OK) << error.text();
  EXPECT_EQ(two.status.code, QUERN_OK);
  drop(first);
  drop(second);
}

TEST_F(CudaQueues, ADownloadHasWhatItsRunWroteThoughTheInstanceRanAgain) {
  const quern_span from = holding(numbers), to = holding(zeros);
  const Ready r = copy_of(from, to);
  const std::vector<float> others = {5, 6, 7, 8};
  std::vector<float> before(4), after(4);
  Flight first, second;
  hold();
  EXPECT_EQ(submit_on(queue, r, first), QUERN_OK) << error.text();
  EXPECT_EQ(api.download(device, queue, before.data(), &to, 16, nullptr, error), QUERN_OK) << error.text();
  EXPECT_EQ(submit_on(queue, r, second), QUERN_BUSY);  // one run is in flight
  release();
  EXPECT_EQ(wait_for(first), QUERN_OK) << error.text();
  EXPECT_EQ(api.upload(device, queue, &from, others.data(), 16, nullptr, error), QUERN_OK) << error.text();
  point.value = first.point.value;  // the refused run has taken no point
  EXPECT_EQ(submit_on(queue, r, second), QUERN_OK) << error.text();
  EXPECT_EQ(api.download(device, queue, after.data(), &to, 16, nullptr, error), QUERN_OK) << error.text();
  EXPECT_EQ(wait_for(second), QUERN_OK) << error.text();
  EXPECT_EQ(contents(to), others);  // behind both downloads
  EXPECT_EQ(before, numbers);
  EXPECT_EQ(after, others);
  drop(r);
}

TEST_F(CudaQueues, SmallWritesBetweenOtherWorkAreInFlightTogetherAndNoneWaitsForTheCard) {
  const quern_span place = holding(zeros);
  hold();
  setenv("FAKE_REFUSED", "cuEventSynchronize=999", 1);
  std::array<std::vector<float>, 12> seen;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::vector<float> written(4, static_cast<float>(i));
    seen[i] = zeros;
    EXPECT_EQ(api.upload(device, queue, &place, written.data(), place.bytes, next_point(), error), QUERN_OK) << error.text();
    EXPECT_EQ(api.download(device, queue, seen[i].data(), &place, place.bytes, next_point(), error), QUERN_OK) << i << ": " << error.text();
  }
  unsetenv("FAKE_REFUSED");
  release();
  EXPECT_EQ(done(QUERN_OK), QUERN_OK) << error.text();
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], std::vector<float>(4, static_cast<float>(i)));
}

TEST_F(CudaQueues, WhatWasWaitedForOnOneIsSeenByTheOther) {
  quern_queue* const other = new_queue();
  for (const std::size_t count : {4u, 100u, 40'000u, 600'000u}) {  // small writes, and through pinned memory
    std::vector<float> sent(count), found(count);
    for (std::size_t i = 0; i < count; ++i) sent[i] = static_cast<float>(i % 1000);
    queue = queues[0];
    const quern_span place = holding(sent);
    queue = other;
    EXPECT_EQ(contents(place), sent) << count;
  }
}

TEST_F(CudaQueues, AQueueThatWasGivenBackServesTheNextOne) {
  std::vector<float> sent(40'000, 1.5F);  // its download goes through pinned memory
  const quern_span place = holding(sent);
  EXPECT_EQ(contents(place), sent);
  ASSERT_EQ(api.queue_destroy(queue, error), QUERN_OK) << error.text();
  queues.clear();
  setenv("FAKE_REFUSED", "cuMemHostAlloc=2", 1);  // what there is serves
  queue = new_queue();
  EXPECT_EQ(contents(place), sent);
  unsetenv("FAKE_REFUSED");
}

TEST_F(CudaQueues, WorkInFlightKeepsWhatItNamesAndAWaitFreesIt) {
  const quern_span to = holding(zeros);
  const Ready r = copy_of(holding(numbers), to);
  hold();
  Flight flight;
  EXPECT_EQ(submit_on(queue, r, flight), QUERN_OK) << error.text();
  EXPECT_EQ(api.buffer_destroy(to.buffer, error), QUERN_BUSY);
  EXPECT_EQ(api.instance_destroy(r.instance, error), QUERN_BUSY);
  EXPECT_EQ(api.queue_destroy(queue, error), QUERN_BUSY);
  EXPECT_EQ(api.fence_destroy(fence, error), QUERN_BUSY);
  release();
  EXPECT_EQ(wait_for(flight), QUERN_OK) << error.text();
  drop(r);
}

TEST_F(CudaQueues, ALostCardEndsWhatIsInFlightAndEverythingCanBeGivenBack) {
  const quern_span to = holding(zeros);
  const Ready r = copy_of(holding(numbers), to);
  setenv("FAKE_REFUSED", "cuEventQuery=700", 1);  // an illegal address
  Flight flight;
  EXPECT_EQ(submit_on(queue, r, flight), QUERN_OK) << error.text();
  EXPECT_EQ(wait_for(flight), QUERN_DEVICE_LOST);
  EXPECT_EQ(flight.status.code, QUERN_DEVICE_LOST);
  drop(r);
}

TEST_F(CudaQueues, ARefusedKernelIsItsRunsFailureAndItsDependantsFail) {
  const quern_span to = holding(zeros), other = holding(zeros);
  const Ready first = copy_of(holding(numbers), to), second = copy_of(to, other);
  setenv("FAKE_REFUSED", "cuMemcpyHtoDAsync_v2=999", 1);  // of the page of small writes
  quern_run_status statuses[2] = {zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS), zeroed<quern_run_status>(QUERN_TYPE_RUN_STATUS)};
  quern_run runs[2] = {run_of(first), run_of(second)};
  for (int i = 0; i < 2; ++i) runs[i].status = &statuses[i];
  runs[1].sync = next_point();
  const quern_array list = {runs, 2, sizeof runs[0]};
  EXPECT_EQ(done(api.submit(device, queue, &list, error)), QUERN_OK) << error.text();
  EXPECT_EQ(statuses[0].code, QUERN_INTERNAL);
  EXPECT_EQ(statuses[1].code, QUERN_DEPENDENCY_FAILED);
  unsetenv("FAKE_REFUSED");
  EXPECT_EQ(contents(other), zeros);
  drop(first);
  drop(second);
}

TEST_F(CudaQueues, ARunThatWaitsKeepsItsBoundsThoughAnotherOfItsInstanceIsRefused) {
  GraphBuilder g;
  const auto x = g.value(QUERN_VALUE_INPUT, {4}), y = g.value(QUERN_VALUE_OUTPUT, {4});
  const auto rows = g.range(x, 0, 1);
  g.use(y, 0, rows);
  g.node(QUERN_OP_COPY, {x}, {y});
  const quern_span to = holding(zeros);
  const Ready r = ready(g, {{x, holding(numbers)}, {y, to}});
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  quern_fence* gate = nullptr;
  ASSERT_EQ(api.fence_create(device, 0, QUERN_FENCE_HOST_SIGNAL, &gate, error), QUERN_OK) << error.text();
  const quern_point opened = {gate, 1};
  quern_run run = run_of(r);
  next_point();
  sync.wait = {&opened, 1, sizeof opened};
  run.sync = &sync;
  EXPECT_EQ(submit(run), QUERN_OK) << error.text();
  const quern_bound two = {rows, 0, 2};
  quern_run fewer = run_of(r);
  fewer.bounds = {&two, 1, sizeof two};
  EXPECT_EQ(submit(fewer), QUERN_BUSY);
  EXPECT_EQ(api.fence_signal(gate, 1, error), QUERN_OK) << error.text();
  EXPECT_EQ(done(QUERN_OK), QUERN_OK) << error.text();
  EXPECT_EQ(contents(to), numbers);
  EXPECT_EQ(api.fence_destroy(gate, error), QUERN_OK) << error.text();
  drop(r);
}

std::uint64_t caps_for(std::uint32_t minor) {
  Host host;
  host.table.abi_minor = minor;
  Error error;
  quern_query query = zeroed<quern_query>(QUERN_TYPE_QUERY);
  query.abi_minor = minor;
  quern_plugin_api api = zeroed<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  quern_plugin* plugin = nullptr;
  quern_device_info info = zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  EXPECT_EQ(sample_query()(&query, &api, error), QUERN_OK) << error.text();
  EXPECT_EQ(api.create(&host.table, &plugin, error), QUERN_OK) << error.text();
  EXPECT_EQ(api.device_info(plugin, 0, &info, error), QUERN_OK) << error.text();
  api.destroy(plugin);
  return info.caps;
}

TEST(CudaCaps, SayThatCallsWaitToAHostThatMakesNoQueuesAlone) {
  EXPECT_EQ(caps_for(0) & QUERN_CAP_SYNCHRONOUS, std::uint64_t{QUERN_CAP_SYNCHRONOUS});
  EXPECT_EQ(caps_for(1) & QUERN_CAP_SYNCHRONOUS, 0u);
}

}  // namespace
