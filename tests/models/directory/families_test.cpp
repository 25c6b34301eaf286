// Directories of the committed random models have the same numbers and the same bytes of tensors as their GGUF files, which compute what
// transformers computes (golden_test.cpp of models/architecture).
#include "refused_directory.hpp"

#include "quern/models/floats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace quern::test {
namespace {

quern_dtype as_it_lies(const gguf::TensorInfo& tensor) { return tensor.dtype; }
quern_dtype all_bf16(const gguf::TensorInfo&) { return QUERN_BF16; }
quern_dtype all_f32(const gguf::TensorInfo&) { return QUERN_F32; }
quern_dtype mixed(const gguf::TensorInfo& tensor) {
  constexpr quern_dtype types[] = {QUERN_BF16, QUERN_F32, QUERN_F16};
  return types[tensor.name.size() % 3];
}

/// What the graph reads of a tensor that was stored in `dtype`.
std::vector<std::byte> expected_bytes(const gguf::File& model, const gguf::TensorInfo& tensor, quern_dtype dtype) {
  const std::vector<float> numbers = models::decode_floats(tensor.dtype, model.data(tensor));
  const std::vector<std::byte> stored = models::encode_floats(dtype, numbers);
  if (tensor.n_dims > 1) return stored;
  return models::encode_floats(QUERN_F32, models::decode_floats(dtype, stored));  // norms and biases are widened
}

void expect_equal(const models::Hyperparameters& found, const models::Hyperparameters& wanted) {
  EXPECT_EQ(found.architecture, wanted.architecture);
  for (const auto field :
       {&models::Hyperparameters::layers, &models::Hyperparameters::hidden, &models::Hyperparameters::ffn, &models::Hyperparameters::heads,
        &models::Hyperparameters::kv_heads, &models::Hyperparameters::head_size, &models::Hyperparameters::value_size,
        &models::Hyperparameters::rope_size, &models::Hyperparameters::vocabulary, &models::Hyperparameters::context,
        &models::Hyperparameters::rope_scaling, &models::Hyperparameters::rope_original_context, &models::Hyperparameters::sliding_window})
    EXPECT_EQ(found.*field, wanted.*field);
  for (const auto field :
       {&models::Hyperparameters::rope_base, &models::Hyperparameters::rope_factor, &models::Hyperparameters::rope_mscale,
        &models::Hyperparameters::rope_beta_fast, &models::Hyperparameters::rope_beta_slow})
    EXPECT_EQ(found.*field, wanted.*field);
  for (const auto field : {&models::Hyperparameters::rope_factors, &models::Hyperparameters::attention_bias,
                           &models::Hyperparameters::output_bias, &models::Hyperparameters::qk_norm, &models::Hyperparameters::tied_head})
    EXPECT_EQ(found.*field, wanted.*field);
  EXPECT_EQ(found.norm_epsilon, wanted.norm_epsilon);
  EXPECT_EQ(found.pairing, wanted.pairing);
}

void expect_same_model(const gguf::File& model, const DirectoryForm& form) {
  const ScratchFolder scratch;
  write_directory(model, scratch.path("m"), form);
  const gguf::File found = models::open_model(scratch.path("m"));
  expect_equal(models::read_hyperparameters(found), models::read_hyperparameters(model));
  EXPECT_EQ(found.tensors().size(), model.tensors().size());
  for (const gguf::TensorInfo& wanted : model.tensors()) {
    const gguf::TensorInfo& tensor = found.require_tensor(wanted.name);
    EXPECT_TRUE(std::ranges::equal(tensor.dims, wanted.dims)) << wanted.name;
    const bool made = wanted.name == "rope_freqs.weight";
    const gguf::TensorBytes bytes = found.read(tensor);
    EXPECT_TRUE(std::ranges::equal(bytes.bytes(), expected_bytes(model, wanted, made ? QUERN_F32 : form.dtype(wanted)))) << wanted.name;
  }
}

class DirectoryFamilies : public testing::TestWithParam<std::string> {};

TEST_P(DirectoryFamilies, HaveTheTensorsAndNumbersOfTheirGguf) {
  const gguf::File model = gguf::File::open(test_data + "architecture/" + GetParam());
  expect_same_model(model, {1, Spelling::transformers5, as_it_lies});
  expect_same_model(model, {3, Spelling::transformers4, as_it_lies});
  expect_same_model(model, {3, Spelling::transformers5, all_bf16});
  expect_same_model(model, {1, Spelling::transformers4, all_f32});
  expect_same_model(model, {1, Spelling::transformers5, mixed});
}

INSTANTIATE_TEST_SUITE_P(Committed, DirectoryFamilies, testing::ValuesIn(committed_models()),
                         [](const auto& info) { return test_name(info.param); });

/// A llama of 3 layers in a folder, changed, and opened.
class DirectoryVariants : public testing::Test {
 protected:
  void SetUp() override { write_directory(gguf::File::open(test_data + "architecture/llama-11.gguf"), folder(), {}); }
  std::string folder() const { return scratch_.path("m"); }
  void config(const std::function<void(nlohmann::json&)>& change) { edit_json(folder() + "/config.json", change); }
  models::Hyperparameters shape() const { return models::read_hyperparameters(models::open_model(folder())); }

  ScratchFolder scratch_;
};

TEST_F(DirectoryVariants, ATextModelInsideAnotherOneIsRead) {
  const models::Hyperparameters before = shape();
  config([](nlohmann::json& json) {
    nlohmann::json inside = json;
    inside.erase("architectures");
    inside.erase("tie_word_embeddings");
    json = {{"architectures", {"LlavaForConditionalGeneration"}},
            {"model_type", "llava"},
            {"text_config", inside},
            {"tie_word_embeddings", json.at("tie_word_embeddings")},
            {"vision_config", nlohmann::json::object()}};
  });
  expect_equal(shape(), before);
}

TEST_F(DirectoryVariants, NumbersThatAreAbsentAreThoseOfTheClass) {
  config([](nlohmann::json& json) { json.erase("rms_norm_eps"); });
  EXPECT_EQ(shape().norm_epsilon, 1e-6f);
  config([](nlohmann::json& json) {
    json["architectures"] = {"MistralForCausalLM"};
    json.erase("sliding_window");
  });
  EXPECT_EQ(shape().sliding_window, 4096u);
  config([](nlohmann::json& json) { json["sliding_window"] = nullptr; });
  EXPECT_EQ(shape().sliding_window, 0u);
  config([](nlohmann::json& json) { json.erase("intermediate_size"); });
  EXPECT_THROW(shape(), Error);  // 14336, and the tensors are smaller
}

TEST_F(DirectoryVariants, TheNewSpellingOfTheRotationWins) {
  config([](nlohmann::json& json) {
    json["rope_theta"] = 777.0;
    json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
    json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5000.0}};
  });
  EXPECT_EQ(shape().rope_base, 5000);
  EXPECT_EQ(shape().rope_factor, 4);
  config([](nlohmann::json& json) { json.erase("rope_parameters"); });
  EXPECT_EQ(shape().rope_base, 777);
  EXPECT_EQ(shape().rope_factor, 2);
}

TEST_F(DirectoryVariants, YarnCountsItsMagnitudeOnce) {
  const auto mscale = [&](const nlohmann::json& more) {
    config([&](nlohmann::json& json) {
      json["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
      json["rope_parameters"].update(more);
    });
    return shape().rope_mscale;
  };
  EXPECT_NEAR(mscale(nlohmann::json::object()), 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(mscale({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}), 1);
  EXPECT_EQ(mscale({{"attention_factor", 1.25}}), 1.25);
}

TEST_F(DirectoryVariants, ATiedModelDoesNotReadItsHead) {
  config([](nlohmann::json& json) { json["tie_word_embeddings"] = true; });
  EXPECT_TRUE(shape().tied_head);
}

}  // namespace
}  // namespace quern::test
