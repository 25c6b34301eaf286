// Byte-level BPE: what the rules do, on vocabularies small enough to see why.
#include "vocabulary_builder.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ByteLevel, AppliesTheBestMergeFirstWhereverItIs) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("b", "c");
  vocabulary.merge("a", "b");
  EXPECT_THAT(pieces(vocabulary.build(), "abc"), ElementsAre("a", "bc"));
}

TEST(ByteLevel, AppliesEqualMergesFromTheLeft) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "a");
  EXPECT_THAT(pieces(vocabulary.build(), "aaaaa"), ElementsAre("aa", "aa", "a"));
}

TEST(ByteLevel, UsesTheLaterRankOfAPairThatIsListedTwice) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "b");
  vocabulary.merge("b", "c");
  EXPECT_THAT(pieces(vocabulary.build(), "abc"), ElementsAre("ab", "c"));
  vocabulary.merges.push_back("a b");
  EXPECT_THAT(pieces(vocabulary.build(), "abc"), ElementsAre("a", "bc"));
}

TEST(ByteLevel, NeverMergesAcrossPieces) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "1");
  EXPECT_THAT(pieces(vocabulary.build(), "a1"), ElementsAre("a", "1"));
}

TEST(ByteLevel, TakesAWholePieceThatIsATokenOnlyInLlama3) {
  for (const auto& [pre_tokenizer, expected] : {std::pair{"llama-bpe", 1u}, {"qwen2", 3u}, {"gpt-2", 3u}}) {
    VocabularyBuilder vocabulary = byte_level(pre_tokenizer);
    vocabulary.add("abc");
    EXPECT_EQ(vocabulary.build().encode("abc").size(), expected) << pre_tokenizer;
  }
}

TEST(ByteLevel, TakesAWholePieceThatIsATokenInTekkenAndNotInSmaug) {
  for (const auto& [pre_tokenizer, expected] : {std::pair{"tekken", 1u}, {"smaug-bpe", 3u}, {"deepseek-llm", 3u}}) {
    VocabularyBuilder vocabulary = byte_level(pre_tokenizer);
    vocabulary.add("abc");
    EXPECT_EQ(vocabulary.build().encode("abc").size(), expected) << pre_tokenizer;
  }
}

TEST(ByteLevel, NeverMakesAControlTokenOutOfAWholePiece) {
  VocabularyBuilder vocabulary = byte_level("llama-bpe");
  vocabulary.add("abc", TokenType::control);
  EXPECT_EQ(vocabulary.build().encode("abc", {.add_bos = {}, .add_eos = {}, .parse_special = false}).size(), 3u);
}

TEST(ByteLevel, PassesBytesThatAreNotUtf8Through) {
  for (const char* pre_tokenizer : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = byte_level(pre_tokenizer).build();
    const std::string text = "a\xFF\x80 \xC3 \xED\xA0\x80 \xE2\x82 e\xCC\x81\xF4\x90\x80\x80 1\xF0\x9F";
    const std::string expected =
        std::string_view(pre_tokenizer) == "qwen2" ? "a\xFF\x80 \xC3 \xED\xA0\x80 \xE2\x82 \xC3\xA9\xF4\x90\x80\x80 1\xF0\x9F" : text;
    EXPECT_EQ(tokenizer.decode_bytes(tokenizer.encode(text)), expected) << pre_tokenizer;
  }
}

TEST(ByteLevel, ReplacesWhatIsNotUtf8InDecodedText) {
  const Tokenizer tokenizer = byte_level().build();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFFz\xE2\x82")), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
}

TEST(ByteLevel, SkipsAByteThatNoTokenSpells) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.tokens[first_byte + 'z'] = "not-z";
  vocabulary.merge("a", "b");
  EXPECT_THAT(pieces(vocabulary.build(), "azb"), ElementsAre("ab"));
  EXPECT_THAT(pieces(vocabulary.build(), "zz"), ElementsAre());
}

TEST(ByteLevel, DecodesATokenOutsideTheByteAlphabetAsItIsSpelled) {
  VocabularyBuilder vocabulary = byte_level();
  const std::int32_t chinese = vocabulary.add("\xE7\xA3\xA8");
  const std::int32_t byte = vocabulary.add("<0xE7>", TokenType::byte);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_EQ(tokenizer.token_bytes(chinese).bytes, "\xE7\xA3\xA8");
  EXPECT_EQ(tokenizer.token_bytes(byte).bytes, "\xE7");
}

TEST(ByteLevel, DecodesMarkersAsTheyAreSpelled) {
  VocabularyBuilder vocabulary = byte_level();
  const std::int32_t marker = vocabulary.add("<\xC3\xA9>", TokenType::control);  // in the alphabet, but not meant so
  EXPECT_EQ(vocabulary.build().token_bytes(marker).bytes, "<\xC3\xA9>");
}

TEST(ByteLevel, LeavesTextBelowU0300AsItIsInFormC) {
  const Tokenizer tokenizer = byte_level("qwen2").build();
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("caf\xC3\xA9")), "caf\xC3\xA9");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("cafe\xCC\x81")), "caf\xC3\xA9");
}

TEST(ByteLevel, RefusesAnUnknownPreTokenizerByName) {
  VocabularyBuilder vocabulary = byte_level("gpt-4o");
  try {
    vocabulary.build();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
    EXPECT_THAT(error.what(), HasSubstr("tokenizer.ggml.pre is 'gpt-4o'"));
    EXPECT_THAT(error.what(), HasSubstr("known are default, gpt-2, a.x-4.0,"));
  }
}

TEST(ByteLevel, RefusesAMissingPreTokenizerRatherThanGuess) {
  VocabularyBuilder vocabulary = byte_level("");
  try {
    vocabulary.build();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
    EXPECT_THAT(error.what(), HasSubstr("tokenizer.ggml.pre is missing"));
  }
}

TEST(ByteLevel, RefusesASpacePrefix) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.settings.add_space_prefix = false;
  EXPECT_NO_THROW(vocabulary.build());
  vocabulary.settings.add_space_prefix = true;
  EXPECT_THROW(vocabulary.build(), Error);
}

// The text of the QUERN_CONTEXT_FULL error, or what happened instead.
std::string context_full(const Tokenizer& tokenizer, std::string_view text, std::uint64_t most) {
  EncodeOptions options;
  options.most_ids = most;
  try {
    return std::to_string(tokenizer.encode(text, options).size()) + " ids";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_CONTEXT_FULL);
    return error.what();
  }
}

TEST(MostIds, AreCountedExactly) {
  const Tokenizer tokenizer = byte_level().build();
  EXPECT_EQ(context_full(tokenizer, "a b c", 5), "5 ids");
  EXPECT_THAT(context_full(tokenizer, "a b c", 4), HasSubstr("5 tokens or more but 4 fit"));
  EXPECT_THAT(context_full(tokenizer, "a<|end|>", 1), HasSubstr("2 tokens or more but 1 fit"));
  const Tokenizer other = sentencepiece().build();
  EXPECT_EQ(context_full(other, "ab", 3), "3 ids");
  EXPECT_THAT(context_full(other, "ab", 2), HasSubstr("3 tokens or more but 2 fit"));
}

TEST(MostIds, EndALongTextBetweenItsPieces) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " word";
  // No piece has more than five bytes, so the count is at most four above the limit where it stops.
  EXPECT_THAT(context_full(byte_level().build(), text, 100), testing::ContainsRegex("^the text has 10[1-5] tokens or more"));
}

TEST(MostIds, RefuseByItsLengthATextThatCannotFit) {
  // One piece of 64 MiB would take gigabytes to merge.
  const std::string text(std::size_t{64} << 20, 'a');
  EXPECT_THAT(context_full(byte_level().build(), text, 256), HasSubstr(" tokens or more but 256 fit"));
  EXPECT_THAT(context_full(sentencepiece().build(), text, 256), HasSubstr(" tokens or more but 256 fit"));
}

}  // namespace
}  // namespace quern::test
