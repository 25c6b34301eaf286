#include "variants.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> selectors(const std::vector<std::string>& paths) {
  const auto variants = variants_of(paths);
  std::vector<std::string> names;
  for (const Variant& variant : variants) names.push_back(selector_of(variants, variant));
  return names;
}

std::string chosen(const std::vector<std::string>& paths, const std::string& name) {
  const auto variants = variants_of(paths);
  return choose_variant(variants, parse_model_name(name, "https://hub.example")).first;
}

TEST(Quantisation, IsReadFromFileNamesAsPublishersWriteThem) {
  EXPECT_EQ(quantisation_of("SmolLM2-135M-Instruct.Q4_1.gguf"), "Q4_1");
  EXPECT_EQ(quantisation_of("qwen2.5-0.5b-instruct-q4_k_m.gguf"), "Q4_K_M");
  EXPECT_EQ(quantisation_of("BF16/Model-BF16-00001-of-00002.gguf"), "BF16");
  EXPECT_EQ(quantisation_of("Model-UD-Q2_K_XL.gguf"), "UD-Q2_K_XL");
  EXPECT_EQ(quantisation_of("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
  EXPECT_EQ(quantisation_of("m-IQ2_XXS.gguf"), "IQ2_XXS");
  EXPECT_EQ(quantisation_of("m-TQ1_0.gguf"), "TQ1_0");
  EXPECT_EQ(quantisation_of("Q8_0.gguf"), "Q8_0");
  EXPECT_EQ(quantisation_of("model.gguf"), "");
  EXPECT_EQ(quantisation_of("Qwen.gguf"), "");
  EXPECT_EQ(quantisation_of("model-Instruct.gguf"), "");
}

TEST(Variants, PartsBelongTogetherAndMissingOnesMakeNoModel) {
  const std::vector<std::string> paths = {"b-Q8_0-00002-of-00002.gguf", "a-F16.gguf", "b-Q8_0-00001-of-00002.gguf",
                                          "c-Q4_0-00001-of-00003.gguf"};
  const auto variants = variants_of(paths);
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[1].first, "b-Q8_0-00001-of-00002.gguf");
  EXPECT_THAT(variants[1].files, ElementsAre(2, 0));
}

TEST(Variants, ProjectorsMatricesAndOtherFilesAreNoModels) {
  EXPECT_THAT(selectors({"mmproj-F16.gguf", "imatrix.gguf", "README.md", "model.safetensors", ".gguf", "m-Q4_0.GGUF"}),
              ElementsAre("Q4_0"));
}

TEST(Variants, AQuantisationThatSeveralFilesHaveIsNoName) {
  EXPECT_THAT(selectors({"a-Q4_0.gguf", "b-Q4_0.gguf", "c.gguf", "d-F16.gguf"}),
              ElementsAre("a-Q4_0.gguf", "b-Q4_0.gguf", "c.gguf", "F16"));
}

TEST(Choice, IsTheOnlyModelOrQ4KM) {
  EXPECT_EQ(chosen({"a-Q8_0.gguf"}, "o/n"), "a-Q8_0.gguf");
  EXPECT_EQ(chosen({"a-Q8_0.gguf", "a-q4_k_m.gguf"}, "o/n"), "a-q4_k_m.gguf");
  EXPECT_EQ(chosen({"a-Q8_0.gguf", "a-Q4_0.gguf"}, "o/n:q8_0"), "a-Q8_0.gguf");
  EXPECT_EQ(chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "o/n:b-Q8_0.gguf"), "b-Q8_0.gguf");
}

TEST(Choice, RefusalsListWhatThereIs) {
  const auto refusal = [](const std::vector<std::string>& paths, const std::string& name) -> std::pair<quern_status, std::string> {
    try {
      return {QUERN_OK, chosen(paths, name)};
    } catch (const Error& error) { return {error.code(), error.what()}; }
  };
  const auto [several, list] = refusal({"a-Q8_0.gguf", "a-Q4_0.gguf"}, "o/n");
  EXPECT_EQ(several, QUERN_UNSUPPORTED);
  EXPECT_THAT(list, HasSubstr("Q4_0, Q8_0"));
  EXPECT_EQ(refusal({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "o/n:Q8_0").first, QUERN_UNSUPPORTED);
  EXPECT_EQ(refusal({"a-Q8_0.gguf"}, "o/n:F16").first, QUERN_NOT_FOUND);
  EXPECT_EQ(refusal({}, "o/n").first, QUERN_NOT_FOUND);
}

}  // namespace
}  // namespace quern::hub
