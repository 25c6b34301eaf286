// Whole models on a device with queues: the CPU backend's ops behind queues and fences, alone and cut with the CPU itself.
//
// The same ops behind buffers, on a synchronous device, say what the answers are. The plugin ends the process where the runtime destroys
// what is in flight.
#include "api_support.hpp"
#include "hanging_run.hpp"
#include "support/test_clock.hpp"

#include "quern/quern_ops.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 50, 51, 52};

Handle<quern_runtime> runtime_of(const char* backend) {
  quern_runtime_options options{};
  options.backend = backend;
  options.backend_extra_path = QUERN_QUEUED_DIRECTORY ":" QUERN_BUFFERED_DIRECTORY ":" QUERN_C99_DIRECTORY;
  options.deterministic = QUERN_DETERMINISTIC_ON;
  return make_runtime(options);
}

Handle<quern_model> model_of(quern_runtime* runtime, const char* file = "micro-llama-q8_0.gguf") {
  return load(runtime, model_path(file), {.struct_size = 0, .context = 256, .sequences = 3});
}

struct Drawn {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
  bool operator==(const Drawn&) const = default;
};

Drawn drawn(quern_session* session, const quern_request& r) {
  quern_generation* generation = nullptr;
  EXPECT_EQ(quern_generate(session, &r, 1, &generation), QUERN_OK) << quern_last_error();
  const Handle<quern_generation> owner(generation);
  if (generation == nullptr) return {};
  quern_answer_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(quern_generation_answer(generation, 0, &info), QUERN_OK) << quern_last_error();
  Drawn result{{info.ids, info.ids + info.id_count}, {}};
  if (info.logprobs != nullptr) result.logprobs.assign(info.logprobs, info.logprobs + info.id_count);
  return result;
}

/// Names an op that the device does not have, as long as it lives.
class WithoutOp {
 public:
  explicit WithoutOp(std::uint32_t op) {
    ::setenv("QUERN_TEST_REFUSED_OP", std::to_string(op).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
  }
  ~WithoutOp() { ::unsetenv("QUERN_TEST_REFUSED_OP"); }  // NOLINT(concurrency-mt-unsafe)
};

std::uint64_t cuts_of(quern_session* session) {
  quern_statistics* statistics = nullptr;
  EXPECT_EQ(quern_session_statistics(session, &statistics), QUERN_OK);
  const Handle<quern_statistics> owner(statistics);
  quern_statistics_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(quern_statistics_get_info(statistics, &info), QUERN_OK);
  return info.cuts;
}

TEST(Queue, AModelRunsAloneWithTheBitsOfASynchronousDevice) {
  const auto buffered = runtime_of("buffered"), queued = runtime_of("queued");
  const auto expected_model = model_of(buffered.get()), model = model_of(queued.get());
  ASSERT_NE(model, nullptr);
  const auto expected = make_session(expected_model.get()), session = make_session(model.get());
  for (const std::uint32_t logprobs : {0u, 3u}) {
    quern_request r = request(prompt, 0, 40);
    r.logprobs = logprobs;
    ASSERT_EQ(quern_sequence_truncate(session.get(), 0, 0), QUERN_OK);
    ASSERT_EQ(quern_sequence_truncate(expected.get(), 0, 0), QUERN_OK);
    const Drawn found = drawn(session.get(), r);
    EXPECT_EQ(found, drawn(expected.get(), r)) << logprobs << " logprobs";
    EXPECT_EQ(found.ids.size(), 40u);
    EXPECT_EQ(found.logprobs.size(), logprobs == 0 ? 0u : 40u);
  }
}

/// What the device tells of packing while it lives.
class ToldPacking {
 public:
  ToldPacking() {
    EXPECT_EQ(::pipe2(ends_, O_NONBLOCK), 0);
    ::setenv("QUERN_TEST_PACKS", std::to_string(ends_[1]).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
  }
  ~ToldPacking() {
    ::unsetenv("QUERN_TEST_PACKS");  // NOLINT(concurrency-mt-unsafe)
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  std::string told() const {
    std::string text(4096, '\0');
    const ssize_t count = ::read(ends_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(Queue, WeightsArePackedOneBehindTheOtherWithoutAWaitForEach) {
  const ToldPacking packing;
  const auto cpu = runtime_of("cpu"), queued = runtime_of("queued");
  const auto expected_model = model_of(cpu.get(), "micro-llama-f32.gguf"), model = model_of(queued.get(), "micro-llama-f32.gguf");
  const std::string told = packing.told();
  const auto session = make_session(model.get()), expected = make_session(expected_model.get());
  const std::size_t first = told.find('p'), last = told.rfind('p');
  ASSERT_NE(first, std::string::npos) << told;
  const std::string between = told.substr(first, last - first);
  EXPECT_GT(std::ranges::count(between, 'p'), 8) << told;
  EXPECT_LT(2 * std::ranges::count(between, 'w'), std::ranges::count(between, 'p')) << "a larger copy is waited for: " << told;
  EXPECT_EQ(drawn(session.get(), request(prompt, 0, 40)), drawn(expected.get(), request(prompt, 0, 40)));
}

/// What `backends` draw, with cuts between them where there are several.
std::vector<std::int32_t> drawn_exactly(const char* backends) {
  const auto runtime = runtime_of(backends);
  const auto model = load(runtime.get(), model_path("micro-llama-f32.gguf"),
                          {.struct_size = 0, .context = 128, .sequences = 1, .activations = QUERN_ACTIVATIONS_F32, .kv = QUERN_KV_F32});
  if (model == nullptr) return {};
  const auto session = make_session(model.get());
  EXPECT_EQ(cuts_of(session.get()) > 0, std::strchr(backends, ',') != nullptr) << backends;
  return draw(session.get(), request(prompt, 0, 16));
}

TEST(Queue, AModelIsCutBetweenAQueueAndTheCpu) {
  const std::vector<std::int32_t> expected = drawn_exactly("cpu");
  EXPECT_EQ(expected.size(), 16u);
  for (const std::uint32_t op : {QUERN_OP_ADD, QUERN_OP_MATMUL, QUERN_OP_SAMPLE}) {
    const WithoutOp without(op);
    EXPECT_EQ(drawn_exactly("queued,cpu"), expected) << "without op " << op;
  }
  EXPECT_EQ(drawn_exactly("sample_c99,cpu"), expected);
}

TEST(Queue, SeveralSequencesShareAQueue) {
  const auto buffered = runtime_of("buffered"), queued = runtime_of("queued");
  const auto expected_model = model_of(buffered.get()), model = model_of(queued.get());
  const auto expected = make_session(expected_model.get(), {.struct_size = 0, .sequences = 3});
  const auto session = make_session(model.get(), {.struct_size = 0, .sequences = 3});
  std::vector<std::vector<std::int32_t>> prompts{{1, 50, 51, 52}, {1, 60}, std::vector<std::int32_t>(70, 9)};
  quern_sampling penalised{};
  penalised.struct_size = sizeof penalised;
  penalised.temperature = 0.8f;
  penalised.seed = 3;
  penalised.repeat_penalty = 1.3f;
  std::vector<quern_request> requests;
  for (std::uint32_t s = 0; s < 3; ++s) {
    requests.push_back(request(prompts[s], s, 24));
    if (s != 1) requests.back().sampling = &penalised;
  }
  std::vector<std::vector<std::int32_t>> found[2];
  for (std::size_t i = 0; i < 2; ++i) {
    quern_generation* generation = nullptr;
    ASSERT_EQ(quern_generate(i == 0 ? expected.get() : session.get(), requests.data(), 3, &generation), QUERN_OK) << quern_last_error();
    const Handle<quern_generation> owner(generation);
    for (std::uint64_t s = 0; s < 3; ++s) found[i].push_back(ids_of(generation, s));
  }
  EXPECT_EQ(found[1], found[0]);
}

TEST(Queue, SessionsOfTwoThreadsHaveQueuesOfTheirOwn) {
  const auto queued = runtime_of("queued");
  const auto model = model_of(queued.get());
  const std::vector<std::int32_t> expected = draw(make_session(model.get()).get(), request(prompt, 0, 60));
  std::vector<std::int32_t> found[3];
  {
    std::vector<std::jthread> threads;
    for (std::vector<std::int32_t>& ids : found)
      threads.emplace_back([&] {
        const auto session = make_session(model.get());
        ids = draw(session.get(), request(prompt, 0, 60));
      });
  }
  for (const std::vector<std::int32_t>& ids : found) EXPECT_EQ(ids, expected);
}

TEST(Queue, ASavedSessionGoesOn) {
  const auto queued = runtime_of("queued");
  const auto model = model_of(queued.get());
  const auto session = make_session(model.get());
  const std::vector<std::int32_t> all = draw(make_session(model.get()).get(), request(prompt, 0, 20));
  ASSERT_EQ(draw(session.get(), request(prompt, 0, 10)), std::vector<std::int32_t>(all.begin(), all.begin() + 10));
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_session_save(session.get(), nullptr, 0, &bytes), QUERN_OK) << quern_last_error();
  std::vector<std::byte> saved(bytes);
  ASSERT_EQ(quern_session_save(session.get(), saved.data(), bytes, &bytes), QUERN_OK) << quern_last_error();
  const auto other = make_session(model.get());
  ASSERT_EQ(quern_session_restore(other.get(), saved.data(), bytes), QUERN_OK) << quern_last_error();
  const std::vector<std::int32_t> last{all[9]};
  quern_request more = request(last, 0, 10);
  more.flags = QUERN_REQUEST_APPEND;
  EXPECT_EQ(draw(other.get(), more), std::vector<std::int32_t>(all.begin() + 10, all.end()));
}

struct ReleaseTensor {
  void operator()(quern_tensor* tensor) const { quern_tensor_release(tensor); }
};

TEST(Queue, TensorsAreReachedThroughTheDevicesOwnQueue) {
  const auto queued = runtime_of("queued");
  const std::int64_t shape[] = {300, 400};  // 480,000 bytes: more than the runtime copies for an upload
  std::vector<float> a(300 * 400), b(a.size(), 1), found(a.size()), expected(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i), expected[i] = a[i] + 1;
  std::unique_ptr<quern_tensor, ReleaseTensor> tensors[4];
  for (auto& tensor : tensors) {
    quern_tensor* made = nullptr;
    ASSERT_EQ(quern_tensor_create(queued.get(), nullptr, QUERN_F32, shape, 2, &made), QUERN_OK) << quern_last_error();
    tensor.reset(made);
  }
  ASSERT_EQ(quern_tensor_read(tensors[2].get(), 0, found.data(), found.size() * 4), QUERN_OK) << quern_last_error();
  EXPECT_EQ(found, std::vector<float>(a.size()));  // a new tensor is zeros, also where fresh memory is not
  ASSERT_EQ(quern_tensor_write(tensors[0].get(), 0, a.data(), a.size() * 4), QUERN_OK) << quern_last_error();
  ASSERT_EQ(quern_tensor_write(tensors[1].get(), 0, b.data(), b.size() * 4), QUERN_OK) << quern_last_error();
  const quern_tensor* inputs[] = {tensors[0].get(), tensors[1].get()};
  quern_tensor* outputs[] = {tensors[2].get()};
  quern_op_call call{};
  call.struct_size = sizeof call;
  call.op = "add";
  call.inputs = inputs;
  call.input_count = 2;
  call.outputs = outputs;
  call.output_count = 1;
  ASSERT_EQ(quern_run_op(&call, nullptr), QUERN_OK) << quern_last_error();
  ASSERT_EQ(quern_tensor_copy(tensors[2].get(), tensors[3].get()), QUERN_OK) << quern_last_error();
  ASSERT_EQ(quern_tensor_read(tensors[3].get(), 0, found.data(), found.size() * 4), QUERN_OK) << quern_last_error();
  EXPECT_EQ(found, expected);
}

quern_status generate(quern_session* session) {
  const quern_request r = request(prompt, 0, 4);
  quern_generation* generation = nullptr;
  const quern_status status = quern_generate(session, &r, 1, &generation);
  quern_generation_release(generation);
  return status;
}

TEST(Queue, ADeviceThatSignalsNothingIsLostAndNothingOfItIsFreed) {
  const auto queued = runtime_of("queued");
  auto model = model_of(queued.get());
  auto session = make_session(model.get()), other = make_session(model.get());
  ASSERT_EQ(generate(session.get()), QUERN_OK) << quern_last_error();
  const HangingRun hanging;
  {
    const TestClock clock;
    clock.step(std::chrono::minutes(1));
    EXPECT_EQ(generate(session.get()), QUERN_DEVICE_LOST);
    EXPECT_STREQ(quern_last_error(),
                 "queued:0: it ended no call for ten minutes, and counts as lost from now on; its memory stays taken, so end the program");
  }
  EXPECT_EQ(generate(other.get()), QUERN_DEVICE_LOST);
  EXPECT_STREQ(quern_last_error(), "queued:0: it counts as lost, since it did not end what it was given; end the program");
  session.reset();  // the plugin ends the process where what is in flight is destroyed
  other.reset();
  model.reset();
}

TEST(Queue, ACancelledRunThatDoesNotEndIsWaitedForForAMinute) {
  const auto queued = runtime_of("queued");
  const auto model = model_of(queued.get());
  const auto session = make_session(model.get());
  ASSERT_EQ(generate(session.get()), QUERN_OK) << quern_last_error();
  const HangingRun hanging;
  std::string text;
  quern_status status = QUERN_OK;
  std::optional<TestClock> clock;
  {
    const std::jthread generating([&] {
      status = generate(session.get());
      text = quern_last_error();
    });
    hanging.wait_until_it_hangs();
    quern_cancel(session.get());
    clock.emplace();
    clock->step(std::chrono::seconds(5));
  }
  clock.reset();
  EXPECT_EQ(status, QUERN_DEVICE_LOST);
  EXPECT_EQ(
      text,
      "queued:0: it ended no call for a minute behind a cancel, and counts as lost from now on; its memory stays taken, so end the program");
}

}  // namespace
}  // namespace quern::test
