// The pieces that a rule cuts a text into, equal to those of the PyPI package tokenizers with the same expressions
// (tests/data/tokenizer/pieces.json, by scripts/make_piece_goldens.py).
#include "pre_tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace quern::test {
namespace {

using tokenizer::PieceReader;

std::vector<std::size_t> piece_sizes(std::string_view rule, std::string_view text) {
  PieceReader reader(*tokenizer::find_pre_tokenizer(rule), text);
  std::vector<std::size_t> sizes;
  for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) sizes.push_back(piece.size());
  return sizes;
}

class Pieces : public testing::TestWithParam<const char*> {};

TEST_P(Pieces, AreThoseOfTheReferenceLibraryForTheSameExpressions) {
  const char* other = std::getenv("QUERN_PIECES");  // a larger file of the same script
  const auto golden = nlohmann::json::parse(std::ifstream(other ? other : QUERN_SOURCE_DIR "/tests/data/tokenizer/pieces.json"));
  ASSERT_GE(golden.size(), 100u);
  for (const auto& entry : golden)
    EXPECT_EQ(piece_sizes(GetParam(), entry["text"].get<std::string>()), entry[GetParam()].get<std::vector<std::size_t>>())
        << entry["text"].dump();
}

INSTANTIATE_TEST_SUITE_P(Rules, Pieces, testing::Values("tekken", "smaug-bpe", "deepseek-llm", "deepseek-coder"), [](const auto& tested) {
  std::string name = tested.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(PieceReader, JoinsToTheTextForBytesThatAreNotUtf8) {
  const std::string text = "a\xFF\x80 \xC3 \xED\xA0\x80\n \xE2\x82 e\xCC\x81\xF4\x90\x80\x80 1\xF0\x9F  ";
  for (const char* rule : {"tekken", "deepseek-llm", "deepseek-coder", "llama-bpe", "gpt-2", "smollm"}) {
    PieceReader reader(*tokenizer::find_pre_tokenizer(rule), text);
    std::string joined;
    for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) joined += piece;
    EXPECT_EQ(joined, text) << rule;
  }
}

TEST(PreTokenizer, NamesOfOtherModelsMeanTheRuleThatTheirTokenizersHave) {
  const std::pair<const char*, const char*> aliases[] = {{"deepseek-r1-qwen", "qwen2"}, {"megrez", "qwen2"},      {"hunyuan", "qwen2"},
                                                         {"falcon3", "llama-bpe"},      {"pixtral", "llama-bpe"}, {"midm-2.0", "llama-bpe"},
                                                         {"lfm2", "llama-bpe"},         {"mellum", "gpt-2"},      {"a.x-4.0", "gpt-2"},
                                                         {"exaone4", "gpt-2"},          {"phi-2", "gpt-2"},       {"refact", "smollm"},
                                                         {"starcoder", "smollm"},       {"dbrx", "smaug-bpe"},    {"glm4", "chatglm-bpe"}};
  for (const auto& [name, same] : aliases) {
    const auto found = tokenizer::find_pre_tokenizer(name), expected = tokenizer::find_pre_tokenizer(same);
    ASSERT_TRUE(found && expected) << name;
    EXPECT_EQ(*found, *expected) << name;
  }
}

}  // namespace
}  // namespace quern::test
