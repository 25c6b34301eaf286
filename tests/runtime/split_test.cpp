// A model on two plugins: the sample plugin (own memory, three ops) in front of the CPU.
#include "api_support.hpp"

#include <cstring>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 50, 51, 52};

quern_runtime_options with_sample() {
  quern_runtime_options options{};
  options.backend = "sample,cpu";
  options.backend_extra_path = QUERN_SAMPLE_DIRECTORY;
  options.deterministic = QUERN_DETERMINISTIC_ON;
  return options;
}

TEST(Split, GivesTheCpusTokensAndReportsEveryCut) {
  const quern_model_options exact{
      .struct_size = 0, .context = 128, .sequences = 1, .activations = QUERN_ACTIVATIONS_F32, .kv = QUERN_KV_F32};
  const auto cpu = make_runtime();
  const auto cpu_model = load(cpu.get(), model_path("micro-llama-f32.gguf"), exact);
  const auto cpu_session = make_session(cpu_model.get());
  const auto expected = draw(cpu_session.get(), request(prompt, 0, 16));

  const auto runtime = make_runtime(with_sample());
  const auto model = load(runtime.get(), model_path("micro-llama-f32.gguf"), exact);
  ASSERT_NE(model, nullptr);
  const auto session = make_session(model.get());
  EXPECT_EQ(draw(session.get(), request(prompt, 0, 16)), expected);

  quern_statistics* statistics = nullptr;
  ASSERT_EQ(quern_session_statistics(session.get(), &statistics), QUERN_OK);
  const Handle<quern_statistics> owner(statistics);
  quern_statistics_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_statistics_get_info(statistics, &info), QUERN_OK);
  EXPECT_EQ(info.devices, 2u);
  EXPECT_GT(info.cuts, 0u);
  for (std::uint64_t i = 0; i < info.cuts; ++i) {
    quern_statistics_cut cut{};
    cut.struct_size = sizeof(cut);
    ASSERT_EQ(quern_statistics_get_cut(statistics, i, &cut), QUERN_OK);
    EXPECT_STRNE(cut.from, cut.to);
    EXPECT_GT(std::strlen(cut.reason), 0u);
    EXPECT_GT(cut.bytes_per_token, 0u);
  }
}

TEST(Split, BenchMeasuresThePeaksOfADeviceWithItsOwnMemory) {
  const auto runtime = make_runtime(with_sample());
  const auto model = load(runtime.get(), model_path("micro-llama-f32.gguf"), {.struct_size = 0, .context = 64, .sequences = 1});
  ASSERT_NE(model, nullptr);
  quern_bench_options options{};
  options.struct_size = sizeof options;
  options.prompt_tokens = options.decode_tokens = 8;
  options.repetitions = 1;
  quern_bench_result result{};
  result.struct_size = sizeof result;
  ASSERT_EQ(quern_bench(model.get(), &options, &result), QUERN_OK) << quern_last_error();
  EXPECT_GT(result.read_bytes_per_second, 0);
  EXPECT_GT(result.decode_bandwidth_share, 0);
  // The CPU computes a part of the prefill, so the whole may be faster than the sample's product alone: then there is no peak to quote.
  EXPECT_EQ(result.multiply_adds_per_second > 0, result.prefill_peak_share > 0);
  EXPECT_LE(result.prefill_peak_share, 1.05);
}

TEST(Split, StrictRefusesNamingWhatIsMissing) {
  quern_runtime_options options = with_sample();
  options.fallback = "strict";
  const auto runtime = make_runtime(options);
  quern_model* model = nullptr;
  EXPECT_EQ(quern_model_load(runtime.get(), model_path("micro-llama-f32.gguf").c_str(), nullptr, &model), QUERN_UNSUPPORTED);
  EXPECT_NE(std::strstr(quern_last_error(), "strict"), nullptr) << quern_last_error();
  EXPECT_NE(std::strstr(quern_last_error(), "get_rows"), nullptr) << quern_last_error();
}

}  // namespace
}  // namespace quern::test
