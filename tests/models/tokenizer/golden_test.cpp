// Ids equal to those of the reference libraries, for every rule, on the strings of
// tests/data/tokenizer/golden.json. scripts/train_tokenizers.py makes the data.
#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include "support/gguf_writer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::test {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string data_directory = QUERN_SOURCE_DIR "/tests/data/tokenizer/";

const nlohmann::json& golden() {
  static const nlohmann::json json = nlohmann::json::parse(std::ifstream(data_directory + "golden.json"));
  return json;
}

std::unique_ptr<Tokenizer> load(const std::string& name) { return tokenizer_from_gguf(gguf::File::open(data_directory + name + ".gguf")); }

// Without the beginning of text that SentencePiece files ask for.
Ids encode(const Tokenizer& tokenizer, const std::string& text, bool parse_special = true) {
  return tokenizer.encode(text, {.add_bos = false, .add_eos = false, .parse_special = parse_special});
}

void expect_equal_ids(const Tokenizer& tokenizer, const nlohmann::json& strings, const nlohmann::json& ids, bool parse_special) {
  ASSERT_EQ(strings.size(), ids.size());
  for (std::size_t i = 0; i < strings.size(); ++i)
    EXPECT_EQ(encode(tokenizer, strings[i].get<std::string>(), parse_special), ids[i].get<Ids>()) << strings[i].dump();
}

TEST(Golden, HasTwoHundredStrings) { EXPECT_GE(golden()["plain_strings"].size(), 200u); }

class EveryModel : public testing::TestWithParam<const char*> {};

TEST_P(EveryModel, GivesTheIdsOfTheReferenceLibrary) {
  const bool parse_special = !std::string_view(GetParam()).starts_with("sentencepiece");  // that library never does
  expect_equal_ids(*load(GetParam()), golden()["plain_strings"], golden()["models"][GetParam()]["plain"], parse_special);
}

TEST_P(EveryModel, TakesTheNamesOfControlTokensAsTextWhereTheyAreNotParsed) {
  expect_equal_ids(*load(GetParam()), golden()["marker_strings"], golden()["models"][GetParam()]["unparsed"], false);
}

std::string test_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Golden, EveryModel,
    testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "sentencepiece", "sentencepiece-unk", "sentencepiece-unused"), test_name);

class ByteLevelModel : public testing::TestWithParam<const char*> {};

TEST_P(ByteLevelModel, FindsMarkersInTextAsTheReferenceLibraryDoes) {
  expect_equal_ids(*load(GetParam()), golden()["marker_strings"], golden()["models"][GetParam()]["markers"], true);
}

TEST_P(ByteLevelModel, DecodesWhatItEncoded) {
  const auto tokenizer = load(GetParam());
  const bool composes = std::string(GetParam()) == "qwen2";
  int checked = 0;
  for (const char* set : {"plain_strings", "marker_strings"}) {
    for (const std::string text : golden()[set]) {
      const std::string once = tokenizer->decode(encode(*tokenizer, text));
      // Form C may differ from the text, but is its own form C.
      EXPECT_EQ(tokenizer->decode(encode(*tokenizer, once)), once);
      if (!composes) { EXPECT_EQ(once, text); }
      ++checked;
    }
  }
  EXPECT_GE(checked, 200);
}

INSTANTIATE_TEST_SUITE_P(Golden, ByteLevelModel, testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2"), test_name);

class SentencePieceModel : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceModel, DecodesAsTheReferenceLibrary) {
  const auto tokenizer = load(GetParam());
  const auto& strings = golden()["plain_strings"];
  const auto& decoded = golden()["models"][GetParam()]["decoded"];
  ASSERT_EQ(strings.size(), decoded.size());
  int checked = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const Ids ids = encode(*tokenizer, strings[i], false);
    // The library spells the unknown token as " ?? " with double question marks; here it keeps its name.
    if (std::ranges::find(ids, tokenizer->unknown().value()) != ids.end()) continue;
    EXPECT_EQ(tokenizer->decode(ids), decoded[i].get<std::string>()) << strings[i].dump();
    ++checked;
  }
  EXPECT_GE(checked, 60);
}

INSTANTIATE_TEST_SUITE_P(Golden, SentencePieceModel, testing::Values("sentencepiece", "sentencepiece-unk", "sentencepiece-unused"),
                         test_name);

void expect_equal_ids(const Tokenizer& tokenizer, const nlohmann::json& ids_by_string) {
  ASSERT_GE(ids_by_string.size(), 15u);
  for (const auto& [text, ids] : ids_by_string.items()) EXPECT_EQ(encode(tokenizer, text), ids.get<Ids>()) << text;
}

TEST(Golden, StartsEachTextBetweenControlTokensWithASpaceInSentencePiece) {
  expect_equal_ids(*load("sentencepiece"), golden()["models"]["sentencepiece"]["markers"]);
}

TEST(Golden, GivesTheWhiteSpaceAfterAControlTokenToItInPhi3) {
  GgufWriter writer = GgufWriter::copy_of(gguf::File::open(data_directory + "sentencepiece.gguf"));
  writer.string("general.architecture", "phi3");
  const GgufWriter::Bytes bytes = writer.bytes();
  const auto tokenizer = tokenizer_from_gguf(gguf::File::from_memory(bytes, "phi3.gguf"));
  expect_equal_ids(*tokenizer, golden()["models"]["sentencepiece"]["stripped"]);
}

}  // namespace
}  // namespace quern::test
