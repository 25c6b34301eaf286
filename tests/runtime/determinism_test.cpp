// The same prompt and seed give the same tokens, whatever the threads, the batch and the other runtimes.
#include "api_support.hpp"

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 17, 90, 33, 61, 120, 8, 77, 54, 21, 100, 5};

quern_sampling warm(std::uint64_t seed) {
  quern_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.temperature = 0.9f;
  sampling.top_k = 40;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.01f;
  sampling.repeat_penalty = 1.1f;
  sampling.seed = seed;
  return sampling;
}

class Determinism : public testing::TestWithParam<const char*> {
 protected:
  static Handle<quern_model> load_with(quern_runtime* runtime) {
    return load(runtime, model_path(GetParam()), {.struct_size = 0, .context = 256, .sequences = 8, .activations = QUERN_ACTIVATIONS_F32});
  }
};

TEST_P(Determinism, OneThreadAndTwoAndABatchOfOneAndOfEightDrawTheSame) {
  const quern_sampling sampling = warm(42);
  std::vector<std::vector<std::int32_t>> drawn;
  for (const std::uint32_t threads : {1u, 2u}) {
    quern_runtime_options options{};
    options.threads = threads;
    options.deterministic = QUERN_DETERMINISTIC_ON;
    const auto runtime = make_runtime(options);
    const auto model = load_with(runtime.get());
    const auto session = make_session(model.get(), {.struct_size = 0, .context = 0, .sequences = 8});
    quern_request one = request(prompt, 0, 24);
    one.sampling = &sampling;
    drawn.push_back(draw(session.get(), one));

    std::vector<std::vector<std::int32_t>> prompts(8, prompt);
    for (std::size_t i = 0; i < 7; ++i) prompts[i].insert(prompts[i].begin() + 1, i + 1, static_cast<std::int32_t>(30 + i));
    std::vector<quern_request> batch;
    for (std::uint32_t i = 0; i < 8; ++i) {
      batch.push_back(request(prompts[i], i, 24));
      batch.back().sampling = &sampling;
    }
    quern_generation* generation = nullptr;
    ASSERT_EQ(quern_generate(session.get(), batch.data(), 8, &generation), QUERN_OK) << quern_last_error();
    const Handle<quern_generation> owner(generation);
    drawn.push_back(ids_of(generation, 7));  // the only one with the plain prompt
  }
  for (std::size_t i = 1; i < drawn.size(); ++i) EXPECT_EQ(drawn[i], drawn[0]) << i;
}

TEST_P(Determinism, AnotherSeedDrawsOtherTokens) {
  const auto runtime = make_runtime();
  const auto model = load_with(runtime.get());
  const auto session = make_session(model.get());
  quern_request r = request(prompt, 0, 24);
  const quern_sampling first = warm(1), second = warm(2);
  r.sampling = &first;
  const auto a = draw(session.get(), r);
  r.sampling = &second;
  EXPECT_NE(draw(session.get(), r), a);
}

TEST_P(Determinism, TwoRuntimesInOneProcessDoNotDisturbEachOther) {
  const auto left = make_runtime();
  const auto left_model = load_with(left.get());
  const auto left_session = make_session(left_model.get());
  const auto alone = draw(left_session.get(), request(prompt, 0, 16));
  {
    quern_runtime_options options{};
    options.threads = 1;
    options.force_kernel = "cpu:portable";
    const auto right = make_runtime(options);
    const auto right_model = load_with(right.get());
    const auto right_session = make_session(right_model.get());
    draw(right_session.get(), request(prompt, 0, 4));
    EXPECT_EQ(draw(left_session.get(), request(prompt, 0, 16)), alone);
  }
  EXPECT_EQ(draw(left_session.get(), request(prompt, 0, 16)), alone);
}

INSTANTIATE_TEST_SUITE_P(Models, Determinism,
                         testing::Values("micro-llama-f32.gguf", "micro-llama-q4_0.gguf", "micro-llama-q8_0.gguf", "micro-qwen2-f16.gguf",
                                         "micro-qwen3-q8_0.gguf", "micro-split-00001-of-00002.gguf"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace quern::test
