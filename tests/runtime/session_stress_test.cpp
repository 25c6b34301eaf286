// 64 sessions, created, used and destroyed over 8 threads at the same time. Meant for ThreadSanitizer (the tsan preset); it also runs
// without.
#include "api_support.hpp"

#include <atomic>
#include <thread>

namespace quern::test {
namespace {

constexpr int threads = 8, sessions_each = 8;
const std::vector<std::int32_t> prompt{1, 40, 41, 42, 43};

struct Failures {
  std::atomic<int> count{0};
  std::mutex mutex;
  std::string first;
  void add(const std::string& what) {
    const std::scoped_lock lock(mutex);
    if (count++ == 0) first = what + ": " + quern_last_error();
  }
};

/// One session's life; every other one saves and restores, every third is cancelled from another thread while it generates.
void live(quern_model* model, const std::vector<std::int32_t>& expected, int number, Failures& failures) {
  quern_session* session = nullptr;
  if (quern_session_create(model, nullptr, &session) != QUERN_OK) return failures.add("create");
  const Handle<quern_session> owner(session);
  if (number % 3 == 0) {
    std::thread canceller([&] { quern_cancel(session); });
    quern_generation* generation = nullptr;
    const quern_request r = request(prompt, 0, 20);
    if (quern_generate(session, &r, 1, &generation) != QUERN_OK) failures.add("a cancelled generate");
    canceller.join();
    quern_generation_release(generation);
    if (quern_sequence_truncate(session, 0, 0) != QUERN_OK) failures.add("truncate");
  }
  quern_generation* generation = nullptr;
  const quern_request r = request(prompt, 0, 6);
  if (quern_generate(session, &r, 1, &generation) != QUERN_OK) return failures.add("generate");
  const Handle<quern_generation> answers(generation);
  if (ids_of(generation, 0) != expected) failures.add("other ids than alone");
  if (number % 2 == 0) {
    std::uint64_t needed = 0;
    if (quern_session_save(session, nullptr, 0, &needed) != QUERN_OK) return failures.add("save");
    std::vector<char> state(needed);
    if (quern_session_save(session, state.data(), state.size(), &needed) != QUERN_OK) return failures.add("save");
    if (quern_session_restore(session, state.data(), state.size()) != QUERN_OK) failures.add("restore");
  }
  quern_statistics* statistics = nullptr;
  if (quern_session_statistics(session, &statistics) != QUERN_OK) failures.add("statistics");
  quern_statistics_release(statistics);
}

TEST(SessionStress, SixtyFourSessionsOverEightThreads) {
  quern_runtime_options options{};
  options.threads = 2;
  options.backend = "cpu";
  const auto runtime = make_runtime(options);
  const auto model = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 64});
  std::vector<std::int32_t> expected;
  {
    const auto alone = make_session(model.get());
    expected = draw(alone.get(), request(prompt, 0, 6));
  }
  ASSERT_EQ(expected.size(), 6u);
  Failures failures;
  std::atomic<int> done{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (int s = 0; s < sessions_each; ++s, ++done) live(model.get(), expected, t * sessions_each + s, failures);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(done, threads * sessions_each);
  EXPECT_EQ(failures.count, 0) << failures.first;
}

TEST(SessionStress, RuntimesModelsAndSessionsOfManyThreads) {
  // Each thread has a runtime of its own, and gives everything back in another order than it made it.
  Failures failures;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      quern_runtime_options options{};
      options.struct_size = sizeof options;
      options.ignore_environment = 1;
      options.threads = 1;
      options.backend = "cpu";
      quern_runtime* runtime = nullptr;
      if (quern_runtime_create(&options, &runtime) != QUERN_OK) return failures.add("runtime");
      quern_model* model = nullptr;
      if (quern_model_load(runtime, model_path("micro-llama-q8_0.gguf").c_str(), nullptr, &model) != QUERN_OK) failures.add("load");
      quern_session* session = nullptr;
      if (model != nullptr && quern_session_create(model, nullptr, &session) != QUERN_OK) failures.add("session");
      quern_runtime_release(runtime);
      quern_model_release(model);
      if (session != nullptr && draw(session, request(prompt, 0, 3)).size() != 3) failures.add("generate");
      quern_session_release(session);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(failures.count, 0) << failures.first;
}

}  // namespace
}  // namespace quern::test
