// llama, qwen2 and qwen3 through the C API and the CPU plugin, against what transformers computed in f32
// (scripts/make_architecture_goldens.py; 20 small random configurations of each and more).
#include "api_support.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace quern::test {
namespace {

// Both sides sum in f32. A product of up to 64 terms errs by at most (2 sqrt(64) + 8) 2^-24 S, S below 50 here: 7e-5; three
// layers of about ten such steps, each at most doubled by the next norm, stay below 1e-3.
constexpr float logit_tolerance = 1e-3f;
constexpr float decided = 0.01f;  // where the two best logits are closer, either may win

TEST(ArchitectureGoldens, LogitsAreThoseOfTransformers) {
  const std::string folder = std::string(QUERN_SOURCE_DIR) + "/tests/data/architecture/";
  std::ifstream file(folder + "goldens.json");
  const auto goldens = nlohmann::json::parse(file);
  const auto runtime = make_runtime();
  std::map<std::string, int> seen;
  for (const auto& golden : goldens.at("models")) {
    const std::string name = golden.at("name");
    SCOPED_TRACE(name + ": " + golden.at("summary").get<std::string>());
    const auto model = load(runtime.get(), folder + golden.at("file").get<std::string>(),
                            {.struct_size = 0, .context = 0, .sequences = 1, .activations = QUERN_ACTIVATIONS_F32, .kv = QUERN_KV_F32});
    ASSERT_NE(model, nullptr);
    const auto session = make_session(model.get());
    const std::vector<std::int32_t> ids = golden.at("ids");
    quern_evaluation* evaluation = nullptr;
    ASSERT_EQ(quern_evaluate(session.get(), 0, ids.data(), ids.size(), QUERN_EVALUATE_LOGITS, &evaluation), QUERN_OK) << quern_last_error();
    const Handle<quern_evaluation> owner(evaluation);
    quern_evaluation_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(quern_evaluation_get_info(evaluation, &info), QUERN_OK);
    const std::vector<std::int32_t> argmax = golden.at("argmax");
    const std::vector<float> margin = golden.at("margin");
    ASSERT_EQ(info.count, argmax.size());
    for (std::size_t i = 0; i < argmax.size(); ++i) {
      if (margin[i] > decided) EXPECT_EQ(info.argmax[i], argmax[i]) << "position " << i;
    }
    const std::vector<float> logits = golden.at("last_logits");
    ASSERT_EQ(info.logit_count, logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(info.logits[i], logits[i], logit_tolerance) << "token " << i;
    ++seen[golden.at("architecture")];
  }
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) EXPECT_GE(seen[architecture], 20) << architecture;
}

}  // namespace
}  // namespace quern::test
