// After fork() the child has its parent's handles and none of its threads.
#include "every_call.hpp"
#include "in_child.hpp"

#include "quern/quern_sanitizer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <thread>

namespace quern::test {
namespace {

bool told(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "in the child: %s: %s\n", what, quern_last_error());
  return right;
}

/// What a child does that wants to compute: its own runtime, model and session give the parent's answer.
bool computes_anew(const World& w, const std::vector<std::int32_t>& expected) {
  World own;
  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  options.backend = "cpu";
  options.threads = 2;
  const quern_model_options model = small_model();
  if (!told(quern_runtime_create(&options, &own.runtime) == QUERN_OK, "quern_runtime_create")) return false;
  if (!told(quern_model_load(own.runtime, w.model_file.c_str(), &model, &own.model) == QUERN_OK, "quern_model_load")) return false;
  if (!told(quern_session_create(own.model, nullptr, &own.session) == QUERN_OK, "quern_session_create")) return false;
  const bool right = told(draw(own.session, request(some_ids(), 0, 3)) == expected, "another answer than the parent's");
  release_world(own);
  return right;
}

TEST(Fork, AChildReleasesItsParentsHandlesAndComputesWithItsOwn) {
  if (QUERN_SANITIZER == 2) GTEST_SKIP() << "this sanitizer ends a child that starts threads";
  OwnedWorld w;
  const std::vector<std::int32_t> expected = ids_of(w.generation, 0);
  EXPECT_EQ(in_child(20,
                     [&] {
                       release_world(w);
                       return computes_anew(w, expected);
                     }),
            0);
  EXPECT_EQ(in_child(20,
                     [&] {
                       const bool right = computes_anew(w, expected);
                       release_world(w);
                       return right;
                     }),
            0);
  EXPECT_EQ(draw(w.session, request(some_ids(), 0, 3)), expected);  // the parent's are as they were
}

TEST(Fork, EveryCallOnAHandleOfTheParentAnswersForked) {
  ASSERT_EQ(calls_that_lack(), std::vector<std::string>{});
  OwnedWorld w;
  EXPECT_EQ(in_child(20,
                     [&] {
                       bool right = true;
                       for (const ApiCall& call : every_call()) {
                         const quern_status status = call.call(w);
                         const quern_status expected = call.works == Works::on_owner ? QUERN_FORKED : QUERN_OK;
                         right &= told(status == expected, call.name);
                         if (expected == QUERN_FORKED)
                           right &= told(std::strstr(quern_last_error(), "before fork()") != nullptr, call.name);
                       }
                       release_world(w);
                       return right;
                     }),
            0);
}

TEST(Fork, AGrandchildReleasesToo) {
  OwnedWorld w;
  EXPECT_EQ(in_child(20,
                     [&] {
                       return in_child(20, [&] {
                                release_world(w);
                                return true;
                              }) == 0;
                     }),
            0);
}

/// What threads may be in the middle of when another one forks.
class Busy {
 public:
  template <typename Work>
  explicit Busy(const Work& work) {
    for (int i = 0; i < 2; ++i)
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

constexpr int forks = 12;

TEST(Fork, AChildNeverWaitsForWhatAnotherThreadHeld) {
  if (QUERN_SANITIZER != 0) GTEST_SKIP() << "a sanitizer's allocator has locks that another thread may hold at a fork";
  OwnedWorld w;
  const std::vector<std::int32_t> expected = ids_of(w.generation, 0);
  const auto fork_many = [&](const char* beside) {
    for (int i = 0; i < forks; ++i) {
      ASSERT_EQ(in_child(20,
                         [&] {
                           for (const ApiCall& call : every_call())
                             if (call.works == Works::on_memory) (void)call.call(w);  // a vocabulary has no lock
                           release_world(w);
                           return i % 4 != 0 || computes_anew(w, expected);
                         }),
                0)
          << "beside threads that " << beside;
    }
  };
  {
    const Busy busy([&] { draw(make_session(w.model).get(), request(some_ids(), 0, 8)); });
    fork_many("generate");
  }
  {
    const Busy busy([&] {
      quern_vocabulary* words = nullptr;
      ASSERT_EQ(quern_vocabulary_open(w.model_file.c_str(), &words), QUERN_OK);
      World one;
      one.vocabulary = words;
      for (const ApiCall& call : every_call())
        if (std::strstr(call.name, "token") != nullptr && call.works == Works::on_memory) (void)call.call(one);
      quern_vocabulary_release(words);
    });
    fork_many("tokenise");
  }
  {
    const Busy busy([&] {
      World one;
      for (const ApiCall& call : every_call())
        if (std::strcmp(call.name, "quern_runtime_create") == 0) (void)call.call(one);
    });
    fork_many("make runtimes");
  }
}

struct Forking {
  bool is_child = false;
};

/// Forks once; the child comes back from the callback as the parent does.
bool fork_here(Forking& state) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    state.is_child = true;
    return true;
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return false;
}

TEST(Fork, AChildThatReturnsFromACallbackEndsItsParentsCallWithForked) {
  OwnedWorld w;
  {
    Forking state;
    quern_request one = request(some_ids(), 0, 3);
    one.user = &state;
    one.on_token = [](void* user, const quern_token_event*) { return fork_here(*static_cast<Forking*>(user)), 0; };
    quern_generation* generation = nullptr;
    const quern_status status = quern_generate(w.session, &one, 1, &generation);
    if (state.is_child) {
      const bool right = told(status == QUERN_FORKED && generation == nullptr, "quern_generate");
      release_world(w);
      _exit(right ? 0 : 1);
    }
    EXPECT_EQ(status, QUERN_OK) << quern_last_error();
    quern_generation_release(generation);
  }
  {
    Forking state;
    quern_model_options options = small_model();
    options.progress_user = &state;
    options.progress = [](void* user, std::uint64_t, std::uint64_t) { return fork_here(*static_cast<Forking*>(user)), 0; };
    quern_model* model = nullptr;
    const quern_status status = quern_model_load(w.runtime, w.model_file.c_str(), &options, &model);
    if (state.is_child) {
      const bool right = told(status == QUERN_FORKED && model == nullptr, "quern_model_load");
      release_world(w);
      _exit(right ? 0 : 1);
    }
    EXPECT_EQ(status, QUERN_OK) << quern_last_error();
    quern_model_release(model);
  }
}

}  // namespace
}  // namespace quern::test
