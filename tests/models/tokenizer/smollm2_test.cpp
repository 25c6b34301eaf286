// A real vocabulary: SmolLM2's. QUERN_TEST_MODEL names SmolLM2-135M-Instruct.Q4_1.gguf, whose text and ids
// tests/data/smollm2/golden.json holds.
#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

namespace quern::test {
namespace {

using Ids = std::vector<std::int32_t>;

class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("QUERN_TEST_MODEL");
    if (path == nullptr) GTEST_SKIP() << "QUERN_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf";
    tokenizer = tokenizer_from_gguf(gguf::File::open(path));
    golden = nlohmann::json::parse(std::ifstream(QUERN_SOURCE_DIR "/tests/data/smollm2/golden.json"));
  }

  void expect_ids(const std::string& text, const nlohmann::json& ids) {
    EXPECT_EQ(tokenizer->encode(text), ids.get<Ids>()) << text;
    EXPECT_EQ(tokenizer->decode(ids.get<Ids>()), text);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  nlohmann::json golden;
};

TEST_F(SmolLm2, GivesTheGoldenIdsOfStrings) {
  ASSERT_GE(golden["tokens"].size(), 60u);
  for (const auto& row : golden["tokens"]) expect_ids(row["text"], row["ids"]);
}

TEST_F(SmolLm2, GivesTheGoldenIdsOfTexts) {
  ASSERT_FALSE(golden["texts"].empty());
  for (const auto& row : golden["texts"]) expect_ids(row["text"], row["ids"]);
}

TEST_F(SmolLm2, GivesTheGoldenIdsOfChatsAndTheirAnswers) {
  ASSERT_FALSE(golden["chats"].empty());
  for (const auto& row : golden["chats"]) {
    expect_ids(row["rendered"], row["prompt_ids"]);
    const std::string answer = row["greedy_text"];
    EXPECT_EQ(tokenizer->decode(row["greedy_ids"].get<Ids>(), /*skip_special=*/true), answer);
  }
}

TEST_F(SmolLm2, EndsAnswersAtEndOfTurnAndEndOfText) {
  EXPECT_EQ(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()), (Ids{0, 2}));
  EXPECT_EQ(tokenizer->token_text(2), "<|im_end|>");
}

}  // namespace
}  // namespace quern::test
