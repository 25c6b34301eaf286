// From files to datasets: lengths, counts and hostile lines.
#include "training_support.hpp"

#include "quern/training/order.hpp"

namespace quern::training {
namespace {

using test::ByteModel;
using test::error_of;
using test::Folder;

constexpr const char* short_chat = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
constexpr std::size_t short_tokens = 23;  // <|im_start|> user \n a <|im_end|> \n <|im_start|> assistant \n b <|im_end|> \n

DataOptions options_for(std::string path) {
  DataOptions options;
  options.datasets.resize(1);
  options.datasets[0].path = std::move(path);
  return options;
}

class LoadedData : public testing::Test {
 protected:
  Folder folder;
  ByteModel model;
  DataOptions of(std::string_view text) const { return options_for(folder.write("train.jsonl", text)); }
  std::string refusal(const DataOptions& options) const {
    return error_of([&] { load(options, model.text); });
  }
};

TEST_F(LoadedData, KnowsWhereEachExampleIs) {
  const TrainingData data = load(of(concat(short_chat, "\n\n", short_chat)), model.text);
  ASSERT_EQ(data.train.examples.size(), 2u);
  EXPECT_EQ(data.train.where(data.train.examples[1]), folder.path() + "/train.jsonl:3");
  EXPECT_EQ(data.train.examples[0].ids.size(), short_tokens);
  EXPECT_EQ(data.train.lengths(), (std::vector<std::uint32_t>{short_tokens, short_tokens}));
  EXPECT_EQ(data.train.summary.read, 2u);
  EXPECT_EQ(data.train.summary.tokens, 2 * short_tokens);
  EXPECT_EQ(data.train.summary.labelled, 4u);
  EXPECT_TRUE(data.train.summary.warnings().empty());
  EXPECT_TRUE(data.validation.examples.empty());
}

TEST_F(LoadedData, CutsLabelsWithTheirExampleAtEveryPosition) {
  DataOptions options =
      of(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bcd"}, {"role": "user", "content": "e"},
      {"role": "assistant", "content": "fg"}]})"
         "\n");
  // One example in one line.
  std::string line = test::read_test_file("data/training/val.jsonl");
  line.resize(line.find('\n'));
  options = of(line);
  const Example whole = load(options, model.text).train.examples.at(0);
  std::vector<float> weights(whole.ids.size());
  whole.fill_weights(weights);
  options.excess_length = ExcessLength::truncate;
  for (std::uint32_t size = 2; size <= whole.ids.size() + 1; ++size) {
    options.sequence_len = size;
    const std::size_t kept = std::min<std::size_t>(size, whole.ids.size());
    if (std::all_of(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(kept), [](float w) { return w == 0; })) {
      EXPECT_NE(refusal(options).find("1 have no token that counts"), std::string::npos) << size;
      continue;
    }
    const Dataset data = load(options, model.text).train;
    const Example& cut = data.examples.at(0);
    EXPECT_EQ(cut.ids, std::vector<std::int32_t>(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(kept)));
    std::vector<float> of_cut(cut.ids.size());
    cut.fill_weights(of_cut);
    EXPECT_EQ(of_cut, std::vector<float>(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(kept))) << size;
    EXPECT_EQ(data.summary.truncated, kept < whole.ids.size() ? 1u : 0u);
  }
}

TEST_F(LoadedData, DropsOrRefusesWhatIsTooLong) {
  const std::string long_chat = R"({"messages": [{"role": "user", "content": "aaaaaaaaaa"}, {"role": "assistant", "content": "b"}]})";
  DataOptions options = of(concat(short_chat, "\n", long_chat));
  options.sequence_len = short_tokens;
  const DataSummary summary = load(options, model.text).train.summary;
  EXPECT_EQ(summary.too_long, 1u);
  EXPECT_EQ(summary.kept, 1u);
  EXPECT_EQ(summary.longest, short_tokens + 9);
  EXPECT_EQ(summary.longest_at.line, 2u);
  ASSERT_EQ(summary.warnings().size(), 1u);  // more than 5 %
  EXPECT_NE(summary.warnings()[0].find("1 of 2 examples are dropped"), std::string::npos);
  options.excess_length = ExcessLength::raise;
  EXPECT_NE(
      refusal(options).find(concat("train.jsonl:2: the example has ", short_tokens + 9, " tokens, and sequence_len is ", short_tokens)),
      std::string::npos);
}

TEST_F(LoadedData, RefusesToTrainOnNothingWithTheCounts) {
  DataOptions options = of(concat(short_chat, "\n", R"({"messages": [{"role": "user", "content": "a"}]})", "\n"));
  options.sequence_len = 10;
  EXPECT_NE(refusal(options).find(
                "no example is left to train on: 2 examples were read; 0 are bad, 1 have more than 10 tokens, and 1 have no token"),
            std::string::npos)
      << refusal(options);
  EXPECT_TRUE(refusal(options).starts_with(concat(QUERN_BAD_MODEL, " ")));
  options.excess_length = ExcessLength::truncate;
  EXPECT_NE(refusal(options).find("2 have no token that counts"), std::string::npos);
}

TEST_F(LoadedData, NamesABadLineOrCountsIt) {
  DataOptions options = of(concat(short_chat, "\n{\"messages\"\n", short_chat, "\n{\"messages\": 1}\n"));
  EXPECT_NE(refusal(options).find("train.jsonl:2: the example is not JSON at byte 11"), std::string::npos) << refusal(options);
  options.datasets.front().skip_bad_lines = true;
  const DataSummary summary = load(options, model.text).train.summary;
  EXPECT_EQ(summary.bad, 2u);
  EXPECT_EQ(summary.kept, 2u);
  EXPECT_NE(summary.first_problem.find("train.jsonl:2: "), std::string::npos);
  EXPECT_EQ(summary.warnings().size(), 1u);
}

TEST_F(LoadedData, NamesTheLineOfHostileText) {
  const auto second_line = [&](const std::string& line) { return refusal(of(concat(short_chat, "\n", line, "\n"))); };
  const std::string nul = R"({"messages": [{"role": "user", "content": "a)" + std::string(1, '\0') + R"("}]})";
  for (const std::string& line :
       {nul, std::string(3, '\0'), std::string(R"({"text": "\ud800"})"), std::string("{\"text\": \"\xED\xA0\x80\"}"),
        std::string("{\"text\": \"\xFF\"}"), std::string(1000, '['), std::string("{\"a\":") + std::string(1000, '['),
        std::string(1000, '[') + std::string(1000, ']'), std::string("nonsense"), std::string("{} {}")})
    EXPECT_NE(second_line(line).find("train.jsonl:2: "), std::string::npos) << line.substr(0, 80) << " " << second_line(line);
  EXPECT_NE(second_line(std::string(1000, '[')).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(refusal(of("")).find("train.jsonl: has no examples"), std::string::npos);
  EXPECT_NE(refusal(of("\n \n")).find("has no examples"), std::string::npos);
}

// An escaped zero byte is text like any other.
TEST_F(LoadedData, KeepsAnEscapedZeroByte) {
  const Dataset data =
      load(of(R"({"messages": [{"role": "user", "content": "a\u0000b"}, {"role": "assistant", "content": "\u0000"}]})"), model.text).train;
  ASSERT_EQ(data.examples.size(), 1u);
  EXPECT_EQ(test::labelled_text(model.tokenizer, data.examples[0]), std::string(1, '\0') + "<|im_end|>|");
}

TEST_F(LoadedData, ReadsALineOfTenMegabytes) {
  const std::string large = concat(R"({"input_ids": [5, 6], "note": ")", std::string(10'000'000, 'x'), "\"}");
  const Dataset data = load(of(concat(large, "\n", R"({"input_ids": [5, 6]})")), model.text).train;
  EXPECT_EQ(data.examples.size(), 2u);
  const std::string text = concat(R"({"text": ")", std::string(1'000'000, 'x'), "\"}");
  const DataSummary summary = load(of(concat(text, "\n", R"({"text": "ab"})")), model.text).train.summary;
  EXPECT_EQ(summary.too_long, 1u);
  EXPECT_EQ(summary.longest, 1'000'001u);
}

TEST_F(LoadedData, TakesTheValidationSetOutOfTheOrder) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += concat(R"({"input_ids": [)", i + 2, ", 5]}\n");
  DataOptions options = of(lines);
  options.val_set_size = 0.12;  // 2.4, rounded up
  const TrainingData data = load(options, model.text);
  const Split split = split_examples(20, 3, options.seed);
  ASSERT_EQ(data.validation.examples.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(data.validation.examples[i].ids[0], static_cast<std::int32_t>(split.validation[i]) + 2);
  EXPECT_EQ(data.train.examples.size(), 17u);
  options.val_set_size = 5;
  EXPECT_EQ(load(options, model.text).validation.examples.size(), 5u);
  options.val_set_size = 20;
  EXPECT_NE(refusal(options).find("leaves none to train on"), std::string::npos);
  options.val_set_size = -1;
  EXPECT_NE(refusal(options).find("val_set_size"), std::string::npos);
}

TEST_F(LoadedData, ReadsTheFilesOfAFolder) {
  folder.write("train.jsonl", concat(short_chat, "\n", short_chat));
  DataOptions options = options_for(folder.path());
  EXPECT_TRUE(load(options, model.text).validation.examples.empty());
  folder.write("valid.jsonl", short_chat);
  EXPECT_EQ(load(options, model.text).validation.examples.size(), 1u);
  options.test_datasets = {DatasetOptions{}};
  options.test_datasets[0].path = folder.write("other.jsonl", concat(short_chat, "\n", short_chat));
  EXPECT_EQ(load(options, model.text).validation.examples.size(), 2u);
  options.val_set_size = 1;
  EXPECT_NE(refusal(options).find("are both given"), std::string::npos);
  const Folder empty;
  EXPECT_NE(refusal(options_for(empty.path())).find("has no file train.jsonl"), std::string::npos);
  EXPECT_NE(refusal(options_for(empty.path() + "/none.jsonl")).find("none.jsonl"), std::string::npos);
}

TEST_F(LoadedData, ReadsAListAcrossLines) {
  const std::string path = folder.write("x.json", concat("[\n", short_chat, ",\n", short_chat, "]\n"));
  const Dataset data = load(options_for(path), model.text).train;
  ASSERT_EQ(data.examples.size(), 2u);
  EXPECT_EQ(data.examples[1].line, 3u);
  DataOptions broken = options_for(folder.write("y.json", concat("[", short_chat, ",\n{")));
  broken.datasets.front().skip_bad_lines = true;
  EXPECT_NE(refusal(broken).find("y.json:2: the list has no end"), std::string::npos);
}

TEST_F(LoadedData, CountsAnswersThatNothingEnds) {
  const ByteModel endless("{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ '\n' }}{% endfor %}");
  const DataSummary summary = load(of(short_chat), endless.text).train.summary;
  EXPECT_EQ(summary.open_answers, 1u);
  ASSERT_EQ(summary.warnings().size(), 1u);
  EXPECT_NE(summary.warnings()[0].find("does not learn to end"), std::string::npos);
}

TEST_F(LoadedData, RefusesOptionsWithoutASense) {
  DataOptions options = of(short_chat);
  options.sequence_len = 1;
  EXPECT_NE(refusal(options).find("sequence_len is 1"), std::string::npos);
  options.datasets.clear();
  EXPECT_NE(refusal(options).find("datasets is empty"), std::string::npos);
}

}  // namespace
}  // namespace quern::training
