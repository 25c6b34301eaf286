// What a GGUF file's keys mean to its tokenizer.
#include "gguf_vocabulary.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

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
  writer.string("tokenizer.ggml.model", "bert");
  EXPECT_THAT(refusal(writer, QUERN_UNSUPPORTED), HasSubstr("vocabulary.gguf: tokenizer.ggml.model is 'bert'"));
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

// A trie of one byte: 'a' leads to a value, whose replacement is at the start of the texts behind the trie.
std::string table_of_a(std::string_view replacement) {
  std::vector<std::uint32_t> units(512);
  units[0] = 256u << 10;
  units[256 ^ 'a'] = 'a' | 1u << 8 | (256u ^ 'a' ^ 300u) << 10;
  units[300] = 1u << 31;
  const std::uint32_t size = 4 * 512;
  std::string table(4 + size, '\0');
  std::memcpy(table.data(), &size, 4);
  std::memcpy(table.data() + 4, units.data(), size);
  return table.append(replacement).append(1, '\0');
}

GgufWriter with_table(const std::string& table) {
  GgufWriter writer = gguf_of(sentencepiece());
  const auto* const bytes = reinterpret_cast<const std::byte*>(table.data());
  constexpr std::uint32_t u8 = 0;
  writer.raw_array("tokenizer.ggml.precompiled_charsmap", u8, table.size(), GgufWriter::Bytes(bytes, bytes + table.size()));
  return writer;
}

TEST(TokenizerFromGguf, NormalisesByTheTableOfTheFile) {
  EXPECT_THAT(pieces(*load(with_table(table_of_a(""))), "ab", {.add_bos = false, .add_eos = false}), testing::ElementsAre(space_mark, "b"));
  EXPECT_THAT(pieces(*load(with_table(table_of_a("cd"))), "ab", {.add_bos = false, .add_eos = false}),
              testing::ElementsAre(space_mark, "c", "d", "b"));
}

TEST(TokenizerFromGguf, RefusesATableThatIsMalformed) {
  EXPECT_NO_THROW(load(with_table(table_of_a(std::string(256, 'c')))));
  EXPECT_THAT(refusal(with_table(table_of_a(std::string(257, 'c'))), QUERN_BAD_MODEL),
              HasSubstr("puts 257 bytes in the place of a character"));
  EXPECT_THAT(refusal(with_table(table_of_a("c").substr(0, 100)), QUERN_BAD_MODEL), HasSubstr("its trie would have 2048"));
  GgufWriter words = gguf_of(sentencepiece());
  words.i32s("tokenizer.ggml.precompiled_charsmap", {1, 2, 3});
  EXPECT_THAT(refusal(words, QUERN_BAD_MODEL), HasSubstr("is no array of bytes"));
}

}  // namespace
}  // namespace quern::test
