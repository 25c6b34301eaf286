// The same vocabulary as tokenizer.json and in a GGUF file gives the same ids, ends and template.
#include "refused_directory.hpp"

#include "support/gguf_writer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern::test {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

/// A small model with the vocabulary of another file, as a directory.
void write_with_vocabulary(const gguf::File& vocabulary, const std::string& folder, Spelling spelling = Spelling::transformers5) {
  GgufWriter model = GgufWriter::copy_of(gguf::File::open(test_data + "architecture/llama-11.gguf"));
  std::erase_if(model.keys(), [](const GgufWriter::Key& key) { return key.name.starts_with("tokenizer."); });
  GgufWriter copied = GgufWriter::copy_of(vocabulary);
  for (GgufWriter::Key& key : copied.keys())
    if (key.name.starts_with("tokenizer.")) model.keys().push_back(key);
  const std::uint64_t tokens = vocabulary.require_strings("tokenizer.ggml.tokens").size(), rows = tokens + 3;
  model.u32("llama.vocab_size", static_cast<std::uint32_t>(rows));
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    GgufWriter::Tensor& tensor = model.tensor(name);
    tensor.dims[1] = rows;
    tensor.data.resize(tensor.dims[0] * rows * 2);  // f16
  }
  const GgufWriter::Bytes bytes = model.bytes();
  write_directory(gguf::File::from_memory(bytes, "vocabulary.gguf"), folder, {1, spelling, {}});
}

void expect_same_ids(const Tokenizer& found, const Tokenizer& wanted, const json& strings) {
  for (const json& one : strings) {
    const std::string text = one.get<std::string>();
    for (const bool parse_special : {true, false}) {
      const EncodeOptions options{.add_bos = std::nullopt, .add_eos = std::nullopt, .parse_special = parse_special};
      const Ids ids = wanted.encode(text, options);
      EXPECT_EQ(found.encode(text, options), ids) << one.dump();
      EXPECT_EQ(found.decode_bytes(ids), wanted.decode_bytes(ids)) << one.dump();
    }
  }
}

class DirectoryTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(DirectoryTokenizer, GivesTheIdsOfTheGgufFile) {
  const gguf::File vocabulary = gguf::File::open(test_data + "tokenizer/" + GetParam() + ".gguf");
  const auto wanted = tokenizer_from_gguf(vocabulary);
  for (const Spelling spelling : {Spelling::transformers4, Spelling::transformers5}) {
    const ScratchFolder scratch;
    write_with_vocabulary(vocabulary, scratch.path("m"), spelling);
    const gguf::File file = models::open_model(scratch.path("m"));
    const bool byte_level = vocabulary.require_string("tokenizer.ggml.model") == "gpt2";
    EXPECT_EQ(file.find_string("tokenizer.ggml.pre"), byte_level ? std::optional<std::string_view>(GetParam()) : std::nullopt);
    const auto found = tokenizer_from_gguf(file);
    EXPECT_EQ(found->size(), wanted->size() + 3);  // filled up to the rows of the table
    EXPECT_EQ(found->token_type(found->size() - 1), TokenType::unused);
    EXPECT_EQ(found->bos().has_value() && found->adds_bos(), wanted->adds_bos());
    EXPECT_EQ(found->eos(), wanted->eos());
    const json golden = json::parse(std::ifstream(test_data + "tokenizer/golden.json"));
    expect_same_ids(*found, *wanted, golden.at("plain_strings"));
    expect_same_ids(*found, *wanted, golden.at("marker_strings"));
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, DirectoryTokenizer, testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "sentencepiece"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(DirectorySmolLm2, GivesTheGoldenIds) {
  const char* const path = std::getenv("QUERN_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "QUERN_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf";
  const gguf::File vocabulary = gguf::File::open(path);
  const ScratchFolder scratch;
  write_with_vocabulary(vocabulary, scratch.path("m"));
  const auto found = tokenizer_from_gguf(models::open_model(scratch.path("m")));
  const json golden = json::parse(std::ifstream(test_data + "smollm2/golden.json"));
  for (const char* list : {"tokens", "texts"})
    for (const json& row : golden.at(list)) EXPECT_EQ(found->encode(row.at("text").get<std::string>()), row.at("ids").get<Ids>());
  for (const json& row : golden.at("chats"))
    EXPECT_EQ(found->encode(row.at("rendered").get<std::string>()), row.at("prompt_ids").get<Ids>());
  EXPECT_EQ(Ids(found->end_tokens().begin(), found->end_tokens().end()), (Ids{0, 2}));
}

/// tokenizer.json taken apart into vocab.json, merges.txt and tokenizer_config.json.
void write_legacy_files(const std::string& folder, const std::string& name) {
  const json tokenizer = json::parse(std::ifstream(folder + "/tokenizer.json"));
  write_text(folder + "/vocab.json", tokenizer["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const json& merge : tokenizer["model"]["merges"])
    merges += (merge.is_string() ? merge.get<std::string>() : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) + "\n";
  write_text(folder + "/merges.txt", merges);
  edit_json(folder + "/tokenizer_config.json", [&](json& config) {
    config["tokenizer_class"] = name;
    for (const json& token : tokenizer["added_tokens"]) config["added_tokens_decoder"][std::to_string(token["id"].get<int>())] = token;
  });
  std::filesystem::remove(folder + "/tokenizer.json");
}

TEST(DirectoryVocabularyAndMerges, GiveTheIdsOfTheGgufFile) {
  for (const auto& [rule, name] : {std::pair("gpt-2", "GPT2Tokenizer"), std::pair("qwen2", "Qwen2Tokenizer")}) {
    const gguf::File vocabulary = gguf::File::open(test_data + "tokenizer/" + rule + ".gguf");
    const ScratchFolder scratch;
    write_with_vocabulary(vocabulary, scratch.path("m"));
    write_legacy_files(scratch.path("m"), name);
    const gguf::File file = models::open_model(scratch.path("m"));
    EXPECT_EQ(file.find_string("tokenizer.ggml.pre"), rule);
    const json golden = json::parse(std::ifstream(test_data + "tokenizer/golden.json"));
    expect_same_ids(*tokenizer_from_gguf(file), *tokenizer_from_gguf(vocabulary), golden.at("marker_strings"));
    edit_json(scratch.path("m") + "/tokenizer_config.json", [](json& config) { config["tokenizer_class"] = "CodeGenTokenizer"; });
    EXPECT_THROW(models::open_model(scratch.path("m")), Error);
  }
}

// Metaspace with `first` puts its space at the start of a text alone; what follows a control token begins without.
TEST(DirectorySentencePiece, ASpaceAtTheStartAlone) {
  const gguf::File vocabulary = gguf::File::open(test_data + "tokenizer/sentencepiece.gguf");
  const auto gguf = tokenizer_from_gguf(vocabulary);
  const ScratchFolder scratch;
  write_with_vocabulary(vocabulary, scratch.path("m"));
  const auto with_scheme = [&](const std::string& scheme) {
    edit_json(scratch.path("m") + "/tokenizer.json", [&](json& tokenizer) {
      tokenizer["normalizer"] = nullptr;
      tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", false}};
    });
    return tokenizer_from_gguf(models::open_model(scratch.path("m")));
  };
  const std::string end(gguf->token_text(*gguf->eos())), text = "mill" + end + "mill";
  EXPECT_EQ(with_scheme("always")->encode(text), gguf->encode(text));
  const Ids first = with_scheme("first")->encode(text), never = with_scheme("never")->encode(text);
  const auto middle = std::ranges::find(first, *gguf->eos());
  const auto behind = std::ranges::find(never, *gguf->eos());
  ASSERT_NE(middle, first.end());
  EXPECT_EQ(Ids(middle, first.end()), Ids(behind, never.end()));
  EXPECT_NE(Ids(first.begin(), middle), Ids(never.begin(), behind));
}

// Merges that scores cannot give are computed as they are.
TEST(DirectorySentencePiece, OtherMergesAreReadAsSteps) {
  const gguf::File vocabulary = gguf::File::open(test_data + "tokenizer/sentencepiece.gguf");
  const ScratchFolder scratch;
  write_with_vocabulary(vocabulary, scratch.path("m"));
  const auto model = [&] { return std::string(models::open_model(scratch.path("m")).require_string("tokenizer.ggml.model")); };
  EXPECT_EQ(model(), "llama");
  edit_json(scratch.path("m") + "/tokenizer.json", [](json& tokenizer) { tokenizer["model"]["merges"].erase(0); });
  EXPECT_EQ(model(), "huggingface");
  EXPECT_NO_THROW(tokenizer_from_gguf(models::open_model(scratch.path("m"))));
}

class DirectoryTexts : public testing::Test {
 protected:
  RefusableDirectory directory{1};
  gguf::File open() const { return models::open_model(directory.folder()); }
  void tokenizer_config(const json& more) const {
    edit_json(directory.path("tokenizer_config.json"), [&](json& config) { config.update(more); });
  }
};

TEST_F(DirectoryTexts, EveryEndOfAnyFileEndsAnAnswer) {
  write_text(directory.path("generation_config.json"), R"({"eos_token_id": [3, 4, 5, 6]})");
  edit_json(directory.path("config.json"), [](json& config) { config["eos_token_id"] = 7; });
  const auto tokenizer = tokenizer_from_gguf(open());
  for (const std::int32_t id : {3, 4, 5, 6, 7}) EXPECT_TRUE(tokenizer->is_end(id)) << id;
  EXPECT_FALSE(tokenizer->is_end(8));
}

TEST_F(DirectoryTexts, TheTemplateOfAFileOfItsOwnWins) {
  tokenizer_config({{"chat_template", "inside"}});
  EXPECT_EQ(open().find_string("tokenizer.chat_template"), "inside");
  tokenizer_config({{"chat_template", {{{"name", "default"}, {"template", "first"}}, {{"name", "tool_use"}, {"template", "second"}}}}});
  EXPECT_EQ(open().find_string("tokenizer.chat_template"), "first");
  EXPECT_EQ(open().find_string("tokenizer.chat_template.tool_use"), "second");
  write_text(directory.path("chat_template.jinja"), "beside");
  EXPECT_EQ(open().find_string("tokenizer.chat_template"), "beside");
}

TEST_F(DirectoryTexts, ATextBeginsWithWhatThePostProcessorPutsThere) {
  EXPECT_FALSE(tokenizer_from_gguf(open())->adds_bos());
  tokenizer_config({{"add_bos_token", true}, {"bos_token", tokenizer_from_gguf(open())->token_text(3)}});
  EXPECT_TRUE(tokenizer_from_gguf(open())->adds_bos());  // no template of its own
  edit_json(directory.path("tokenizer.json"), [](json& tokenizer) {
    tokenizer["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", {{{"Sequence", {{"id", "A"}}}}}}, {"special_tokens", json::object()}};
  });
  EXPECT_FALSE(tokenizer_from_gguf(open())->adds_bos());
  edit_json(directory.path("tokenizer.json"), [](json& tokenizer) {
    tokenizer["post_processor"]["single"] = {{{"SpecialToken", {{"id", "begin"}}}}, {{"Sequence", {{"id", "A"}}}}};
    tokenizer["post_processor"]["special_tokens"] = {{"begin", {{"ids", {4}}}}};
  });
  const auto tokenizer = tokenizer_from_gguf(open());
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->bos(), 4);
}

// A vocabulary of a tokenizer that cuts texts is read without its cut.
TEST_F(DirectoryTexts, TruncationAndPaddingAreIgnored) {
  const Ids before = tokenizer_from_gguf(open())->encode("many words of a text");
  edit_json(directory.path("tokenizer.json"), [](json& tokenizer) {
    tokenizer["truncation"] = {{"max_length", 1}, {"strategy", "LongestFirst"}, {"stride", 0}};
    tokenizer["padding"] = {{"pad_id", 0}};
  });
  EXPECT_EQ(tokenizer_from_gguf(open())->encode("many words of a text"), before);
}

}  // namespace
}  // namespace quern::test
