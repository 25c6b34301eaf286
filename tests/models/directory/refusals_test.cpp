// Directories that are sound and not read here: each is refused by name, with what to do instead.
#include "refused_directory.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace quern::test {
namespace {

using nlohmann::json;

struct Unsupported {
  std::string name, words;
  std::function<void(const RefusableDirectory&)> change;
};
void PrintTo(const Unsupported& one, std::ostream* out) { *out << one.name; }

auto config_with(const json& more) {
  return
      [more](const RefusableDirectory& directory) { edit_json(directory.path("config.json"), [&](json& config) { config.update(more); }); };
}
auto tokenizer_with(std::function<void(json&)> change) {
  return [change](const RefusableDirectory& directory) { edit_json(directory.path("tokenizer.json"), change); };
}

std::vector<Unsupported> unsupported() {
  return {
      {"Pickle", "'pytorch_model.bin', a pickle file",
       [](const RefusableDirectory& directory) {
         std::filesystem::rename(directory.path("model.safetensors"), directory.path("pytorch_model.bin"));
       }},
      {"OtherNames", "neither model.safetensors nor model.safetensors.index.json",
       [](const RefusableDirectory& directory) {
         std::filesystem::rename(directory.path("model.safetensors"), directory.path("consolidated.safetensors"));
       }},
      {"AdapterWithoutBase", "is an adapter without its base, which is 'owner/base'; run the base with --adapter",
       [](const RefusableDirectory& directory) {
         std::filesystem::remove(directory.path("config.json"));
         write_text(directory.path("adapter_config.json"), R"({"base_model_name_or_path": "owner/base"})");
       }},
      {"RemoteCode", "'auto_map' names code of the model's own",
       config_with({{"architectures", {"MyForCausalLM"}}, {"model_type", "mine"}, {"auto_map", {{"AutoConfig", "my.Config"}}}})},
      {"UnknownType", "'model_type' is 'mamba', which is not known; this version has llama, mistral, qwen2, qwen3",
       config_with({{"architectures", {"MambaForCausalLM"}}, {"model_type", "mamba"}})},
      {"UnknownClassOfAKnownType", "'architectures' is 'LlamaForSequenceClassification'",
       config_with({{"architectures", {"LlamaForSequenceClassification"}}})},
      {"Experts", "mixtures of experts",
       config_with({{"architectures", {"MixtralForCausalLM"}}, {"model_type", "mixtral"}, {"num_local_experts", 8}})},
      {"Mlx", "written by MLX", config_with({{"quantization", {{"group_size", 64}, {"bits", 4}}}})},
      {"Hqq", "quantised by 'hqq'; this version reads AWQ", config_with({{"quantization_config", {{"quant_method", "hqq"}}}})},
      {"GptqOfThreeBits", "'quantization_config.bits' is 3",
       config_with({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 3}}}})},
      {"NamelessQuantisation", "quantised;", config_with({{"quantization_config", json::object()}})},
      {"Activation", "'hidden_act' is 'gelu'", config_with({{"hidden_act", "gelu"}})},
      {"Scaling", "'rope_parameters.rope_type' is 'longrope'", config_with({{"rope_parameters", {{"rope_type", "longrope"}}}})},
      {"WindowInSomeLayers", "some of the layers",
       [](const RefusableDirectory& directory) {
         edit_json(directory.path("config.json"), [](json& config) {
           config["layer_types"] = std::vector<std::string>(config.at("num_hidden_layers"), "full_attention");
           config["layer_types"][0] = "sliding_attention";
         });
       }},
      {"NoTokenizer", "has no tokenizer.json",
       [](const RefusableDirectory& directory) { std::filesystem::remove(directory.path("tokenizer.json")); }},
      {"OtherModel", "'model' has a step 'Lattice' that is not computed", tokenizer_with([](json& t) { t["model"]["type"] = "Lattice"; })},
      {"OtherExpression", "the back-reference or octal code", tokenizer_with([](json& t) {
         t["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a)\\1"}}}, {"behavior", "Isolated"}, {"invert", false}};
       })},
      {"OtherPreTokenizer", "'pre_tokenizer' has a step 'UnicodeScripts'", tokenizer_with([](json& t) {
         t["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       })},
      {"OtherNormalizer", "'normalizer' has a step 'Cyrillic'", tokenizer_with([](json& t) {
         t["normalizer"] = {{"type", "Cyrillic"}};
       })},
      {"Dropout", "'model.dropout' is set", tokenizer_with([](json& t) { t["model"]["dropout"] = 0.1; })},
  };
}

class DirectoryUnsupported : public testing::TestWithParam<Unsupported> {};

TEST_P(DirectoryUnsupported, IsRefusedByName) {
  const RefusableDirectory directory(1);
  ASSERT_EQ(directory.refusal().text, "");  // the twin
  GetParam().change(directory);
  const RefusableDirectory::Refusal refusal = directory.refusal();
  EXPECT_EQ(refusal.code, QUERN_UNSUPPORTED) << refusal.text;
  EXPECT_TRUE(refusal.text.starts_with(directory.folder())) << refusal.text;
  EXPECT_NE(refusal.text.find(GetParam().words), std::string::npos) << refusal.text;
}

INSTANTIATE_TEST_SUITE_P(All, DirectoryUnsupported, testing::ValuesIn(unsupported()), [](const auto& info) { return info.param.name; });

TEST(DirectoryKinds, AFolderWithoutAModelSaysWhatAModelIs) {
  const ScratchFolder scratch;
  std::filesystem::create_directory(scratch.path("m"));
  const auto text = [&] {
    try {
      models::open_model(scratch.path("m"));
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_NE(text().find("is a folder, not a file, and has no config.json"), std::string::npos) << text();
  write_text(scratch.path("m") + "/some.gguf", "GGUF");
  EXPECT_NE(text().find("name a GGUF file in it, such as 'some.gguf'"), std::string::npos) << text();
}

// Code of the model's own is not needed for a class that is known.
TEST(DirectoryKinds, AKnownClassWithCodeOfItsOwnIsRead) {
  const RefusableDirectory directory(1);
  config_with({{"auto_map", {{"AutoConfig", "my.Config"}}}})(directory);
  EXPECT_EQ(directory.refusal().text, "");
}

}  // namespace
}  // namespace quern::test
