// The C API on a tiny model: what it answers, and what it refuses with which words.
#include "api_support.hpp"

#include <cmath>
#include <cstring>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 40, 41, 42, 43};

class Api : public testing::Test {
 protected:
  Handle<quern_runtime> runtime = make_runtime();
  Handle<quern_model> model = load(runtime.get(), model_path("micro-llama-f32.gguf"), {.struct_size = 0, .context = 128, .sequences = 2});
  Handle<quern_session> session = make_session(model.get(), {.struct_size = 0, .context = 0, .sequences = 2});
};

TEST_F(Api, GreedyAnswersAreTheSameTwice) {
  const auto first = draw(session.get(), request(prompt, 0, 12));
  EXPECT_EQ(first.size(), 12u);
  EXPECT_EQ(draw(session.get(), request(prompt, 0, 12)), first);
}

TEST_F(Api, ReusesTheCommonStartOfAPrompt) {
  draw(session.get(), request(prompt, 0, 4));
  quern_generation* generation = nullptr;
  const quern_request again = request(prompt, 0, 1);
  ASSERT_EQ(quern_generate(session.get(), &again, 1, &generation), QUERN_OK);
  const Handle<quern_generation> owner(generation);
  quern_answer_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_generation_answer(generation, 0, &info), QUERN_OK);
  EXPECT_EQ(info.reused_tokens, prompt.size() - 1);
}

TEST_F(Api, EvaluationAgreesWithTheGreedyDraw) {
  const auto drawn = draw(session.get(), request(prompt, 0, 1));
  quern_evaluation* evaluation = nullptr;
  ASSERT_EQ(quern_evaluate(session.get(), 1, prompt.data(), prompt.size(), QUERN_EVALUATE_LOGITS, &evaluation), QUERN_OK);
  const Handle<quern_evaluation> owner(evaluation);
  quern_evaluation_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_evaluation_get_info(evaluation, &info), QUERN_OK);
  ASSERT_EQ(info.count, prompt.size());
  EXPECT_EQ(info.argmax[prompt.size() - 1], drawn[0]);
  EXPECT_TRUE(std::isnan(info.nll[prompt.size() - 1]));
  double sum = 0;
  for (std::size_t i = 0; i + 1 < prompt.size(); ++i) sum += info.nll[i];
  EXPECT_NEAR(sum, info.nll_sum, 1e-4);  // float copies of double values below 10
}

TEST_F(Api, AllLogitsAreThoseOfEveryPrefix) {
  const auto evaluated = [&](std::size_t count, std::uint32_t flags) {
    quern_evaluation* evaluation = nullptr;
    EXPECT_EQ(quern_evaluate(session.get(), 1, prompt.data(), count, flags, &evaluation), QUERN_OK) << quern_last_error();
    const Handle<quern_evaluation> owner(evaluation);
    quern_evaluation_info info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(quern_evaluation_get_info(evaluation, &info), QUERN_OK);
    return std::vector<float>(info.logits, info.logits + info.logit_count);
  };
  const std::vector<float> all = evaluated(prompt.size(), QUERN_EVALUATE_ALL_LOGITS);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::vector<float> last = evaluated(i + 1, QUERN_EVALUATE_LOGITS);
    ASSERT_EQ(all.size(), prompt.size() * last.size());
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.begin() + static_cast<std::ptrdiff_t>(i * last.size()))) << "position " << i;
  }
}

TEST_F(Api, LogprobsAreThoseOfTheBestAlternatives) {
  quern_request r = request(prompt, 0, 3);
  r.logprobs = 5;
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(session.get(), &r, 1, &generation), QUERN_OK);
  const Handle<quern_generation> owner(generation);
  quern_answer_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_generation_answer(generation, 0, &info), QUERN_OK);
  for (std::uint64_t t = 0; t < 3; ++t) {
    const std::int32_t* ids = nullptr;
    const float* logprobs = nullptr;
    std::uint64_t count = 0;
    ASSERT_EQ(quern_generation_top(generation, 0, t, &ids, &logprobs, &count), QUERN_OK);
    ASSERT_EQ(count, 5u);
    EXPECT_EQ(ids[0], info.ids[t]);                     // greedy
    EXPECT_NEAR(logprobs[0], info.logprobs[t], 1e-4f);  // host f64 against the device's blocked f32 sum
    for (int i = 1; i < 5; ++i) EXPECT_LE(logprobs[i], logprobs[i - 1]);
  }
}

TEST_F(Api, AForbiddenTokenIsNeverDrawn) {
  const auto best = draw(session.get(), request(prompt, 0, 1));
  const quern_logit_bias bias{best[0], -INFINITY};
  quern_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.bias = &bias;
  sampling.bias_count = 1;
  quern_request r = request(prompt, 0, 1);
  r.sampling = &sampling;
  EXPECT_NE(draw(session.get(), r)[0], best[0]);
}

TEST_F(Api, TheContextEndsAnAnswerAndAPromptThatDoesNotFitIsRefused) {
  EXPECT_EQ(draw(session.get(), request(prompt, 0, 0)).size(), 128 - prompt.size() + 1);
  const std::vector<std::int32_t> longer(129, 40);
  const quern_request r = request(longer, 0, 1);
  EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_CONTEXT_FULL);
  EXPECT_NE(std::strstr(quern_last_error(), "129"), nullptr) << quern_last_error();
  EXPECT_NE(std::strstr(quern_last_error(), "128"), nullptr) << quern_last_error();
}

TEST_F(Api, RefusesBadRequestsByName) {
  quern_request r = request(prompt, 2, 1);
  EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(quern_last_error(), "sequence"), nullptr) << quern_last_error();
  quern_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.top_p = 2;
  r = request(prompt, 0, 1);
  r.sampling = &sampling;
  EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(quern_last_error(), "top_p"), nullptr) << quern_last_error();
  const std::vector<std::int32_t> outside{1, 1 << 30};
  r = request(outside, 0, 1);
  EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_generate(nullptr, &r, 1, nullptr), QUERN_INVALID_ARGUMENT);
}

TEST_F(Api, ACallbackEndsItsOwnRequestOnly) {
  std::vector<quern_request> both{request(prompt, 0, 8), request(prompt, 1, 8)};
  int seen = 0;
  both[0].user = &seen;
  both[0].on_token = [](void* user, const quern_token_event*) { return ++*static_cast<int*>(user) == 3 ? 1 : 0; };
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(session.get(), both.data(), 2, &generation), QUERN_OK) << quern_last_error();
  const Handle<quern_generation> owner(generation);
  EXPECT_EQ(ids_of(generation, 0).size(), 3u);
  EXPECT_EQ(ids_of(generation, 1).size(), 8u);
}

TEST_F(Api, StatisticsCountWhatRan) {
  draw(session.get(), request(prompt, 0, 4));
  quern_statistics* statistics = nullptr;
  ASSERT_EQ(quern_session_statistics(session.get(), &statistics), QUERN_OK);
  const Handle<quern_statistics> owner(statistics);
  quern_statistics_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_statistics_get_info(statistics, &info), QUERN_OK);
  EXPECT_STREQ(info.backend, "cpu");
  EXPECT_EQ(info.steps, 4u);
  EXPECT_EQ(info.tokens_prefill, prompt.size());
  EXPECT_EQ(info.tokens_decode, 3u);
  EXPECT_EQ(info.cuts, 0u);
}

TEST(ApiRefusals, AMissingFileAndABackendThatIsNotThere) {
  const auto runtime = make_runtime();
  quern_model* model = nullptr;
  EXPECT_EQ(quern_model_load(runtime.get(), "/no/such/model.gguf", nullptr, &model), QUERN_NOT_FOUND);
  EXPECT_NE(std::strstr(quern_last_error(), "/no/such/model.gguf"), nullptr);
  quern_runtime_options options{};
  options.backend = "nosuch";
  const auto other = make_runtime(options);
  EXPECT_EQ(quern_runtime_ready(other.get()), QUERN_BACKEND_UNAVAILABLE);
  EXPECT_NE(std::strstr(quern_last_error(), "nosuch"), nullptr) << quern_last_error();
}

TEST(ApiRefusals, AModelThatDoesNotFitItsLimitNamesTheContextThatWould) {
  const std::string path = model_path("micro-llama-f32.gguf");
  const auto free_runtime = make_runtime();
  quern_estimate* estimate = nullptr;
  ASSERT_EQ(quern_estimate_file(free_runtime.get(), path.c_str(), nullptr, &estimate), QUERN_OK) << quern_last_error();
  quern_estimate_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_estimate_get_info(estimate, &info), QUERN_OK);
  quern_estimate_release(estimate);

  const std::uint64_t needed = info.weights_bytes + info.kv_bytes + info.scratch_bytes;
  const auto load_under = [&](std::uint64_t limit) {
    const std::string memory = "cpu=" + std::to_string(limit);
    quern_runtime_options options{};
    options.memory = memory.c_str();
    const auto runtime = make_runtime(options);
    quern_model* model = nullptr;
    const quern_status status = quern_model_load(runtime.get(), path.c_str(), nullptr, &model);
    quern_model_release(model);
    return status;
  };
  EXPECT_EQ(load_under(needed), QUERN_OK) << quern_last_error();
  EXPECT_EQ(load_under(needed - 1), QUERN_DOES_NOT_FIT);
  EXPECT_NE(std::strstr(quern_last_error(), "a context of 192 would fit"), nullptr) << quern_last_error();  // a page less than 256
  EXPECT_EQ(load_under(info.weights_bytes), QUERN_DOES_NOT_FIT);
  EXPECT_NE(std::strstr(quern_last_error(), "at least"), nullptr) << quern_last_error();
}

TEST(ApiStructs, AnOlderCallersStructIsReadAsFarAsItGoesAndANewersUnknownMemberIsRefused) {
  quern_runtime* runtime = nullptr;
  std::uint64_t only_size = sizeof(only_size);
  EXPECT_EQ(quern_runtime_create(reinterpret_cast<const quern_runtime_options*>(&only_size), &runtime), QUERN_OK);
  quern_runtime_release(runtime);
  struct Newer {
    quern_runtime_options known;
    std::uint64_t unknown;
  } newer{};
  newer.known.struct_size = sizeof(newer);
  EXPECT_EQ(quern_runtime_create(&newer.known, &runtime), QUERN_OK);
  quern_runtime_release(runtime);
  newer.unknown = 1;
  EXPECT_EQ(quern_runtime_create(&newer.known, &runtime), QUERN_UNSUPPORTED);
  std::uint64_t too_small = 4;
  EXPECT_EQ(quern_runtime_create(reinterpret_cast<const quern_runtime_options*>(&too_small), &runtime), QUERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quern::test
