// A call ends with the step that it waits for, however many are in flight behind that one: after a cancel, and where a callback ends the answer.
//
// Steps are counted, not timed. The device's queue does nothing that nobody waits for, and each run is counted as it begins. So the test knows
// what was in flight when the cancel came, and what was computed until the call returned. The plugin ends the process where the runtime destroys
// what is in flight.
#include "api_support.hpp"
#include "hanging_run.hpp"
#include "support/test_clock.hpp"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 50, 51, 52};
// One of the prompt, one alone that says what a step takes; then each has three behind it.
constexpr std::size_t first_with_followers = 3;

/// The runs of a queue: told as they are submitted, and asked for leave before they begin.
class Steps {
 public:
  struct Count {
    std::size_t submitted = 0, begun = 0;
  };

  Steps() {
    EXPECT_EQ(::pipe(told_), 0);
    EXPECT_EQ(::pipe(allowed_), 0);
    thread_ = std::thread([this] { watch(); });
  }
  ~Steps() {
    ::close(told_[1]);
    thread_.join();
    for (const int end : {told_[0], allowed_[0], allowed_[1]}) ::close(end);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  /// With a queue that is watched.
  Handle<quern_session> session(quern_model* model) const {
    const std::string pipes = std::to_string(told_[1]) + "," + std::to_string(allowed_[0]);
    ::setenv("QUERN_TEST_STEPS", pipes.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
    auto made = make_session(model, {.struct_size = 0, .sequences = 2});
    ::unsetenv("QUERN_TEST_STEPS");  // NOLINT(concurrency-mt-unsafe)
    return made;
  }
  /// Counts from 0 again. `call` is made as run `number` begins, from another thread.
  void restart(std::size_t number = 0, std::function<void()> call = {}) {
    const std::scoped_lock lock(mutex_);
    count_ = {};
    number_ = number;
    call_ = std::move(call);
  }
  Count count() const {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  void watch() {
    for (char event = 0; ::read(told_[0], &event, 1) == 1;) {
      std::function<void()> call;
      {
        const std::scoped_lock lock(mutex_);
        ++(event == 's' ? count_.submitted : count_.begun);
        if (event == 'b' && count_.begun == number_) call = call_;
      }
      if (call) call();
      if (event == 'b') EXPECT_EQ(::write(allowed_[1], "", 1), 1);
    }
  }

  int told_[2] = {-1, -1}, allowed_[2] = {-1, -1};
  mutable std::mutex mutex_;
  Count count_;
  std::size_t number_ = 0;
  std::function<void()> call_;
  std::thread thread_;
};

class QueueCancel : public testing::Test {
 protected:
  static Handle<quern_runtime> queued() {
    quern_runtime_options options{};
    options.backend = "queued";
    options.backend_extra_path = QUERN_QUEUED_DIRECTORY;
    return make_runtime(options);
  }
  void SetUp() override { clock.step(std::chrono::nanoseconds(100)); }  // so a step takes microseconds, however busy the machine is

  Handle<quern_runtime> runtime = queued();
  Handle<quern_model> model = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 256, .sequences = 2});
  const std::vector<std::int32_t> all = draw(make_session(model.get()).get(), request(prompt, 0, 40));
  Steps steps;
  Handle<quern_session> session = steps.session(model.get());
  TestClock clock;

  std::vector<std::int32_t> first(std::size_t tokens) const { return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(tokens)}; }
  std::uint64_t length(std::uint32_t sequence = 0) const {
    std::uint64_t held = 0;
    EXPECT_EQ(quern_sequence_length(session.get(), sequence, &held), QUERN_OK);
    return held;
  }
  void ends_with_the_step_in_flight();
  /// Cancels as run `number` begins; returns how many runs were submitted behind it.
  std::size_t cancel_in_run(std::size_t number) {
    Steps::Count then;
    steps.restart(number, [&] {
      then = steps.count();
      quern_cancel(session.get());
    });
    const std::vector<std::int32_t> ids = draw(session.get(), request(prompt, 0, 100));
    EXPECT_GE(ids.size() + 1, number);
    EXPECT_LE(ids.size(), number);
    EXPECT_EQ(ids, first(ids.size()));
    EXPECT_EQ(length(), prompt.size() + ids.size() - 1);  // the last token is not read yet
    EXPECT_EQ(then.begun, number);
    EXPECT_EQ(steps.count().begun, number) << "a step began behind the cancel";
    return then.submitted - then.begun;
  }
};

/// Names a setting of the plugin for as long as it lives. No other thread reads it then.
class Setting {
 public:
  explicit Setting(const char* name) : name_(name) { ::setenv(name, "1", 1); }  // NOLINT(concurrency-mt-unsafe)
  ~Setting() { ::unsetenv(name_); }                                             // NOLINT(concurrency-mt-unsafe)

 private:
  const char* name_;
};

TEST_F(QueueCancel, TheCallEndsWithTheStepInFlight) { ends_with_the_step_in_flight(); }

TEST_F(QueueCancel, TheCallEndsWithTheStepInFlightWhereNoRunHearsOfIt) {
  const Setting deaf("QUERN_TEST_DEAF");
  ends_with_the_step_in_flight();
}

void QueueCancel::ends_with_the_step_in_flight() {
  for (const std::size_t number : {first_with_followers, first_with_followers + 1, first_with_followers + 7}) {
    ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
    const std::size_t behind = cancel_in_run(number);
    EXPECT_EQ(behind, number == first_with_followers ? 3u : 2u);
    steps.restart();
    EXPECT_EQ(draw(session.get(), request(prompt, 0, 40)), all) << "after a cancel";
    EXPECT_EQ(steps.count().begun, behind + 40u);  // those that were left have ended before
  }
}

struct Stop {
  quern_session* session;  // cancelled; null: the callback ends the answer
  std::size_t after, seen = 0;
  static int take(void* user, const quern_token_event* event) {
    auto& stop = *static_cast<Stop*>(user);
    if (event->token < 0 || ++stop.seen != stop.after) return 0;
    if (stop.session == nullptr) return 1;
    quern_cancel(stop.session);
    return 0;
  }
};

TEST_F(QueueCancel, NoStepBeginsBehindAnEndInTheCallback) {
  for (const bool cancels : {true, false})
    for (const std::size_t after : {1u, 2u, 3u, 9u}) {
      ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
      Stop stop{cancels ? session.get() : nullptr, after};
      quern_request r = request(prompt, 0, 100);
      r.on_token = Stop::take;
      r.user = &stop;
      steps.restart();
      EXPECT_EQ(draw(session.get(), r), first(after));
      EXPECT_EQ(steps.count().begun, after);
      EXPECT_EQ(draw(session.get(), request(prompt, 0, 40)), all) << "after an end";
      EXPECT_EQ(steps.count().begun, after + (after < first_with_followers ? 0 : 3) + 40);
    }
}

TEST_F(QueueCancel, WhatTheSequenceHoldsIsWholeWhileStepsAreInFlight) {
  EXPECT_EQ(cancel_in_run(10), 2u);
  ASSERT_EQ(quern_sequence_copy(session.get(), 0, 1), QUERN_OK) << quern_last_error();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_session_save(session.get(), nullptr, 0, &bytes), QUERN_OK) << quern_last_error();
  std::vector<std::byte> saved(bytes);
  ASSERT_EQ(quern_session_save(session.get(), saved.data(), bytes, &bytes), QUERN_OK) << quern_last_error();
  const std::vector<std::int32_t> last{all[8]};
  const auto other = make_session(model.get(), {.struct_size = 0, .sequences = 2});
  ASSERT_EQ(quern_session_restore(other.get(), saved.data(), bytes), QUERN_OK) << quern_last_error();
  for (quern_session* held_by : {session.get(), other.get()})
    for (const std::uint32_t sequence : {0u, 1u}) {
      quern_request more = request(last, sequence, 31);
      more.flags = QUERN_REQUEST_APPEND;
      EXPECT_EQ(draw(held_by, more), std::vector<std::int32_t>(all.begin() + 9, all.end())) << sequence;
    }
}

TEST_F(QueueCancel, ARestoredSessionIsNotChangedByStepsInFlight) {
  ASSERT_EQ(draw(session.get(), request(prompt, 0, 20)), first(20));
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_session_save(session.get(), nullptr, 0, &bytes), QUERN_OK) << quern_last_error();
  std::vector<std::byte> saved(bytes);
  ASSERT_EQ(quern_session_save(session.get(), saved.data(), bytes, &bytes), QUERN_OK) << quern_last_error();
  ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
  EXPECT_EQ(cancel_in_run(6), 2u);
  ASSERT_EQ(quern_session_restore(session.get(), saved.data(), bytes), QUERN_OK) << quern_last_error();
  const std::vector<std::int32_t> last{all[19]};
  quern_request more = request(last, 0, 20);
  more.flags = QUERN_REQUEST_APPEND;
  EXPECT_EQ(draw(session.get(), more), std::vector<std::int32_t>(all.begin() + 20, all.end()));
}

TEST_F(QueueCancel, AReleaseWaitsForStepsInFlight) {
  EXPECT_EQ(cancel_in_run(10), 2u);
  session.reset();
  EXPECT_EQ(steps.count().begun, 12u);
}

TEST_F(QueueCancel, ADeviceThatDoesNotEndThemIsLostAMinuteLater) {
  EXPECT_EQ(cancel_in_run(10), 2u);
  const HangingRun hanging;
  clock.step(std::chrono::seconds(5));
  const quern_request r = request(prompt, 0, 4);
  quern_generation* generation = nullptr;
  EXPECT_EQ(quern_generate(session.get(), &r, 1, &generation), QUERN_DEVICE_LOST);
  EXPECT_STREQ(quern_last_error(), "queued:0: it counts as lost, since it did not end what it was given; end the program");
}

}  // namespace
}  // namespace quern::test
