// Directories with one thing wrong, each beside a twin that is read. An error names the file and the field or tensor.
#include "refused_directory.hpp"

#include "quern/models/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>

namespace quern::test {
namespace {

using nlohmann::json;

const std::string index_name = "model.safetensors.index.json", second = "model-00002-of-00003.safetensors";

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Changes the header of a safetensors file; its length follows.
void edit_header(const std::string& path, const std::function<void(json&)>& change) {
  const std::string whole = read_text(path);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  json header = json::parse(whole.substr(8, length));
  change(header);
  const std::string text = header.dump(), data = whole.substr(8 + length);
  length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  write_text(path, out + text + data);
}

/// Puts a tensor's record into a header once more: the same name for the same bytes.
void repeat_in_header(const std::string& path) {
  const std::string whole = read_text(path);
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  const json header = json::parse(whole.substr(8, length));
  for (const auto& [name, record] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string text = concat("{", json(name).dump(), ":", record.dump(), ",", std::string_view(whole).substr(9, length - 1));
    const std::uint64_t longer = text.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &longer, 8);
    return write_text(path, out + text + whole.substr(8 + length));
  }
}

/// The second shard becomes that of another committed model.
auto shard_of(const std::string& model) {
  return [model](const RefusableDirectory& directory) {
    const ScratchFolder scratch;
    DirectoryForm form;
    form.files = 3;
    write_directory(gguf::File::open(test_data + "architecture/" + model), scratch.path("m"), form);
    std::filesystem::copy_file(scratch.path("m/" + second), directory.path(second), std::filesystem::copy_options::overwrite_existing);
  };
}

/// A tensor of the header, whichever comes first.
json& any_tensor(json& header) {
  for (auto& [name, record] : header.items())
    if (name != "__metadata__") return record;
  throw std::runtime_error("no tensor");
}

struct Malformed {
  std::string name, file, words;
  std::function<void(const RefusableDirectory&)> change;
};
void PrintTo(const Malformed& one, std::ostream* out) { *out << one.name; }

auto in_json(const std::string& file, std::function<void(json&)> change) {
  return [file, change](const RefusableDirectory& directory) { edit_json(directory.path(file), change); };
}
auto in_header(std::function<void(json&)> change) {
  return [change](const RefusableDirectory& directory) { edit_header(directory.path(second), change); };
}
auto config(std::function<void(json&)> change) { return in_json("config.json", std::move(change)); }
auto tokenizer(std::function<void(json&)> change) { return in_json("tokenizer.json", std::move(change)); }

std::vector<Malformed> malformed() {
  std::vector<Malformed> list = {
      // the files' headers
      {"HeaderBeyondTheFile", second, "the header's length is",
       [](const RefusableDirectory& directory) {
         std::string whole = read_text(directory.path(second));
         const std::uint64_t length = whole.size();
         std::memcpy(whole.data(), &length, 8);
         write_text(directory.path(second), whole);
       }},
      {"HeaderOfTerabytes", second, "the header's length is",
       [](const RefusableDirectory& directory) {
         std::string whole = read_text(directory.path(second));
         whole[6] = 1;
         write_text(directory.path(second), whole);
       }},
      {"Hole", second, "leave a gap",
       [](const RefusableDirectory& directory) {
         edit_header(directory.path(second), [](json& header) {
           for (auto& [name, record] : header.items())
             if (name != "__metadata__" && record["data_offsets"][0] != 0)
               for (auto& at : record["data_offsets"]) at = at.get<std::uint64_t>() + 4;
         });
         write_text(directory.path(second), read_text(directory.path(second)) + "four");
       }},
      {"Overlap", second, "inside another tensor", in_header([](json& header) {
         for (auto& [name, record] : header.items())
           if (name != "__metadata__" && record["data_offsets"][0] != 0)
             for (auto& at : record["data_offsets"]) at = at.get<std::uint64_t>() - 4;
       })},
      {"SizesThatDoNotMultiply", second, "of its shape takes", in_header([](json& header) { any_tensor(header)["dtype"] = "F64"; })},
      {"ShapeThatDoesNotMultiply", second, "of its shape takes", in_header([](json& header) {
         json& rows = any_tensor(header)["shape"][0];
         rows = rows.get<std::uint64_t>() + 1;
       })},
      {"NameTwiceInOneFile", second, "inside another tensor",
       [](const RefusableDirectory& directory) { repeat_in_header(directory.path(second)); }},
      {"CutOff", second, "the download is probably incomplete",
       [](const RefusableDirectory& directory) {
         std::filesystem::resize_file(directory.path(second), std::filesystem::file_size(directory.path(second)) - 4);
       }},
      {"NameTwiceInTwoFiles", "model-00003-of-00003.safetensors", "is there twice",
       [](const RefusableDirectory& directory) {
         edit_header(directory.path("model-00003-of-00003.safetensors"), [&](json& header) {
           const json others = json::parse(read_text(directory.path(index_name))).at("weight_map");
           for (auto& [name, record] : header.items())
             for (const auto& [other, file] : others.items())
               if (name != "__metadata__" && file == second) {
                 const std::string gone = name;  // it goes with its member
                 header[other] = record;
                 header.erase(gone);
                 edit_json(directory.path(index_name), [&](json& index) { index["weight_map"].erase(gone); });
                 return;
               }
           throw std::runtime_error("no tensor");
         });
       }},
      // the index
      {"ShardIsMissing", "model-00009-of-00003.safetensors", "names it",
       in_json(index_name, [](json& index) { index["weight_map"].front() = "model-00009-of-00003.safetensors"; })},
      {"ShardIsGone", second, "names it", [](const RefusableDirectory& directory) { std::filesystem::remove(directory.path(second)); }},
      {"ShardOfAnotherFamily", index_name, "that file has no such tensor", shard_of("qwen3-11.gguf")},
      {"ShardOfAnotherSize", second, "rows; config.json gives", shard_of("llama-03.gguf")},
      {"PathLeavesTheDirectory", index_name, "not a name inside the directory",
       in_json(index_name, [](json& index) { index["weight_map"].front() = "../m/" + second; })},
      {"AbsolutePath", index_name, "not a name inside the directory",
       in_json(index_name, [](json& index) { index["weight_map"].front() = "/etc/passwd"; })},
      {"TensorInAnotherFile", index_name, "that file has no such tensor",
       in_json(index_name,
               [](json& index) {
                 index["weight_map"]["model.norm.weight"] =
                     index["weight_map"]["model.norm.weight"] == second ? "model-00001-of-00003.safetensors" : second;
               })},
      {"IndexWithoutAMap", index_name, "'weight_map'", in_json(index_name, [](json& index) { index.erase("weight_map"); })},
      // config.json
      {"TextForANumber", "config.json", "'hidden_size' is not a whole number", config([](json& c) { c["hidden_size"] = "64"; })},
      {"TextForAFraction", "config.json", "'rms_norm_eps' is not a number", config([](json& c) { c["rms_norm_eps"] = "small"; })},
      {"LayersThatAreNotThere", "m", "is missing", config([](json& c) { c["num_hidden_layers"] = 1000; })},
      {"AFractionOfALayer", "config.json", "'num_hidden_layers' is not a whole number",
       config([](json& c) { c["num_hidden_layers"] = 1.5; })},
      {"MillionsOfLayers", "config.json", "'num_hidden_layers' is 1000000000",
       config([](json& c) { c["num_hidden_layers"] = 1000000000; })},
      {"NegativeHeads", "config.json", "'num_attention_heads'", config([](json& c) { c["num_attention_heads"] = -4; })},
      {"NoHeads", "config.json", "'num_attention_heads' is 0", config([](json& c) { c["num_attention_heads"] = 0; })},
      {"HeadsThatDoNotFitTheRows", "safetensors", "rows; config.json gives",
       config([](json& c) { c["head_dim"] = c["head_dim"].get<int>() * 2; })},
      {"RotationIsAList", "config.json", "'rope_parameters' is not an object",
       config([](json& c) { c["rope_parameters"] = json::array(); })},
      {"ScalingWithoutAFactor", "config.json", "rope_parameters.factor", config([](json& c) {
         c["rope_parameters"] = {{"rope_type", "linear"}};
       })},
      {"BaseOfZero", "config.json", "'rope_theta' is 0", config([](json& c) {
         c["rope_parameters"] = {{"rope_theta", 0}};
       })},
      {"LayerTypesOfOtherCount", "config.json", "'layer_types'", config([](json& c) {
         c["layer_types"] = {"full_attention"};
         c["num_hidden_layers"] = 2;
       })},
      {"EndIsNoToken", "config.json", "'eos_token_id' is 1000000", config([](json& c) { c["eos_token_id"] = 1000000; })},
      {"ArchitecturesIsText", "config.json", "'architectures'", config([](json& c) { c["architectures"] = "LlamaForCausalLM"; })},
      {"NotJson", "config.json", "not JSON", [](const RefusableDirectory& directory) { write_text(directory.path("config.json"), "{"); }},
      {"Deep", "config.json", "nested deeper",
       [](const RefusableDirectory& directory) { write_text(directory.path("config.json"), "{\"a\":" + std::string(100000, '[')); }},
      // tokenizer.json
      {"IdTwice", "tokenizer.json", "twice", tokenizer([](json& t) { t["model"]["vocab"]["another"] = 5; })},
      {"AddedIdTwice", "tokenizer.json", "twice", tokenizer([](json& t) {
         t["added_tokens"].push_back({{"id", 5}, {"content", "<|five|>"}, {"special", true}});
       })},
      {"HugeId", "tokenizer.json", "has the id 4000000000", tokenizer([](json& t) { t["model"]["vocab"]["another"] = 4000000000u; })},
      {"IdIsText", "tokenizer.json", "whole number as the id", tokenizer([](json& t) { t["model"]["vocab"]["another"] = "5"; })},
      {"MergesAreNumbers", "tokenizer.json", "'model.merges'", tokenizer([](json& t) {
         t["model"]["merges"] = {1, 2};
       })},
      {"MergeOfThree", "tokenizer.json", "'model.merges'", tokenizer([](json& t) {
         t["model"]["merges"] = {{"a", "b", "c"}};
       })},
      {"MergeOfUnknownTokens", "tokenizer.ggml.merges", "not in",
       tokenizer([](json& t) { t["model"]["merges"] = {"\u00e9\u00e9 \u00e8\u00e8"}; })},
      {"MergeOfOneToken", "tokenizer.ggml.merges", "is not two tokens with one space between them",
       tokenizer([](json& t) { t["model"]["merges"] = {"#"}; })},
      {"MergeWithoutItsResult", "tokenizer.ggml.merges", "", tokenizer([](json& t) { t["model"]["merges"] = {"# $"}; })},
      {"MillionsOfMerges", "tokenizer.json", "at most 1048576 are read",
       tokenizer([](json& t) { t["model"]["merges"] = std::vector<std::string>((1 << 20) + 1, "# $"); })},
      {"CharsmapIsNoBase64", "precompiled_charsmap", "base64 with another character at place 4", tokenizer([](json& t) {
         t["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA!AAA"}};
       })},
      {"CharsmapIsCut", "precompiled_charsmap", "its trie would have 1024", tokenizer([](json& t) {
         t["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAQAAAAA"}};
       })},
      {"ExpressionIsNone", "the expression '(a'", "without its ')'", tokenizer([](json& t) {
         t["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
       })},
      {"UnknownTokenIsNone", "'model.unk_token'", "which is no token", tokenizer([](json& t) { t["model"]["unk_token"] = "<nowhere>"; })},
      {"NoVocabulary", "tokenizer.json", "'model.vocab'", tokenizer([](json& t) { t["model"].erase("vocab"); })},
      {"TemplateOfNoToken", "tokenizer.json", "'post_processor'", tokenizer([](json& t) {
         t["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                {"special_tokens", json::object()}};
       })},
      {"BosIsNoToken", "tokenizer_config.json", "'bos_token'",
       in_json("tokenizer_config.json", [](json& c) { c["bos_token"] = "<|nowhere|>"; })},
  };
  return list;
}

class DirectoryMalformed : public testing::TestWithParam<Malformed> {};

TEST_P(DirectoryMalformed, IsRefusedWithTheFileAndTheReason) {
  const RefusableDirectory directory(3);
  ASSERT_EQ(directory.refusal().text, "");  // the twin
  GetParam().change(directory);
  const RefusableDirectory::Refusal refusal = directory.refusal();
  EXPECT_EQ(refusal.code, QUERN_BAD_MODEL) << refusal.text;
  EXPECT_NE(refusal.text.find(GetParam().file), std::string::npos) << refusal.text;
  EXPECT_NE(refusal.text.find(GetParam().words), std::string::npos) << refusal.text;
}

INSTANTIATE_TEST_SUITE_P(All, DirectoryMalformed, testing::ValuesIn(malformed()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quern::test
