// SentencePiece BPE: what the rules do, on vocabularies small enough to see why.
#include "vocabulary_builder.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace quern::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string mark(space_mark);
const EncodeOptions plain{.add_bos = false, .add_eos = false, .parse_special = true};

TEST(SentencePiece, MakesTheTokenOfTheHighestScoreFirst) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("ab", TokenType::normal, -2);
  vocabulary.add("bc", TokenType::normal, -1);
  EXPECT_THAT(pieces(vocabulary.build(), "abc", plain), ElementsAre(mark, "a", "bc"));
}

TEST(SentencePiece, MakesTheLeftmostOfEqualScoresFirst) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("ab", TokenType::normal, -1);
  vocabulary.add("ba", TokenType::normal, -1);
  EXPECT_THAT(pieces(vocabulary.build(), "aba", plain), ElementsAre(mark, "ab", "a"));
}

TEST(SentencePiece, StartsATextWithASpaceWhereTheFileSaysSo) {
  VocabularyBuilder vocabulary = sentencepiece();
  EXPECT_THAT(pieces(vocabulary.build(), "a", plain), ElementsAre(mark, "a"));
  EXPECT_TRUE(vocabulary.build().drops_first_space());
  vocabulary.settings.add_space_prefix = false;
  EXPECT_THAT(pieces(vocabulary.build(), "a", plain), ElementsAre("a"));
  EXPECT_FALSE(vocabulary.build().drops_first_space());
}

TEST(SentencePiece, HasNoTokensForAnEmptyText) { EXPECT_THAT(pieces(sentencepiece().build(), "", plain), ElementsAre()); }

TEST(SentencePiece, RemovesExtraSpacesWhereTheFileSaysSo) {
  VocabularyBuilder vocabulary = sentencepiece();
  EXPECT_THAT(pieces(vocabulary.build(), " a  b ", plain), ElementsAre(mark, mark, "a", mark, mark, "b", mark));
  vocabulary.settings.remove_extra_whitespaces = true;
  EXPECT_THAT(pieces(vocabulary.build(), " a  b ", plain), ElementsAre(mark, "a", mark, "b"));
  EXPECT_THAT(pieces(vocabulary.build(), "   ", plain), ElementsAre());
}

TEST(SentencePiece, SpellsWhatItHasNoTokenForInBytes) {
  EXPECT_THAT(pieces(sentencepiece().build(), "a\xC3\xA9", plain), ElementsAre(mark, "a", "<0xC3>", "<0xA9>"));
}

TEST(SentencePiece, ReplacesEachByteThatIsNotUtf8) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("\xEF\xBF\xBD");
  EXPECT_THAT(pieces(vocabulary.build(), "\xC3\x80\xFF\xE2\x82", plain),
              ElementsAre(mark, "<0xC3>", "<0x80>", "\xEF\xBF\xBD", "\xEF\xBF\xBD", "\xEF\xBF\xBD"));
}

VocabularyBuilder without_bytes() {
  VocabularyBuilder vocabulary = sentencepiece();
  for (std::size_t id = 3; id < 3 + 256; ++id) vocabulary.types[id] = static_cast<std::int32_t>(TokenType::unused);
  return vocabulary;
}

TEST(SentencePiece, GivesOneUnknownTokenForARunItCannotSpell) {
  EXPECT_THAT(pieces(without_bytes().build(), "axyza", plain), ElementsAre(mark, "a", "<unk>", "a"));
}

TEST(SentencePiece, RefusesAVocabularyThatCannotSpellEveryText) {
  VocabularyBuilder vocabulary = without_bytes();
  vocabulary.types[0] = static_cast<std::int32_t>(TokenType::normal);
  EXPECT_THROW(vocabulary.build(), Error);
  vocabulary.settings.unknown = 0;
  EXPECT_NO_THROW(vocabulary.build());
}

TEST(SentencePiece, RefusesByteTokensThatAreNotComplete) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.types[3 + 0x41] = static_cast<std::int32_t>(TokenType::normal);
  try {
    vocabulary.build();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_THAT(error.what(), HasSubstr("255 of 256 bytes; the first that is absent is that of byte 65"));
  }
}

TEST(SentencePiece, NeverMakesControlOrByteTokensOutOfText) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("ab", TokenType::control, 5);
  EXPECT_THAT(pieces(vocabulary.build(), "ab", {.add_bos = false, .add_eos = false, .parse_special = false}), ElementsAre(mark, "a", "b"));
}

TEST(SentencePiece, TakesAnUnusedTokenApartAsItWasPutTogether) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("ab", TokenType::normal, -1);
  vocabulary.add("abc", TokenType::unused, -2);
  vocabulary.add("abcd", TokenType::unused, -3);
  EXPECT_THAT(pieces(vocabulary.build(), "abcd", plain), ElementsAre(mark, "ab", "c", "d"));
}

TEST(SentencePiece, KeepsUserDefinedTokensWhole) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("ab", TokenType::user_defined, -1);
  vocabulary.add("abc", TokenType::normal, 9);
  vocabulary.add(mark + "a", TokenType::normal, 9);
  EXPECT_THAT(pieces(vocabulary.build(), "abc", plain), ElementsAre(mark, "ab", "c"));
}

TEST(SentencePiece, MatchesAUserDefinedTokenThatTheFileSpellsWithSpaces) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.add("  ", TokenType::user_defined);
  EXPECT_THAT(pieces(vocabulary.build(), "a  b", plain), ElementsAre(mark, "a", "  ", "b"));
  vocabulary.add(mark + mark, TokenType::user_defined);  // both spellings: the first stays
  EXPECT_THAT(pieces(vocabulary.build(), "a  b", plain), ElementsAre(mark, "a", "  ", "b"));
}

TEST(SentencePiece, RefusesAScoreThatIsNotANumber) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.scores[260] = -INFINITY;
  EXPECT_NO_THROW(vocabulary.build());
  vocabulary.scores[260] = NAN;
  EXPECT_THROW(vocabulary.build(), Error);
}

TEST(SentencePiece, RefusesOtherModelsByName) {
  for (const char* model : {"bert", "rwkv", "none", ""}) {
    VocabularyBuilder vocabulary = sentencepiece();
    vocabulary.model = model;
    try {
      vocabulary.build();
      FAIL() << "accepted " << model;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
      EXPECT_THAT(error.what(), HasSubstr("tokenizer.ggml.model is '" + std::string(model) + "'"));
    }
  }
}

VocabularyBuilder unigram() {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.model = "t5";
  for (double& score : vocabulary.scores) score = -5;
  return vocabulary;
}

TEST(SentencePieceUnigram, TakesTheTokensWhoseScoresAddUpToMost) {
  VocabularyBuilder vocabulary = unigram();
  vocabulary.add("ab", TokenType::normal, -6);
  vocabulary.add("bcd", TokenType::normal, -4);
  EXPECT_THAT(pieces(vocabulary.build(), "abcd", plain), ElementsAre(mark, "a", "bcd"));
  vocabulary.add("cd", TokenType::normal, -2);
  EXPECT_THAT(pieces(vocabulary.build(), "abcd", plain), ElementsAre(mark, "ab", "cd"));
}

TEST(SentencePieceUnigram, AUserDefinedTokenGoesBeforeOthersAndAnUnusedOneIsNone) {
  VocabularyBuilder vocabulary = unigram();
  vocabulary.add("abc", TokenType::normal, -6);
  vocabulary.add("cd", TokenType::user_defined);
  EXPECT_THAT(pieces(vocabulary.build(), "abcd", plain), ElementsAre(mark, "a", "b", "cd"));
  vocabulary.add("bcd", TokenType::unused, 100);
  EXPECT_THAT(pieces(vocabulary.build(), "abcd", plain), ElementsAre(mark, "a", "b", "cd"));
}

TEST(SentencePieceUnigram, ForeignTextWritesNoMarker) {
  VocabularyBuilder vocabulary = unigram();
  const std::int32_t marker = vocabulary.add("<ab>", TokenType::user_defined);
  const Tokenizer tokenizer = vocabulary.build();
  const std::string text = "<ab>";
  EXPECT_THAT(tokenizer.encode(text, plain), testing::Contains(marker));
  const TextRange all{0, text.size()};
  EXPECT_THAT(tokenizer.encode(text, {&all, 1}, {.add_bos = false, .add_eos = false}), testing::Not(testing::Contains(marker)));
}

}  // namespace
}  // namespace quern::test
