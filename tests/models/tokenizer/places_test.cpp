// Where in a text each id begins.
#include "vocabulary_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quern::test {
namespace {

using Places = std::vector<std::size_t>;

Places places_of(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {.add_bos = false, .add_eos = false}) {
  const PlacedIds placed = tokenizer.encode_placed(text, {}, options);
  EXPECT_EQ(placed.ids, tokenizer.encode(text, options)) << text;
  EXPECT_EQ(placed.places.size(), placed.ids.size());
  return placed.places;
}

TEST(Places, OfBytesMergesAndMarkers) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "b");
  EXPECT_EQ(places_of(vocabulary.build(), "abc<|end|>ab"), (Places{0, 2, 3, 10}));
}

TEST(Places, OfBosAndEosAreTheEndsOfTheText) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.settings.add_space_prefix = false;
  EXPECT_EQ(places_of(vocabulary.build(), "ab", {.add_bos = true, .add_eos = true}), (Places{0, 0, 1, 2}));
}

TEST(Places, BehindASpaceThatIsAddedOrRemoved) {
  VocabularyBuilder vocabulary = sentencepiece();
  EXPECT_EQ(places_of(vocabulary.build(), "ab"), (Places{0, 0, 1}));  // the prefix comes from where the text begins
  vocabulary.settings.remove_extra_whitespaces = true;
  EXPECT_EQ(places_of(vocabulary.build(), "  a   b "), (Places{2, 2, 3, 6}));
}

TEST(Places, OfBytesInsideACharacter) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.settings.add_space_prefix = false;
  EXPECT_EQ(places_of(vocabulary.build(),
                      "a\xC3\xA9"
                      "b"),
            (Places{0, 1, 2, 3}));
}

TEST(Places, AfterAByteThatNoTokenSpells) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.tokens[first_byte + 'x'] = "gone";
  EXPECT_EQ(places_of(vocabulary.build(), "axb"), (Places{0, 2}));
}

TEST(Places, WhereFormCChangesTheText) {
  const Tokenizer tokenizer = byte_level("qwen2").build();
  // "e" and U+0301 become U+00E9, two bytes: its first one is new, and what follows keeps its place.
  const std::string text =
      "ae\xCC\x81"
      "b<|end|>c";
  EXPECT_EQ(places_of(tokenizer, text), (Places{0, 1, 1, 4, 5, 12}));
  // The change of one part moves nothing of the next.
  EXPECT_EQ(places_of(tokenizer, "\xE6\x97\xA5 " + text).back(), 16u);
}

// Of any text: ascending, each at the byte that the token begins with where the rule changes nothing.
TEST(Places, AscendAndStandAtTheTokensBytes) {
  std::mt19937 random(5);
  for (const char* rule : {"gpt-2", "qwen2", "llama-bpe", "deepseek-llm"}) {
    VocabularyBuilder vocabulary = byte_level(rule);
    for (const auto& [left, right] : {std::pair{"a", "b"}, {"b", "c"}, {"c", "c"}}) vocabulary.merge(left, right);
    const Tokenizer tokenizer = vocabulary.build();
    const std::vector<std::string> parts = {
        "a", "b", "c", " ", "\n", "<|end|>", "<tool>", "12", "\xC3\xA9", "e\xCC\x81", "\xE1\x84\x80\xE1\x85\xA1", "\xFF", "'s"};
    for (int turn = 0; turn < 300; ++turn) {
      std::string text;
      for (std::size_t n = random() % 20; n-- > 0;) text += parts[random() % parts.size()];
      const PlacedIds placed = tokenizer.encode_placed(text, {}, {.add_bos = false, .add_eos = false});
      EXPECT_EQ(placed.ids, tokenizer.encode(text, {.add_bos = false, .add_eos = false}));
      EXPECT_TRUE(std::ranges::is_sorted(placed.places));
      if (tokenizer.decode_bytes(placed.ids) != text) continue;  // form C changed it
      std::size_t at = 0;
      for (std::size_t i = 0; i < placed.ids.size(); ++i) {
        EXPECT_EQ(placed.places[i], at) << rule << " " << text;
        at += tokenizer.token_bytes(placed.ids[i]).bytes.size();
      }
    }
  }
}

}  // namespace
}  // namespace quern::test
