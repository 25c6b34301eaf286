// Ids and labels of SmolLM2 against tests/data/training/tokens.json, which transformers wrote. QUERN_TEST_MODEL names
// SmolLM2-135M-Instruct.Q4_1.gguf.
#include "training_support.hpp"

#include "quern/models/gguf.hpp"
#include "quern/training/data_files.hpp"

#include <nlohmann/json.hpp>

namespace quern::training {
namespace {

class SmolLm2Data : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("QUERN_TEST_MODEL");
    if (path == nullptr) GTEST_SKIP() << "QUERN_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf";
    const gguf::File file = gguf::File::open(path);
    tokenizer = tokenizer_from_gguf(file);
    chat_template = std::string(file.find_string("tokenizer.chat_template").value());
    golden = nlohmann::json::parse(test::read_test_file("data/training/tokens.json"));
  }

  /// Of a file whose template is this one.
  Dataset data_of(const std::string& name, const std::string& source) const {
    DataOptions options;
    options.datasets.resize(1);
    options.datasets[0].path = std::string(QUERN_SOURCE_DIR "/tests/data/training/") + name;
    return load(options, {*tokenizer, source, "smollm2.gguf"}).train;
  }

  void expect_golden(const Dataset& data, const nlohmann::json& rows) const {
    ASSERT_EQ(data.examples.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(data.examples[i].ids, rows[i]["ids"].get<std::vector<std::int32_t>>()) << data.where(data.examples[i]);
      std::vector<LabelSpan> labels;
      for (const auto& span : rows[i]["trained"]) labels.push_back({span[0], span[1], 1});
      EXPECT_EQ(data.examples[i].labels, labels) << data.where(data.examples[i]);
    }
    EXPECT_EQ(data.summary.melted, 0u);
    EXPECT_EQ(data.summary.open_answers, 0u);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template;
  nlohmann::json golden;
};

TEST_F(SmolLm2Data, HasTheGoldenIdsAndLabelsByDifferentialRendering) {
  EXPECT_EQ(golden["train"].size() + golden["val"].size(), 120u);
  ASSERT_EQ(chat_template.find("endgeneration"), std::string::npos);
  expect_golden(data_of("train.jsonl", chat_template), golden["train"]);
  expect_golden(data_of("val.jsonl", chat_template), golden["val"]);
}

TEST_F(SmolLm2Data, HasTheGoldenIdsAndLabelsByGenerationBlocks) {
  const std::string source = golden["generation_template"];
  expect_golden(data_of("train.jsonl", source), golden["train"]);
  expect_golden(data_of("val.jsonl", source), golden["val"]);
}

// The eos is the padding token of this model: nothing may hide it.
TEST_F(SmolLm2Data, CountsTheEndTokenOfEveryExample) {
  for (const Example& example : data_of("train.jsonl", chat_template).examples) {
    ASSERT_FALSE(example.labels.empty());
    EXPECT_EQ(example.ids[example.labels.back().end - 1], 2);
  }
}

TEST_F(SmolLm2Data, HasTheIdsOfRunInFrontOfEveryAnswer) {
  const ChatRenderer renderer({*tokenizer, chat_template, "smollm2.gguf"}, std::nullopt);
  const Dataset data = data_of("train.jsonl", chat_template);
  const DataText text = read_data_file(QUERN_SOURCE_DIR "/tests/data/training/train.jsonl");
  ExampleReader reader(text);
  std::size_t compared = 0;
  for (const Example& example : data.examples) {
    const Chat chat = parse_chat(reader.next()->json);
    Json::List messages;
    std::size_t answer = 0;
    for (const Json& message : *chat.messages.list()) {
      if (*message.find("role")->text() == "assistant") {
        const RenderedChat prompt = renderer.prompt({Json(messages), Json()});
        std::vector<TextRange> foreign;
        for (const ForeignRange& range : prompt.foreign) foreign.push_back({range.begin, range.end});
        const std::vector<std::int32_t> ids = tokenizer->encode(prompt.text, foreign);
        ASSERT_EQ(ids.size(), example.labels.at(answer).begin);
        EXPECT_TRUE(std::equal(ids.begin(), ids.end(), example.ids.begin()));
        ++answer;
        ++compared;
      }
      messages.push_back(message);
    }
  }
  EXPECT_GE(compared, 104u);
}

}  // namespace
}  // namespace quern::training
