// Every function of the C API called in every kind of callback, on the handle that called back and on others: a status, and never a wait for
// oneself.
#include "every_call.hpp"

#include <sys/file.h>

#include <fcntl.h>
#include <unistd.h>

#include <map>

namespace quern::test {
namespace {

/// What calls in a callback answered, by name.
using Answers = std::map<std::string, quern_status>;

Answers call_all(World& w) {
  Answers answers;
  for (const ApiCall& call : every_call()) answers[call.name] = call.call(w);
  return answers;
}

struct Inside {
  World* world = nullptr;
  Answers answers;
  bool done = false;
  std::string busy;  // the sentence of quern_model_load

  void once() {
    if (done || world == nullptr) return;
    done = true;
    answers = call_all(*world);
    quern_model* model = nullptr;
    if (quern_model_load(world->runtime, world->model_file.c_str(), nullptr, &model) != QUERN_OK) busy = quern_last_error();
    quern_model_release(model);
  }
};

/// All but these answered QUERN_OK, and these QUERN_BUSY.
void expect_busy(const Inside& inside, const std::set<std::string>& busy, const std::string& where) {
  ASSERT_TRUE(inside.done) << where;
  ASSERT_EQ(inside.answers.size(), every_call().size());
  for (const auto& [name, status] : inside.answers)
    EXPECT_STREQ(quern_status_name(status), quern_status_name(busy.contains(name) ? QUERN_BUSY : QUERN_OK)) << name << " in " << where;
}

int load_progress(void* user, std::uint64_t, std::uint64_t) {
  static_cast<Inside*>(user)->once();
  return 0;
}

/// Calls that take a turn on a session.
const std::set<std::string> of_the_session{"quern_sequence_truncate",  "quern_sequence_copy",
                                           "quern_generate",           "quern_evaluate",
                                           "quern_evaluate_with",      "quern_embed",
                                           "quern_session_save",       "quern_session_save_file",
                                           "quern_session_restore",    "quern_session_restore_file",
                                           "quern_session_statistics", "quern_session_trace_start",
                                           "quern_session_trace_json", "quern_session_use_adapter"};

class Callbacks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(calls_that_lack(), std::vector<std::string>{});
    alarm(100);  // a hang ends the program
  }
  void TearDown() override { alarm(0); }
};

TEST_F(Callbacks, InTheProgressOfALoadOnlyAnotherLoadOnThatRuntimeIsBusy) {
  OwnedWorld here, other;
  for (World* world : {static_cast<World*>(&here), static_cast<World*>(&other)}) {
    Inside inside;
    inside.world = world;
    quern_model_options options = small_model();
    options.progress = load_progress;
    options.progress_user = &inside;
    quern_model* model = nullptr;
    ASSERT_EQ(quern_model_load(here.runtime, here.model_file.c_str(), &options, &model), QUERN_OK) << quern_last_error();
    quern_model_release(model);
    expect_busy(inside, world == &here ? std::set<std::string>{"quern_model_load"} : std::set<std::string>{}, "the progress of a load");
    if (world == &here) EXPECT_NE(inside.busy.find("is being loaded"), std::string::npos) << inside.busy;
  }
}

TEST_F(Callbacks, WhileATokenIsToldOnlyTheSessionThatTellsItIsBusy) {
  OwnedWorld here, other;
  for (World* world : {static_cast<World*>(&here), static_cast<World*>(&other)}) {
    Inside inside;
    inside.world = world;
    quern_request one = request(some_ids(), 0, 3);
    one.user = &inside;
    one.on_token = [](void* user, const quern_token_event*) { return static_cast<Inside*>(user)->once(), 0; };
    quern_generation* generation = nullptr;
    ASSERT_EQ(quern_generate(here.session, &one, 1, &generation), QUERN_OK) << quern_last_error();
    quern_generation_release(generation);
    expect_busy(inside, world == &here ? of_the_session : std::set<std::string>{}, "on_token");
  }
}

/// Reads some ids with a callback, which ends the evaluation if it returns something.
quern_status evaluate_with(World& world, Inside& inside, quern_evaluate_callback progress, quern_evaluation** out) {
  quern_evaluate_options options{};
  options.struct_size = sizeof options;
  options.progress = progress;
  options.progress_user = &inside;
  return quern_evaluate_with(world.session, 1, some_ids().data(), some_ids().size(), &options, out);
}

TEST_F(Callbacks, InTheProgressOfAnEvaluationOnlyItsSessionIsBusy) {
  OwnedWorld here, other;
  for (World* world : {static_cast<World*>(&here), static_cast<World*>(&other)}) {
    Inside inside;
    inside.world = world;
    quern_evaluation* evaluation = nullptr;
    const auto once = [](void* user, std::uint64_t, std::uint64_t) { return static_cast<Inside*>(user)->once(), 0; };
    ASSERT_EQ(evaluate_with(here, inside, once, &evaluation), QUERN_OK) << quern_last_error();
    quern_evaluation_release(evaluation);
    EXPECT_TRUE(inside.done);
    expect_busy(inside, world == &here ? of_the_session : std::set<std::string>{}, "the progress of an evaluation");
    const auto stop = [](void*, std::uint64_t, std::uint64_t) { return 1; };
    EXPECT_EQ(evaluate_with(here, inside, stop, &evaluation), QUERN_CANCELLED);
    EXPECT_EQ(evaluation, nullptr);
  }
}

TEST_F(Callbacks, ASessionReleasedInTheProgressOfItsEvaluationIsReadToTheEnd) {
  OwnedWorld here;
  quern_evaluate_options options{};
  options.struct_size = sizeof options;
  options.progress_user = static_cast<World*>(&here);
  options.progress = [](void* user, std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, some_ids().size());
    EXPECT_LE(done, total);
    return release_world(*static_cast<World*>(user)), 0;
  };
  quern_evaluation* evaluation = nullptr;
  ASSERT_EQ(quern_evaluate_with(here.session, 1, some_ids().data(), some_ids().size(), &options, &evaluation), QUERN_OK)
      << quern_last_error();
  quern_evaluation_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(quern_evaluation_get_info(evaluation, &info), QUERN_OK);
  EXPECT_EQ(info.count, some_ids().size());
  quern_evaluation_release(evaluation);
  EXPECT_EQ(here.session, nullptr);
}

TEST_F(Callbacks, InTheProgressOfABenchNothingIsBusy) {
  OwnedWorld here;
  Inside inside;
  inside.world = &here;
  quern_bench_options options{};
  options.struct_size = sizeof options;
  options.prompt_tokens = 4;
  options.decode_tokens = 2;
  options.repetitions = 1;
  options.progress_user = &inside;
  options.progress = [](void* user, const char*, std::uint32_t, double) { return static_cast<Inside*>(user)->once(), 1; };
  quern_bench_result result{};
  result.struct_size = sizeof result;
  EXPECT_EQ(quern_bench(here.model, &options, &result), QUERN_CANCELLED);
  expect_busy(inside, {}, "the progress of a bench");
}

constexpr const char* url = "http://127.0.0.1:9/m-Q4_0.gguf";

struct Pulling : Inside {
  quern_status again = QUERN_OK;
  std::string sentence;
};

TEST_F(Callbacks, InTheProgressOfAPullTheSamePullIsBusyAndDoesNotWaitForItself) {
  OwnedWorld here;
  // The lock of the model's folder is held, so that the pull waits and says so without any network.
  quern_hub_options options = offline_hub(here);
  options.offline = QUERN_OFFLINE_OFF;
  options.tries = 1;
  Pulling inside;
  inside.world = &here;
  options.progress_user = &inside;
  options.progress = [](void* user, const quern_pull_event* event) {
    auto& state = *static_cast<Pulling*>(user);
    EXPECT_STREQ(event->waiting, "another process downloads it");
    state.once();
    quern_hub_options again = offline_hub(*state.world);
    again.offline = QUERN_OFFLINE_OFF;
    again.tries = 1;
    quern_text* path = nullptr;
    state.again = quern_pull(url, &again, &path);  // nobody would end its wait
    state.sentence = quern_last_error();
    return 1;
  };
  // Its folder is the first that a pull of it makes: nothing answers on port 9.
  quern_hub_options silent = options;
  silent.progress = nullptr;
  quern_text* path = nullptr;
  ASSERT_EQ(quern_pull(url, &silent, &path), QUERN_IO);
  std::string lock;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(here.folder))
    if (entry.path().filename() == ".lock") lock = entry.path().string();
  ASSERT_FALSE(lock.empty());
  const int held = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  EXPECT_EQ(quern_pull(url, &options, &path), QUERN_CANCELLED);
  ::close(held);
  expect_busy(inside, {}, "the progress of a pull");
  EXPECT_EQ(inside.again, QUERN_BUSY) << inside.sentence;
  EXPECT_NE(inside.sentence.find("callback"), std::string::npos) << inside.sentence;
}

TEST_F(Callbacks, InALineOfTheLogAllThatComputesIsBusy) {
  Inside inside;
  OwnedWorld here([](void* user, std::uint32_t, const char*, const char*) { static_cast<Inside*>(user)->once(); }, &inside);
  OwnedWorld other;
  std::set<std::string> busy;
  const std::set<std::string> answer{// what reads a handle or makes nothing
                                     "quern_load_report_entry",   "quern_device_list_entry",   "quern_model_get_info",
                                     "quern_sequence_length",     "quern_generation_answer",   "quern_generation_top",
                                     "quern_evaluation_get_info", "quern_statistics_get_info", "quern_statistics_get_device",
                                     "quern_statistics_get_cut",  "quern_tensor_get_info",     "quern_estimate_get_info",
                                     "quern_estimate_dtype",      "quern_training_get_info",   "quern_adapter_get_info"};
  World nothing;
  for (const ApiCall& call : every_call()) {
    // A function without a status has nothing to say no with.
    const std::string name = call.name;
    const bool has_status = call.works == Works::on_owner || (call.call(nothing) != QUERN_OK && name.find("_count") == std::string::npos) ||
                            name == "quern_runtime_create" || name.find("_json") != std::string::npos || name == "quern_estimate_shape" ||
                            name == "quern_training_starter" || name == "quern_pull" || name == "quern_find_model" ||
                            name == "quern_remove_model";
    if (has_status && !answer.contains(name) && name != "quern_model_vocabulary" && name != "quern_vocabulary_size") busy.insert(name);
  }
  for (World* world : {static_cast<World*>(&here), static_cast<World*>(&other)}) {
    inside = {};
    inside.world = world;
    World made;
    quern_runtime_options options{};
    options.struct_size = sizeof options;
    options.ignore_environment = 1;
    options.backend = "cpu";
    options.threads = 2;
    options.log = [](void* user, std::uint32_t, const char*, const char*) { static_cast<Inside*>(user)->once(); };
    options.log_user = &inside;
    options.log_level = QUERN_LEVEL_TRACE;
    const quern_model_options model = small_model();
    ASSERT_EQ(quern_runtime_create(&options, &made.runtime), QUERN_OK) << quern_last_error();
    ASSERT_EQ(quern_model_load(made.runtime, here.model_file.c_str(), &model, &made.model), QUERN_OK) << quern_last_error();
    expect_busy(inside, busy, "a line of the log");
    EXPECT_NE(inside.busy.find("callback of the log"), std::string::npos) << inside.busy;
    inside.world = nullptr;
    release_world(made);
  }
}

// Releases: of the very handle that calls back, and of what it was made of.

TEST_F(Callbacks, ASessionReleasedWhileItTellsATokenAnswersToTheEnd) {
  OwnedWorld here;
  const std::vector<std::int32_t> expected = ids_of(here.generation, 0);
  quern_request one = request(some_ids(), 0, 3);
  one.user = static_cast<World*>(&here);
  one.on_token = [](void* user, const quern_token_event*) { return release_world(*static_cast<World*>(user)), 0; };
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(here.session, &one, 1, &generation), QUERN_OK) << quern_last_error();
  EXPECT_EQ(ids_of(generation, 0), expected);
  quern_generation_release(generation);
  EXPECT_EQ(here.session, nullptr);
}

TEST_F(Callbacks, ARuntimeReleasedInTheProgressOfALoadGivesTheModelAllTheSame) {
  OwnedWorld here;
  quern_model_options options = small_model();
  options.progress_user = static_cast<World*>(&here);
  options.progress = [](void* user, std::uint64_t, std::uint64_t) { return release_world(*static_cast<World*>(user)), 0; };
  quern_model* model = nullptr;
  ASSERT_EQ(quern_model_load(here.runtime, here.model_file.c_str(), &options, &model), QUERN_OK) << quern_last_error();
  EXPECT_EQ(draw(make_session(model).get(), request(some_ids(), 0, 3)).size(), 3u);
  quern_model_release(model);
}

TEST_F(Callbacks, AModelReleasedInTheProgressOfItsBenchIsMeasuredToTheEnd) {
  OwnedWorld here;
  quern_bench_options options{};
  options.struct_size = sizeof options;
  options.prompt_tokens = 4;
  options.decode_tokens = 2;
  options.repetitions = 1;
  options.progress_user = static_cast<World*>(&here);
  options.progress = [](void* user, const char*, std::uint32_t, double) { return release_world(*static_cast<World*>(user)), 1; };
  quern_bench_result result{};
  result.struct_size = sizeof result;
  EXPECT_EQ(quern_bench(here.model, &options, &result), QUERN_CANCELLED);
}

TEST_F(Callbacks, HandlesReleasedInALineOfTheLogLiveUntilTheCallEnds) {
  OwnedWorld here;
  struct State {
    World* world;
    bool released = false;
  } state{&here};
  World made;
  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.ignore_environment = 1;
  options.backend = "cpu";
  options.threads = 2;
  options.log = [](void* user, std::uint32_t, const char*, const char*) {
    auto& s = *static_cast<State*>(user);
    release_world(*s.world);
    s.released = true;
  };
  options.log_user = &state;
  options.log_level = QUERN_LEVEL_TRACE;
  ASSERT_EQ(quern_runtime_create(&options, &made.runtime), QUERN_OK) << quern_last_error();
  EXPECT_TRUE(state.released);
  release_world(made);
}

}  // namespace
}  // namespace quern::test
