// Which files of a repository are a model as a directory.
#include "directory_files.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> chosen(const std::vector<std::string>& paths) {
  const DirectoryFiles files = directory_files(paths);
  std::vector<std::string> names;
  for (const auto& at : {files.config, files.weights, files.index})
    if (at) names.push_back(paths[*at]);
  for (const std::size_t at : files.others) names.push_back(paths[at]);
  return names;
}

TEST(DirectoryFiles, AreSafetensorsAndWhatTheyNeed) {
  EXPECT_THAT(chosen({"LICENSE.txt", "config.json", "model.safetensors", "qwen.tiktoken", "additional_chat_templates/tools.jinja"}),
              ElementsAre("config.json", "model.safetensors", "LICENSE.txt", "qwen.tiktoken", "additional_chat_templates/tools.jinja"));
  EXPECT_THAT(chosen({"config.json", "model.safetensors.index.json"}), ElementsAre("config.json", "model.safetensors.index.json"));
  EXPECT_THAT(chosen({"config.json", "model.safetensors", "model.safetensors.index.json"}),
              ElementsAre("config.json", "model.safetensors"));
}

TEST(DirectoryFiles, AreNoPickleFilesFoldersOrOtherForms) {
  EXPECT_THAT(chosen({"pytorch_model.bin", "original/config.json", "consolidated.safetensors", "fp8/model.safetensors",
                      "model.fp16.safetensors", "additional_chat_templates/a/b.jinja", "onnx/model.onnx", "modeling_remote.py",
                      "training_args.json"}),
              ElementsAre());
  EXPECT_EQ(directory_files({"a", "pytorch_model.bin"}).pickle, 1u);
  EXPECT_FALSE(directory_files({"model.safetensors"}).is_model());
  EXPECT_TRUE(directory_files({"adapter_config.json"}).has_adapter);
}

TEST(DirectoryFiles, TheirSelectorIsReadInAnyCase) {
  EXPECT_TRUE(selects_directory("safetensors"));
  EXPECT_TRUE(selects_directory("SafeTensors"));
  EXPECT_FALSE(selects_directory("model.safetensors"));
}

TEST(DirectoryFiles, AnIndexNamesFilesBesideIt) {
  const auto shards = [](const std::string& map) { return shards_of_index("{\"weight_map\": {" + map + "}}", "index"); };
  EXPECT_THAT(shards(R"("a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors")"), ElementsAre("1.safetensors", "2.safetensors"));
  for (const char* name : {"\"../1.safetensors\"", "\"d/1.safetensors\"", "\"/1.safetensors\"", "\"1.bin\"", "\"\"", "1", "null"}) {
    try {
      shards(std::string(R"("a": )") + name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
      EXPECT_THAT(error.what(), HasSubstr("index: 'weight_map' has"));
    }
  }
}

}  // namespace
}  // namespace quern::hub
