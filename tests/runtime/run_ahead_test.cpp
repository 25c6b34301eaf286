// Steps that a device is given before the host has seen what the one before drew: answers are those of steps one by one.
//
// The devices are the CPU backend behind buffers, and the same behind queues, where each token comes as its own step is done. A request for logprobs reads the logits of each step, so that none follows another: what
// it draws is what the others are compared with.
#include "api_support.hpp"

#include "support/test_clock.hpp"

#include <cstdlib>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 50, 51, 52};

quern_runtime_options of_backend(const char* backend) {
  quern_runtime_options options{};
  options.backend = backend;
  options.backend_extra_path = QUERN_BUFFERED_DIRECTORY ":" QUERN_QUEUED_DIRECTORY;
  return options;
}

class RunAhead : public testing::TestWithParam<const char*> {
 protected:
  Handle<quern_runtime> runtime = make_runtime(of_backend(GetParam()));
  Handle<quern_model> model = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 128, .sequences = 2});
  Handle<quern_session> session = make_session(model.get(), {.struct_size = 0, .sequences = 2});

  std::vector<std::int32_t> one_by_one(quern_request r) {
    r.logprobs = 1;
    return draw(make_session(model.get(), {.struct_size = 0, .sequences = 2}).get(), r);
  }
  std::uint64_t length(std::uint32_t sequence = 0) {
    std::uint64_t held = 0;
    EXPECT_EQ(quern_sequence_length(session.get(), sequence, &held), QUERN_OK);
    return held;
  }
  std::string trace() {
    quern_text* text = nullptr;
    EXPECT_EQ(quern_session_trace_json(session.get(), &text), QUERN_OK);
    const Handle<quern_text> owner(text);
    return text == nullptr ? "" : quern_text_data(text);
  }
};

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST_P(RunAhead, AnswersAreThoseOfStepsOneByOne) {
  quern_sampling warm{};
  warm.struct_size = sizeof warm;
  warm.temperature = 0.9f;
  warm.seed = 7;
  for (const quern_sampling* sampling : {static_cast<const quern_sampling*>(nullptr), static_cast<const quern_sampling*>(&warm)})
    for (const std::uint64_t tokens : {1, 2, 3, 5, 6, 40}) {
      quern_request r = request(prompt, 0, tokens);
      r.sampling = sampling;
      ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
      EXPECT_EQ(draw(session.get(), r), one_by_one(r)) << tokens << (sampling == nullptr ? " greedy" : " sampled");
      EXPECT_EQ(length(), prompt.size() + tokens - 1);
    }
}

TEST_P(RunAhead, FourStepsAreInFlight) {
  ASSERT_EQ(quern_session_trace_start(session.get()), QUERN_OK);
  const TestClock clock;
  clock.step(std::chrono::nanoseconds(100));  // so a step of one row takes microseconds, however busy the machine is
  const std::vector<std::int32_t> ids =
      draw(session.get(), request(prompt, 0, 102));  // the prompt's, one alone that says what a step takes, 25 times four
  ASSERT_EQ(ids.size(), 102u);
  const std::string events = trace();
  if (GetParam() == std::string_view("buffered")) {  // one submit
    EXPECT_EQ(count(events, R"("followers": 3)"), 25u) << events;
    EXPECT_EQ(count(events, R"("runs": 4)"), 25u) << events;
  } else {  // a step with three behind it, and then one goes behind each that is done
    EXPECT_EQ(count(events, R"("followers": 3)"), 1u) << events;
    EXPECT_EQ(count(events, R"("runs": 1)"), 102u) << events;
    EXPECT_EQ(count(events, R"("name": "decode step")"), 101u) << events;
  }
  EXPECT_EQ(count(events, R"("name": "run )"), count(events, R"("submits": 1)")) << events;
}

TEST_P(RunAhead, PenaltiesAndLogprobsWantTheHostBetweenSteps) {
  quern_sampling penalised{};
  penalised.struct_size = sizeof penalised;
  penalised.repeat_penalty = 1.3f;
  ASSERT_EQ(quern_session_trace_start(session.get()), QUERN_OK);
  quern_request r = request(prompt, 0, 10);
  r.sampling = &penalised;
  draw(session.get(), r);
  r = request(prompt, 1, 10);
  r.logprobs = 2;
  draw(session.get(), r);
  const std::string events = trace();
  EXPECT_EQ(count(events, R"("followers": 0)"), count(events, R"("followers": )")) << events;
}

struct Stop {
  std::size_t after, seen = 0;
  static int take(void* user, const quern_token_event* event) {
    auto& stop = *static_cast<Stop*>(user);
    return event->token >= 0 && ++stop.seen >= stop.after ? 1 : 0;
  }
};

TEST_P(RunAhead, AnAnswerThatEndsWithinAGroupLeavesNothingOfTheRest) {
  const std::vector<std::int32_t> all = one_by_one(request(prompt, 0, 60));
  for (const std::size_t after : {3u, 4u, 5u, 6u, 7u}) {
    ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
    Stop stop{after};
    quern_request r = request(prompt, 0, 60);
    r.on_token = Stop::take;
    r.user = &stop;
    const std::vector<std::int32_t> ids = draw(session.get(), r);
    ASSERT_EQ(ids, std::vector<std::int32_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(after)));
    EXPECT_EQ(length(), prompt.size() + after - 1);
    std::uint64_t bytes = 0;  // a saved state has the pages of what is held, no more
    ASSERT_EQ(quern_session_save(session.get(), nullptr, 0, &bytes), QUERN_OK) << quern_last_error();
    std::vector<std::byte> saved(bytes);
    ASSERT_EQ(quern_session_save(session.get(), saved.data(), bytes, &bytes), QUERN_OK) << quern_last_error();
    ASSERT_EQ(quern_session_restore(session.get(), saved.data(), bytes), QUERN_OK) << quern_last_error();
    const std::vector<std::int32_t> last{ids.back()};
    quern_request more = request(last, 0, 20);
    more.flags = QUERN_REQUEST_APPEND;
    EXPECT_EQ(draw(session.get(), more), std::vector<std::int32_t>(all.begin() + static_cast<std::ptrdiff_t>(after),
                                                                   all.begin() + static_cast<std::ptrdiff_t>(after) + 20));
  }
}

TEST_P(RunAhead, TheContextEndsWhereItDoes) {
  quern_request r = request(prompt, 0, 0);
  const std::vector<std::int32_t> ids = draw(session.get(), r);
  EXPECT_EQ(ids.size(), 128 - prompt.size() + 1);
  EXPECT_EQ(ids, one_by_one(r));
}

TEST_P(RunAhead, AFailedFollowerFailsTheCallAndLeavesTheSequenceWhole) {
  const std::vector<std::int32_t> all = one_by_one(request(prompt, 0, 20));
  const TestClock clock;
  clock.step(std::chrono::nanoseconds(100));
  ::setenv("QUERN_TEST_FAIL_FOLLOWERS", "1", 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
  const quern_request r = request(prompt, 0, 20);
  quern_generation* generation = nullptr;
  EXPECT_EQ(quern_generate(session.get(), &r, 1, &generation), QUERN_INTERNAL);
  ::unsetenv("QUERN_TEST_FAIL_FOLLOWERS");  // NOLINT(concurrency-mt-unsafe)
  // What was computed one by one, and behind queues the step that was done before its follower failed.
  EXPECT_EQ(length(), prompt.size() + (GetParam() == std::string_view("queued") ? 2 : 1));
  EXPECT_EQ(draw(session.get(), r), all);
}

INSTANTIATE_TEST_SUITE_P(On, RunAhead, testing::Values("buffered", "queued"), [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace quern::test
