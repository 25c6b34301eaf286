// What a GGUF file's keys mean to its tokenizer.
#include "gguf_vocabulary.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::test {
namespace {

using testing::HasSubstr;

std::string refusal(const GgufWriter& writer, quern_status code) {
  try {
    load(writer);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(TokenizerFromGguf, ReadsIdsAndFlags) {
  GgufWriter writer = gguf_of(sentencepiece());
  writer.boolean("tokenizer.ggml.add_bos_token", false).boolean("tokenizer.ggml.add_eos_token", true);
  writer.boolean("tokenizer.ggml.add_space_prefix", false)
      .boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto tokenizer = load(writer);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->unknown(), 0);
  EXPECT_EQ(tokenizer->size(), 265);
  EXPECT_THAT(pieces(*tokenizer, " a "), testing::ElementsAre("a", "</s>"));
}

TEST(TokenizerFromGguf, StartsWithBeginOfTextByFamilyWhereTheFileSaysNothing) {
  EXPECT_TRUE(load(gguf_of(sentencepiece()))->adds_bos());
  for (const auto& [pre_tokenizer, adds] :
       {std::pair{"llama-bpe", true}, {"qwen2", false}, {"smollm", false}}) {
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

TEST(TokenizerFromGguf, RefusesAMissingPreTokenizerKey) {
  GgufWriter writer = gguf_of(byte_level());
  writer.remove("tokenizer.ggml.pre");
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED),
              HasSubstr("vocabulary.gguf: tokenizer.ggml.pre is missing"));
}

TEST(TokenizerFromGguf, RefusesATableOfNormalisations) {
  GgufWriter writer = gguf_of(sentencepiece());
  constexpr auto key = "tokenizer.ggml.precompiled_charsmap";
  writer.raw_array(key, 0, 0, {});
  EXPECT_NO_THROW(load(writer));
  writer.raw_array(key, 0, 3, GgufWriter::Bytes(3));
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED),
              HasSubstr("vocabulary.gguf: tokenizer.ggml.precompiled_charsmap has 3 bytes"));
}

}  // namespace
}  // namespace quern::test
