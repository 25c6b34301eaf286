// Control and user-defined tokens in a text, the tokens around a text, and those that end an answer.
#include "vocabulary_builder.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::test {
namespace {

using testing::ElementsAre;

const EncodeOptions unparsed{.add_bos = {}, .add_eos = {}, .parse_special = false};

TEST(Markers, AreMatchedWholeInsideText) {
  EXPECT_THAT(pieces(byte_level().build(), "a<|end|>b<tool>"), ElementsAre("a", "<|end|>", "b", "<tool>"));
}

TEST(Markers, OfControlTypeAreTextWhereTheyAreNotParsed) {
  const Tokenizer tokenizer = byte_level().build();
  EXPECT_THAT(pieces(tokenizer, "<tool>", unparsed), ElementsAre("<tool>"));
  EXPECT_EQ(tokenizer.encode("<|end|>", unparsed).size(), 7u);
}

TEST(Markers, LongestWinsAtEachPlaceAndPlacesGoFromTheLeft) {
  VocabularyBuilder vocabulary = byte_level();
  for (const char* text : {"<a", "<a><b", "<b>", "><", "b><"}) vocabulary.add(text, TokenType::control);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces(tokenizer, "<a><b>"), ElementsAre("<a><b", ">"));
  EXPECT_THAT(pieces(tokenizer, "<a><a"), ElementsAre("<a", "><", "a"));
  EXPECT_THAT(pieces(tokenizer, "<b><b>"), ElementsAre("<b>", "<b>"));
}

TEST(Markers, AUserDefinedTokenInsideAControlTokenIsFoundWhereControlTokensAreText) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.add("en", TokenType::user_defined);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces(tokenizer, "<|end|>"), ElementsAre("<|end|>"));
  EXPECT_THAT(pieces(tokenizer, "<|end|>", unparsed), ElementsAre("<", "|", "en", "d", "|", ">"));
}

TEST(Markers, StartASentencePieceTextAnew) {
  const std::string mark(space_mark);
  EXPECT_THAT(pieces(sentencepiece().build(), "a</s>b</s>", {.add_bos = false, .add_eos = {}, .parse_special = true}),
              ElementsAre(mark, "a", "</s>", mark, "b", "</s>"));
}

TEST(Markers, TakeTheWhiteSpaceAfterThemInPhi3ExceptTheFirstOfAText) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.settings.markers_take_following_space = true;
  vocabulary.settings.add_space_prefix = false;
  vocabulary.add(" ", TokenType::control);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces(tokenizer,
                     "</s> \n\xE2\x80\x83"
                     "a",
                     unparsed)
                  .size(),
              testing::Gt(3u));
  EXPECT_THAT(pieces(tokenizer,
                     "</s> \n\xE2\x80\x83"
                     "a"),
              ElementsAre("</s>", "a"));
  EXPECT_THAT(pieces(tokenizer, "</s>  "), ElementsAre("</s>"));
  EXPECT_THAT(pieces(tokenizer, "<s> a"), ElementsAre("<s>", " ", "a"));
}

TEST(BeginAndEnd, AreAddedAsTheFileSaysUnlessTheCallerSaysOtherwise) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.settings.add_space_prefix = false;
  EXPECT_THAT(pieces(vocabulary.build(), "a"), ElementsAre("a"));
  EXPECT_THAT(pieces(vocabulary.build(), "a", {.add_bos = true, .add_eos = true, .parse_special = true}), ElementsAre("<s>", "a", "</s>"));
  vocabulary.settings.add_bos = vocabulary.settings.add_eos = true;
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_TRUE(tokenizer.adds_bos() && tokenizer.adds_eos());
  EXPECT_THAT(pieces(tokenizer, ""), ElementsAre("<s>", "</s>"));
  EXPECT_THAT(pieces(tokenizer, "a", {.add_bos = false, .add_eos = false, .parse_special = true}), ElementsAre("a"));
}

TEST(BeginAndEnd, ThatTheVocabularyLacksAreRefused) {
  const Tokenizer tokenizer = byte_level().build();
  EXPECT_FALSE(tokenizer.bos() || tokenizer.eos());
  EXPECT_THROW(tokenizer.encode("a", {.add_bos = true, .add_eos = {}, .parse_special = true}), Error);
  EXPECT_THROW(tokenizer.encode("a", {.add_bos = {}, .add_eos = true, .parse_special = true}), Error);
}

TEST(EndTokens, AreThoseOfTheFileAndControlTokensOfAKnownName) {
  VocabularyBuilder vocabulary = byte_level();
  const std::int32_t turn = vocabulary.add("<|im_end|>", TokenType::control);
  const std::int32_t tag = vocabulary.add("</s>");  // a word of HTML, not a marker
  const std::int32_t own = vocabulary.add("<done>", TokenType::control);
  const std::int32_t message = vocabulary.add("<message>", TokenType::control);
  vocabulary.settings.eos = own;
  vocabulary.settings.eot = turn;
  vocabulary.settings.eom = message;
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(tokenizer.end_tokens(), ElementsAre(0, turn, own, message));  // 0 is <|end|>
  EXPECT_TRUE(tokenizer.is_end(turn));
  EXPECT_FALSE(tokenizer.is_end(tag));
  EXPECT_FALSE(tokenizer.is_end(-1));
  EXPECT_FALSE(tokenizer.is_end(1 << 30));
}

TEST(Decoding, FlagsControlAndUnknownTokensAndCanSkipThem) {
  const Tokenizer tokenizer = sentencepiece().build();
  const std::int32_t a = tokenizer.find("a").value();
  EXPECT_TRUE(tokenizer.token_bytes(0).special);
  EXPECT_TRUE(tokenizer.token_bytes(1).special);
  EXPECT_FALSE(tokenizer.token_bytes(a).special);
  const std::vector<std::int32_t> ids{1, tokenizer.find(space_mark).value(), a, 2};
  EXPECT_EQ(tokenizer.decode(ids), "<s> a</s>");
  EXPECT_EQ(tokenizer.decode(ids, true), "a");
}

TEST(Decoding, RefusesIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = byte_level().build();
  for (const std::int32_t id : {-1, tokenizer.size(), INT32_MAX, INT32_MIN}) {
    const std::vector<std::int32_t> ids{id};
    EXPECT_THROW(tokenizer.decode(ids), Error);
    EXPECT_THROW(tokenizer.decode_bytes(ids), Error);
    EXPECT_THROW(tokenizer.token_bytes(id), Error);
    EXPECT_THROW(tokenizer.token_text(id), Error);
    EXPECT_THROW(tokenizer.token_type(id), Error);
  }
}

TEST(Lookup, FindsEachTokenByTheFilesSpelling) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "b");
  const Tokenizer tokenizer = vocabulary.build();
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) EXPECT_EQ(tokenizer.find(tokenizer.token_text(id)), id);
  EXPECT_EQ(tokenizer.find("abc"), std::nullopt);
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
  EXPECT_EQ(tokenizer.token_type(0), TokenType::control);
}

TEST(Lookup, KeepsNothingOfTheViewItWasBuiltFrom) {
  auto vocabulary = std::make_unique<VocabularyBuilder>(byte_level());
  Tokenizer tokenizer = vocabulary->build();
  vocabulary.reset();
  Tokenizer moved = std::move(tokenizer);
  EXPECT_THAT(pieces(moved, "a<|end|>"), ElementsAre("a", "<|end|>"));
}

}  // namespace
}  // namespace quern::test
