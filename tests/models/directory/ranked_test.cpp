// tekken.json and tiktoken vocabularies: the ids and texts of their packages (tests/data/tokenizer/ranked, by
// scripts/train_ranked_vocabularies.py), and files with one thing wrong.
#include "goldens_folder.hpp"
#include "refused_directory.hpp"
#include "tokenizer_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace quern::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

std::filesystem::path ranked_folder() { return goldens_folder("QUERN_RANKED", "ranked"); }

std::vector<std::string> vocabularies() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ranked_folder())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class Ranked : public testing::TestWithParam<std::string> {};

TEST_P(Ranked, GivesTheIdsAndTheTextOfThePackage) {
  const auto tokenizer = tokenizer_of_folder(ranked_folder() / GetParam());
  const json golden = json::parse(std::ifstream(ranked_folder() / GetParam() / "golden.json"));
  std::size_t differences = 0;
  for (std::size_t i = 0; i < golden["strings"].size(); ++i) {
    const std::string text = golden["strings"][i];
    const Ids wanted = golden["ids"][i].get<Ids>();
    const Ids ids = tokenizer->encode(text, {.add_bos = false, .add_eos = false, .parse_special = false});
    const bool same = ids == wanted && tokenizer->decode(wanted) == golden["decoded"][i].get<std::string>();
    if (!same && ++differences <= 3)
      ADD_FAILURE() << golden["strings"][i].dump() << "\n  ids " << json(ids).dump() << "\n  not " << json(wanted).dump() << "\n  text "
                    << json(tokenizer->decode(wanted)).dump() << "\n  not  " << golden["decoded"][i].dump();
  }
  EXPECT_EQ(differences, 0u) << "of " << golden["strings"].size();
}

INSTANTIATE_TEST_SUITE_P(Committed, Ranked, testing::ValuesIn(vocabularies()), [](const auto& tested) {
  std::string name = tested.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

std::string committed(const std::string& name) { return test_data + "tokenizer/ranked/" + name; }

TEST(Tekken, SpecialTokensComeFirstAndATextBeginsWithBos) {
  const auto tokenizer = tokenizer_of_folder(committed("tekken-v13"));
  EXPECT_EQ(tokenizer->encode("").front(), 1);
  EXPECT_EQ(tokenizer->token_text(5), "[THINK]");
  EXPECT_EQ(tokenizer->token_text(6), "<SPECIAL_6>");
  EXPECT_EQ(tokenizer->encode("[INST]a[/INST]", {.add_bos = false, .add_eos = false}), (Ids{3, 30 + 'a', 4}));
  EXPECT_EQ(tokenizer_of_folder(committed("tekken-v3"))->token_text(19), "[TOOL_CONTENT]");
  EXPECT_EQ(keys_of_folder(committed("tekken-v3")).require_string("tokenizer.ggml.pre"), "tekken");
}

TEST(Tiktoken, SpecialTokensAreThoseOfTheConfiguration) {
  const auto tokenizer = tokenizer_of_folder(committed("tiktoken-qwen2"));
  const std::int32_t end = tokenizer->find("<|endoftext|>").value();
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>", {.add_bos = false, .add_eos = false}), (Ids{'a', end}));
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(Tiktoken, AClassThatIsKnownBringsItsExpressionAndItsTokens) {
  const ScratchFolder scratch;
  std::filesystem::copy(committed("tiktoken-qwen2"), scratch.path("m"));
  write_text(scratch.path("m/tokenizer_config.json"), R"({"tokenizer_class": "QWenTokenizer"})");
  const auto tokenizer = tokenizer_of_folder(scratch.path("m"));
  EXPECT_EQ(tokenizer->find("<|im_start|>"), 151644);
  EXPECT_EQ(tokenizer->find("<|extra_204|>"), 151850);
  EXPECT_EQ(keys_of_folder(scratch.path("m")).require_string("tokenizer.ggml.model"), "huggingface");
}

TEST(Tiktoken, AFileWithSentencePiecesNameIsReadByItsContent) {
  const ScratchFolder scratch;
  std::filesystem::copy(committed("tiktoken-qwen2"), scratch.path("m"));
  std::filesystem::rename(scratch.path("m/words.tiktoken"), scratch.path("m/tokenizer.model"));
  EXPECT_EQ(tokenizer_of_folder(scratch.path("m"))->size(), tokenizer_of_folder(committed("tiktoken-qwen2"))->size());
}

struct Changed {
  std::string name, vocabulary, words;
  std::function<void(const std::string& folder)> change;
  quern_status code = QUERN_BAD_MODEL;
};
void PrintTo(const Changed& one, std::ostream* out) { *out << one.name; }

auto in_tekken(std::function<void(json&)> change) {
  return [change](const std::string& folder) { edit_json(folder + "/tekken.json", change); };
}
auto in_tiktoken(const std::string& from, const std::string& to) {
  return [from, to](const std::string& folder) {
    std::ostringstream text;
    text << std::ifstream(folder + "/words.tiktoken", std::ios::binary).rdbuf();
    std::string whole = text.str();
    whole.replace(whole.find(from), from.size(), to);
    write_text(folder + "/words.tiktoken", whole);
  };
}

std::vector<Changed> changed() {
  const std::string tekken = "tekken-v13", tiktoken = "tiktoken-qwen2";
  return {
      {"NoConfig", tekken, "tekken.json: 'config' is missing", in_tekken([](json& t) { t.erase("config"); })},
      {"NoPattern", tekken, "tekken.json: 'config.pattern' is missing", in_tekken([](json& t) { t["config"].erase("pattern"); })},
      {"NoSize", tekken, "'config.default_vocab_size' is missing", in_tekken([](json& t) { t["config"].erase("default_vocab_size"); })},
      {"HugeSize", tekken, "'config.default_vocab_size' is 4000000000",
       in_tekken([](json& t) { t["config"]["default_vocab_size"] = 4000000000u; })},
      {"SizeIsText", tekken, "'config.default_vocab_size'", in_tekken([](json& t) { t["config"]["default_vocab_size"] = "100"; })},
      {"MoreThanThereAre", tekken, "'vocab' has 656 entries, and 'config' asks for 69970",
       in_tekken([](json& t) { t["config"]["default_vocab_size"] = 70000; })},
      {"MoreSpecialThanTokens", tekken, "'config.default_num_special_tokens' is 700 of 666 tokens",
       in_tekken([](json& t) { t["config"]["default_num_special_tokens"] = 700; })},
      {"SpecialBeyondTheirCount", tekken, "'special_tokens' has 6 entries",
       in_tekken([](json& t) { t["config"]["default_num_special_tokens"] = 5; })},
      {"SpecialRankAgain", tekken, "'special_tokens' has entry 3", in_tekken([](json& t) { t["special_tokens"][3]["rank"] = 2; })},
      {"SpecialTextTwice", tekken, "are both '</s>'", in_tekken([](json& t) { t["special_tokens"][3]["token_str"] = "</s>"; })},
      {"RankTwice", tekken, "'vocab' has entry 300", in_tekken([](json& t) { t["vocab"][300]["rank"] = 299; })},
      {"NoBytes", tekken, "'vocab' has entry 300", in_tekken([](json& t) { t["vocab"][300].erase("token_bytes"); })},
      {"BrokenBase64", tekken, "tekken.json: rank 300: 'vocab.token_bytes' has base64 with another character at place 1",
       in_tekken([](json& t) { t["vocab"][300]["token_bytes"] = "A!AA"; })},
      {"HalfBase64", tekken, "of 3 characters, which is not whole", in_tekken([](json& t) { t["vocab"][300]["token_bytes"] = "AAA"; })},
      {"BytesTwice", tekken, "tekken.json: ranks 65 and 300 are both 'A'",
       in_tekken([](json& t) { t["vocab"][300]["token_bytes"] = "QQ=="; })},
      {"ByteIsMissing", tekken, "has no token for byte 65", in_tekken([](json& t) { t["vocab"][65]["token_bytes"] = "QUFBQUFB"; })},
      {"LongToken", tekken, "the token of rank 300 has 258 bytes; at most 256",
       in_tekken([](json& t) { t["vocab"][300]["token_bytes"] = std::string(344, 'A'); })},
      {"VocabularyIsAnObject", tekken, "'vocab' is missing or is not a list", in_tekken([](json& t) { t["vocab"] = json::object(); })},
      {"ExpressionIsNone", tekken, "the expression '(a'", in_tekken([](json& t) { t["config"]["pattern"] = "(a"; })},
      {"NotJson", tekken, "tekken.json: is not JSON",
       [](const std::string& folder) { write_text(folder + "/tekken.json", "{\"config\":"); }},
      {"LineWithoutRank", tiktoken, "words.tiktoken: line 66 is 'QQ=='", in_tiktoken("QQ== 65\n", "QQ==\n")},
      {"RankIsNone", tiktoken, "words.tiktoken: line 66 is 'QQ== x'", in_tiktoken("QQ== 65\n", "QQ== x\n")},
      {"LineWithBrokenBase64", tiktoken, "words.tiktoken: 'line 66' has base64", in_tiktoken("QQ== 65\n", "Q?== 65\n")},
      {"RankOfMillions", tiktoken, "line 66 has the rank 4000000000", in_tiktoken("QQ== 65\n", "QQ== 4000000000\n")},
      {"RankAgain", tiktoken, "line 66 has the rank 64 again", in_tiktoken("QQ== 65\n", "QQ== 64\n")},
      {"BytesAgain", tiktoken, "ranks 65 and 66 are both 'A'", in_tiktoken("Qg== 66\n", "QQ== 66\n")},
      {"ByteIsAbsent", tiktoken, "words.tiktoken: has no token for byte 65", in_tiktoken("QQ== 65\n", "")},
      {"SpecialIdTwice", tiktoken, "has the id 65 twice",
       [](const std::string& folder) {
         edit_json(folder + "/tokenizer_config.json", [](json& c) {
           c["added_tokens_decoder"]["65"] = {{"content", "<|a|>"}, {"special", true}};
         });
       }},
      {"NoExpression", tiktoken, "does not say how texts are cut",
       [](const std::string& folder) { edit_json(folder + "/tokenizer_config.json", [](json& c) { c.erase("pat_str"); }); },
       QUERN_UNSUPPORTED},
      {"TwoFiles", tiktoken, "'words.tiktoken'", [](const std::string& folder) { write_text(folder + "/other.tiktoken", "QQ== 0\n"); },
       QUERN_UNSUPPORTED},
  };
}

class RankedRefused : public testing::TestWithParam<Changed> {};

TEST_P(RankedRefused, WithTheFileAndTheField) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path("m");
  std::filesystem::copy(committed(GetParam().vocabulary), folder);
  ASSERT_NO_THROW(tokenizer_of_folder(folder));  // the twin
  GetParam().change(folder);
  try {
    tokenizer_of_folder(folder);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RankedRefused, testing::ValuesIn(changed()), [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace quern::test
