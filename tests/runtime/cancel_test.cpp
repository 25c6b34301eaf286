// A cancel reaches the run in flight: a step of a long prompt takes seconds on a CPU.
#include "api_support.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 40, 41, 42, 43};

TEST(Cancel, EndsTheStepInFlightAndLeavesTheSequenceAsItWas) {
  quern_runtime_options options{};
  options.threads = 1;
  options.backend = "waiting";
  options.backend_extra_path = QUERN_WAITING_DIRECTORY;
  const auto runtime = make_runtime(options);
  const auto model = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 64});
  ASSERT_NE(model, nullptr);
  const auto session = make_session(model.get());
  const std::vector<std::int32_t> expected = draw(make_session(model.get()).get(), request(prompt, 0, 4));
  ASSERT_EQ(expected.size(), 4u);

  int begun[2] = {-1, -1};  // the plugin's runs put a byte in, and last until they are cancelled
  ASSERT_EQ(::pipe(begun), 0);
  ::setenv("QUERN_TEST_WAIT", std::to_string(begun[1]).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
  std::thread canceller([&] {
    char byte = 0;
    EXPECT_EQ(::read(begun[0], &byte, 1), 1);
    quern_cancel(session.get());
  });
  const quern_request r = request(prompt, 0, 1);
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(session.get(), &r, 1, &generation), QUERN_OK) << quern_last_error();
  canceller.join();
  ::unsetenv("QUERN_TEST_WAIT");  // NOLINT(concurrency-mt-unsafe)
  for (const int end : begun) ::close(end);
  const Handle<quern_generation> owner(generation);
  quern_answer_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_generation_answer(generation, 0, &info), QUERN_OK);
  EXPECT_EQ(info.finish, QUERN_FINISH_CANCELLED);
  EXPECT_EQ(info.id_count, 0u);
  std::uint64_t length = 0;
  ASSERT_EQ(quern_sequence_length(session.get(), 0, &length), QUERN_OK);
  EXPECT_EQ(length, 0u);
  EXPECT_EQ(draw(session.get(), request(prompt, 0, 4)), expected);
}

}  // namespace
}  // namespace quern::test
