#include "shapes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern::cli {
namespace {

const RanOn where{"m.gguf", "cpu", "cpu:0", "avx2"};

std::vector<std::string> members(const Json& json) {
  std::vector<std::string> names;
  for (const auto& member : json.items()) names.push_back(member.key());
  return names;
}

TEST(RunJson, HasTheDocumentedMembers) {
  const std::vector<std::int32_t> prompt = {1, 2, 3}, ids = {7, 8, 2};
  RunReport report;
  report.where = where;
  report.prompt_ids = prompt;
  report.ids = ids;
  report.text = "hi";
  report.finish = "end";
  report.seed = 5;
  report.reused_tokens = 1;
  report.prompt_seconds = 0.5;
  report.decode_seconds = 0.25;
  report.statistics = Json::object();
  const Json json = run_json(report);
  EXPECT_EQ(members(json), (std::vector<std::string>{"text", "ids", "prompt_ids", "finish", "model", "backend", "device", "kernels", "seed",
                                                     "timings", "statistics"}));
  EXPECT_EQ(json["ids"], Json({7, 8, 2}));
  EXPECT_EQ(json["prompt_ids"], Json({1, 2, 3}));
  EXPECT_EQ(json["backend"], "cpu");
  EXPECT_EQ(json["timings"]["prompt_tokens_per_second"], 4.0);  // two computed in half a second
  EXPECT_EQ(json["timings"]["decode_tokens_per_second"], 8.0);  // two steps in a quarter
}

TEST(RunJson, GivesLogprobsOnlyWhereAskedFor) {
  const std::vector<std::int32_t> ids = {7};
  RunReport report;
  report.ids = ids;
  EXPECT_FALSE(run_json(report).contains("logprobs"));
  report.logprobs = {-0.5f};
  report.best = {{{7, -0.5f}, {9, -std::numeric_limits<float>::infinity()}}};
  const Json one = run_json(report)["logprobs"][0];
  EXPECT_EQ(one["id"], 7);
  EXPECT_EQ(one["logprob"], -0.5);
  EXPECT_EQ(one["best"][1]["id"], 9);
  EXPECT_TRUE(one["best"][1]["logprob"].is_null());
}

TEST(RunJson, OfAnAnswerWithoutTokensHasRatesOfZero) {
  const Json timings = run_json(RunReport{})["timings"];
  EXPECT_EQ(timings["generated_tokens"], 0);
  EXPECT_EQ(timings["decode_tokens_per_second"], 0.0);
}

TEST(TokenizeJson, HasTextOnlyForARenderedChat) {
  const std::vector<std::int32_t> ids = {4, 5};
  EXPECT_EQ(json_line(tokenize_json(ids, nullptr)), "{\"ids\":[4,5]}\n");
  EXPECT_EQ(json_line(tokenize_json({}, nullptr)), "{\"ids\":[]}\n");
  const std::string text = "<|im_start|>";
  EXPECT_EQ(json_line(tokenize_json(ids, &text)), "{\"ids\":[4,5],\"text\":\"<|im_start|>\"}\n");
}

TEST(EvalJson, AveragesOverThePredictedTokens) {
  const std::int32_t argmax[] = {1, 2, 3};
  const float margin[] = {0.5f, 1.5f, 2.5f};
  const float nll[] = {1.0f, 3.0f, std::nanf("")};
  quern_evaluation_info info{};
  info.count = 3;
  info.nll_sum = 4;
  info.argmax = argmax;
  info.margin = margin;
  info.nll = nll;
  info.seconds = 1.5;
  const Json json = eval_json(where, info, true);
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["nll_mean"], 2.0);
  EXPECT_DOUBLE_EQ(json["perplexity"].get<double>(), std::exp(2.0));
  ASSERT_EQ(json["positions"].size(), 3u);
  EXPECT_EQ(json["positions"][1], Json({{"argmax", 2}, {"margin", 1.5}, {"nll", 3.0}}));
  EXPECT_TRUE(json["positions"][2]["nll"].is_null());
  EXPECT_EQ(json["positions"][2]["margin"], 2.5);
  EXPECT_FALSE(eval_json(where, info, false).contains("positions"));
}

TEST(EvalJson, OfOneTokenPredictsNothing) {
  const std::int32_t argmax[] = {1};
  const float one[] = {0.5f};
  quern_evaluation_info info{};
  info.count = 1;
  info.argmax = argmax;
  info.margin = one;
  info.nll = one;
  const Json json = eval_json(where, info, true);
  EXPECT_TRUE(json["nll_mean"].is_null());
  EXPECT_TRUE(json["perplexity"].is_null());
  EXPECT_TRUE(json["positions"][0]["nll"].is_null());
}

TEST(BenchJson, HasSpeedsSharesAndTheVerdict) {
  quern_bench_options options{};
  options.prompt_tokens = 512;
  options.decode_tokens = 128;
  options.repetitions = 5;
  options.batch = 1;
  quern_bench_result result{};
  result.prefill = {200, 1, 201, 199};
  result.decode = {40, 0.5, 41, 39};
  result.decode_bandwidth_share = 0.5;
  result.prefill_peak_share = 0.25;
  result.valid = 1;
  const Json json = bench_json(where, options, result);
  EXPECT_EQ(json["prefill"]["tokens_per_second"], 200.0);
  EXPECT_EQ(json["prefill"]["tokens"], 512);
  EXPECT_EQ(json["prefill"]["peak_share"], 0.25);
  EXPECT_EQ(json["decode"]["tokens_per_second"], 40.0);
  EXPECT_EQ(json["decode"]["deviation"], 0.5);
  EXPECT_EQ(json["decode"]["bandwidth_share"], 0.5);
  EXPECT_EQ(json["valid"], true);
  EXPECT_TRUE(json["peak_memory"].contains("resident_bytes"));
  result.valid = 0;
  EXPECT_EQ(bench_json(where, options, result)["valid"], false);
}

TEST(EstimateJson, GivesBytesAndMib) {
  quern_estimate_info info{};
  info.parameters = 7241732096;
  info.kv_bytes_f16 = 1 << 20;
  const Json json = estimate_json(info, {{"f32", 28966928384, true}, {"q4_k", 0, false}});
  EXPECT_EQ(json["parameters"], 7241732096);
  EXPECT_EQ(json["weights"]["f32"]["bytes"], 28966928384);
  EXPECT_NEAR(json["weights"]["f32"]["mib"].get<double>(), 27625.0, 0.05);  // shown with one decimal
  EXPECT_TRUE(json["weights"]["q4_k"].is_null());
  EXPECT_EQ(json["kv"]["f16"]["mib"], 1.0);
  EXPECT_TRUE(json["scratch_bytes"].is_null());
  EXPECT_TRUE(json["fits"].is_null());
}

}  // namespace
}  // namespace quern::cli
