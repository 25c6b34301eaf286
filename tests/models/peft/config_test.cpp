// adapter_config.json of other releases: what is ignored, what is refused by name, what is malformed.
#include "samples.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ostream>

namespace quern::test {
namespace {

using nlohmann::json;

peft::Adapter read(const json& config) { return peft::read_memory(config.dump(), small_tensors(), "a"); }
json small() { return json::parse(small_config()); }
json with(const std::string& key, const json& value) {
  json config = small();
  config[key] = value;
  return config;
}

TEST(PeftConfig, ReadsTheKeysOf2023) {
  const json config = {{"auto_mapping", nullptr},
                       {"base_model_name_or_path", "some/base"},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"inference_mode", true},
                       {"init_lora_weights", true},
                       {"layers_pattern", nullptr},
                       {"layers_to_transform", nullptr},
                       {"lora_alpha", 4},
                       {"lora_dropout", 0.05},
                       {"modules_to_save", nullptr},
                       {"peft_type", "LORA"},
                       {"r", 2},
                       {"revision", nullptr},
                       {"target_modules", {"q_proj", "down_proj"}},
                       {"task_type", "CAUSAL_LM"}};
  const peft::Adapter adapter = read(config);
  EXPECT_EQ(adapter.dropout, 0.05);
  EXPECT_EQ(adapter.scale(adapter.matrices[0]), 2);
}

TEST(PeftConfig, WhatIsOffChangesNothing) {
  json config = small();
  config["of_a_later_release"] = nullptr;
  config["use_later"] = false;
  config["later_config"] = json::object();
  config["later_modules"] = json::array();
  config["use_dora"] = nullptr;
  config["modules_to_save"] = json::array();
  config["lora_alpha"] = 4.0;
  config["init_lora_weights"] = "gaussian";
  config["loftq_config"] = {{"loftq_bits", 4}};
  config["qalora_group_size"] = 32;
  config["layers_to_transform"] = {0, 1};
  expect_equal(read(config), small_adapter());
}

TEST(PeftConfig, TargetModulesMayBeTextAndLongerNames) {
  expect_equal(read(with("target_modules", "all-linear")), small_adapter());
  expect_equal(read(with("target_modules", "^(?:.*?(?:self_attn|mlp).*)$")), small_adapter());
  expect_equal(read(with("target_modules", {"self_attn.q_proj", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"})),
               small_adapter());
}

TEST(PeftConfig, TheFirstKeyOfAPatternThatAppliesCounts) {
  // Text, because the tree that makes the other cases sorts its keys.
  const auto scales = [](const std::string& pattern) {
    std::string text = small_config();
    const std::string empty = "\"alpha_pattern\": {}";
    text.replace(text.find(empty), empty.size(), "\"alpha_pattern\": " + pattern);
    const peft::Adapter adapter = peft::read_memory(text, small_tensors(), "a");
    std::vector<double> found;
    for (const auto& matrix : adapter.matrices) found.push_back(adapter.scale(matrix));
    return found;
  };
  EXPECT_EQ(scales("{}"), (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(scales("{\"q_proj\": 6}"), (std::vector<double>{3, 2, 3, 2}));
  EXPECT_EQ(scales("{\"layers.0.self_attn.q_proj\": 8, \"q_proj\": 6}"), (std::vector<double>{4, 2, 3, 2}));
  EXPECT_EQ(scales("{\"q_proj\": 6, \"layers.0.self_attn.q_proj\": 8}"), (std::vector<double>{3, 2, 3, 2}));
  EXPECT_EQ(scales("{\"^model.layers.1.mlp.down_proj\": 6}"), (std::vector<double>{2, 2, 2, 3}));
  EXPECT_EQ(scales("{\"^layers.1.mlp.down_proj\": 6, \"roj\": 6}"), (std::vector<double>{2, 2, 2, 2}));
}

struct Refused {
  std::string name, key;
  json value;
  quern_status code;
  std::string words;
};
void PrintTo(const Refused& one, std::ostream* out) { *out << one.name; }

class PeftConfigRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(PeftConfigRefused, NamesTheFileAndTheKey) {
  const Refused& one = GetParam();
  const std::string text = refusal(one.code, [&] { read(with(one.key, one.value)); });
  EXPECT_TRUE(text.starts_with("a/adapter_config.json: key '" + one.key + "': ")) << text;
  EXPECT_NE(text.find(one.words), std::string::npos) << text;
}

const Refused refused[] = {
    {"Dora", "use_dora", true, QUERN_UNSUPPORTED, "DoRA"},
    {"Alora", "alora_invocation_tokens", {1, 2}, QUERN_UNSUPPORTED, "aLoRA"},
    {"ModulesToSave", "modules_to_save", {"lm_head"}, QUERN_UNSUPPORTED, "trained whole"},
    {"Bias", "bias", "lora_only", QUERN_UNSUPPORTED, "'lora_only'"},
    {"FanIn", "fan_in_fan_out", true, QUERN_UNSUPPORTED, "transposed"},
    {"Replication", "layer_replication", {{0, 1}}, QUERN_UNSUPPORTED, "several times"},
    {"TokenIndices", "trainable_token_indices", {5}, QUERN_UNSUPPORTED, "embedding"},
    {"LoraBias", "lora_bias", true, QUERN_UNSUPPORTED, "biases of B"},
    {"Qalora", "use_qalora", true, QUERN_UNSUPPORTED, "QALoRA"},
    {"Bdlora", "use_bdlora", {{"nblocks", 2}}, QUERN_UNSUPPORTED, "block-diagonal"},
    {"Parameters", "target_parameters", {"mlp.experts"}, QUERN_UNSUPPORTED, "parameters"},
    {"Arrow", "arrow_config", {{"top_k", 3}}, QUERN_UNSUPPORTED, "Arrow"},
    {"Pissa", "init_lora_weights", "pissa_niter_16", QUERN_UNSUPPORTED, "changes the base"},
    {"UnknownAndOn", "of_a_later_release", 3, QUERN_UNSUPPORTED, "not known"},
    {"UnknownZero", "of_a_later_release", 0, QUERN_UNSUPPORTED, "not known"},
    {"Loha", "peft_type", "LOHA", QUERN_UNSUPPORTED, "'LOHA'"},
    {"RegexPattern", "alpha_pattern", {{".*q_proj", 3}}, QUERN_UNSUPPORTED, "regular expressions"},
    {"RegexRank", "rank_pattern", {{"(q|k)_proj", 3}}, QUERN_UNSUPPORTED, "regular expressions"},
    {"NoRank", "r", nullptr, QUERN_BAD_MODEL, "is missing"},
    {"NoAlpha", "lora_alpha", nullptr, QUERN_BAD_MODEL, "is missing"},
    {"NoKind", "peft_type", nullptr, QUERN_BAD_MODEL, "is missing"},
    {"RankZero", "r", 0, QUERN_BAD_MODEL, "rank"},
    {"RankNegative", "r", -2, QUERN_BAD_MODEL, "rank"},
    {"RankOfAFraction", "r", 2.5, QUERN_BAD_MODEL, "rank"},
    {"RankHuge", "r", std::uint64_t{1} << 63, QUERN_BAD_MODEL, "rank"},
    {"RankOfText", "r", "2", QUERN_BAD_MODEL, "rank"},
    {"AlphaZero", "lora_alpha", 0, QUERN_BAD_MODEL, "change nothing"},
    {"AlphaOfText", "lora_alpha", "16", QUERN_BAD_MODEL, "not a number"},
    {"RsloraOfANumber", "use_rslora", 1, QUERN_BAD_MODEL, "neither true nor false"},
    {"BaseOfANumber", "base_model_name_or_path", 5, QUERN_BAD_MODEL, "not text"},
    {"ModulesOfNumbers", "target_modules", {1}, QUERN_BAD_MODEL, "not text"},
    {"ModulesAreAnObject", "target_modules", {{"q_proj", true}}, QUERN_BAD_MODEL, "neither a list nor text"},
    {"PatternIsAList", "rank_pattern", {2}, QUERN_BAD_MODEL, "not an object"},
    {"PatternOfText", "alpha_pattern", {{"q_proj", "a"}}, QUERN_BAD_MODEL, "not a number"},
    {"PatternRankZero", "rank_pattern", {{"q_proj", 0}}, QUERN_BAD_MODEL, "rank"},
};
INSTANTIATE_TEST_SUITE_P(Each, PeftConfigRefused, ::testing::ValuesIn(refused), [](const auto& one) { return one.param.name; });

TEST(PeftConfig, WhatIsNoObjectIsRefused) {
  for (const std::string text : {"", "[]", "5", "{", "{\"r\": 2", "\xff"}) {
    const std::string why = refusal(QUERN_BAD_MODEL, [&] { peft::read_memory(text, small_tensors(), "a"); });
    EXPECT_TRUE(why.starts_with("a/adapter_config.json: is not")) << why;
  }
  EXPECT_NE(refusal(QUERN_BAD_MODEL, [] { peft::read_memory(std::string(1000, '['), small_tensors(), "a"); }).find("deeper"),
            std::string::npos);
}

}  // namespace
}  // namespace quern::test
