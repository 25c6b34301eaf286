// What a GGUF file's keys mean to its tokenizer.
#include "gguf_vocabulary.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::test {
namespace {

using testing::HasSubstr;

std::string refusal(const GgufWriter& writer, quern_status code, std::string_view pre_tokenizer = {}) {
  try {
    load(writer, pre_tokenizer);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string warning(const GgufWriter& writer) {
  const GgufWriter::Bytes bytes = writer.bytes();
  return pre_tokenizer_warning(gguf::File::from_memory(bytes, "vocabulary.gguf"));
}

TEST(TokenizerFromGguf, ReadsIdsAndFlags) {
  GgufWriter writer = gguf_of(sentencepiece());
  writer.boolean("tokenizer.ggml.add_bos_token", false).boolean("tokenizer.ggml.add_eos_token", true);
  writer.boolean("tokenizer.ggml.add_space_prefix", false).boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto tokenizer = load(writer);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->unknown(), 0);
  EXPECT_EQ(tokenizer->size(), 265);
  EXPECT_THAT(pieces(*tokenizer, " a "), testing::ElementsAre("a", "</s>"));
}

TEST(TokenizerFromGguf, StartsWithBeginOfTextByFamilyWhereTheFileSaysNothing) {
  EXPECT_TRUE(load(gguf_of(sentencepiece()))->adds_bos());
  for (const auto& [pre_tokenizer, adds] : {std::pair{"llama-bpe", true}, {"qwen2", false}, {"smollm", false}}) {
    VocabularyBuilder vocabulary = byte_level(pre_tokenizer);
    EXPECT_FALSE(load(gguf_of(vocabulary))->adds_bos()) << "without a token for it";
    vocabulary.settings.bos = 0;
    EXPECT_EQ(load(gguf_of(vocabulary))->adds_bos(), adds) << pre_tokenizer;
  }
}

TEST(TokenizerFromGguf, RefusesAnotherModelByNameBeforeLookingAtItsTokens) {
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", "t5");
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED), HasSubstr("vocabulary.gguf: tokenizer.ggml.model is 't5'"));
}

TEST(TokenizerFromGguf, TakesTheRuleDefaultWhereTheKeyIsMissingAndSaysSo) {
  VocabularyBuilder vocabulary = byte_level("gpt-2");
  vocabulary.merge("1", "2");
  GgufWriter writer = gguf_of(vocabulary);
  EXPECT_EQ(warning(writer), "");
  writer.remove("tokenizer.ggml.pre");
  EXPECT_THAT(pieces(*load(writer), "a12"), testing::ElementsAre("a", "12"));
  EXPECT_THAT(warning(writer), HasSubstr("tokenizer.ggml.pre is missing; the rule 'default' (GPT-2's) is taken"));
  writer.string("tokenizer.ggml.pre", "");
  EXPECT_THAT(warning(writer), HasSubstr("'default'"));
  EXPECT_EQ(warning(gguf_of(sentencepiece())), "");
}

TEST(TokenizerFromGguf, ARuleThatIsAskedForGoesBeforeThatOfTheFile) {
  VocabularyBuilder vocabulary = byte_level("gpt-2");
  vocabulary.merge("1", "2");
  GgufWriter writer = gguf_of(vocabulary);
  EXPECT_THAT(pieces(*load(writer, "qwen2"), "12"), testing::ElementsAre("1", "2"));
  writer.string("tokenizer.ggml.pre", "a-rule-of-tomorrow");
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED), HasSubstr("a-rule-of-tomorrow"));
  EXPECT_THAT(pieces(*load(writer, "gpt-2"), "12"), testing::ElementsAre("12"));
}

TEST(TokenizerFromGguf, RefusesARuleThatIsAskedForAndNotKnownOrOfNoUse) {
  EXPECT_THAT(refusal(gguf_of(byte_level()), QUERN_INVALID_ARGUMENT, "nonsense"),
              HasSubstr("tokenizer_pre is 'nonsense', which is not known; known are default, gpt-2"));
  EXPECT_THAT(refusal(gguf_of(sentencepiece()), QUERN_INVALID_ARGUMENT, "qwen2"),
              HasSubstr("vocabulary.gguf: tokenizer_pre is 'qwen2', but only byte-level BPE"));
}

TEST(TokenizerFromGguf, RefusesATableOfNormalisations) {
  GgufWriter writer = gguf_of(sentencepiece());
  constexpr auto key = "tokenizer.ggml.precompiled_charsmap";
  writer.raw_array(key, 0, 0, {});
  EXPECT_NO_THROW(load(writer));
  writer.raw_array(key, 0, 3, GgufWriter::Bytes(3));
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED), HasSubstr("vocabulary.gguf: tokenizer.ggml.precompiled_charsmap has 3 bytes"));
}

}  // namespace
}  // namespace quern::test
