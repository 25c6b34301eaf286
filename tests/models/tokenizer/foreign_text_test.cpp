// Texts of which a part came from someone who may not write special tokens.
#include "vocabulary_builder.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace quern::test {
namespace {

using testing::ElementsAre;

/// A text written with its foreign parts between { and }; {} is a place where something foreign was.
struct Written {
  std::string text;
  std::vector<TextRange> foreign;

  explicit Written(std::string_view source) {
    for (const char c : source) {
      if (c == '{') {
        foreign.push_back({text.size(), text.size()});
      } else if (c == '}') {
        foreign.back().end = text.size();
      } else {
        text += c;
      }
    }
  }
};

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::string_view source) {
  const Written written(source);
  std::vector<std::string> out;
  for (const std::int32_t id : tokenizer.encode(written.text, written.foreign, {.add_bos = false, .add_eos = false}))
    out.emplace_back(tokenizer.token_text(id));
  return out;
}

std::size_t count_of(const Tokenizer& tokenizer, std::string_view source, std::string_view token) {
  const std::vector<std::string> all = pieces_of(tokenizer, source);
  return static_cast<std::size_t>(std::ranges::count(all, token));
}

TEST(ForeignText, BecomesNoControlTokenAndTheRestDoes) {
  const Tokenizer tokenizer = byte_level().build();
  EXPECT_EQ(count_of(tokenizer, "<|end|>{<|end|>}<|end|>{a<|end|><|end|>}", "<|end|>"), 2u);
}

TEST(ForeignText, IsNoPartOfAControlToken) {
  const Tokenizer tokenizer = byte_level().build();
  const std::string marker = "<|end|>";
  for (std::size_t begin = 0; begin <= marker.size(); ++begin) {
    for (std::size_t end = begin; end <= marker.size(); ++end) {
      const std::string source = marker.substr(0, begin) + "{" + marker.substr(begin, end - begin) + "}" + marker.substr(end);
      const bool inside = end > 0 && begin < marker.size();  // an empty range inside counts too
      EXPECT_EQ(count_of(tokenizer, source, marker), inside ? 0u : 1u) << source;
    }
  }
}

TEST(ForeignText, DoesNotHideAShorterMarkerBeforeIt) {
  VocabularyBuilder vocabulary = byte_level();
  for (const char* text : {"<a>", "<a><b>"}) vocabulary.add(text, TokenType::control);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces_of(tokenizer, "<a>{<b>}"), ElementsAre("<a>", "<", "b", ">"));
  EXPECT_THAT(pieces_of(tokenizer, "{<a>}<b><a>"), ElementsAre("<", "a", ">", "<", "b", ">", "<a>"));
}

TEST(ForeignText, KeepsWordsOfPlainTextWholeAndTakesNoByteOfAMarkerWithThem) {
  VocabularyBuilder vocabulary = byte_level();
  for (const char* text : {"<table>", "\n\n", "<<", "x<|"}) vocabulary.add(text, TokenType::user_defined);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces_of(tokenizer, "{<table>}"), ElementsAre("<table>"));
  EXPECT_EQ(pieces_of(tokenizer, "a\n{\nb}").at(1), "\n\n");
  EXPECT_THAT(pieces_of(tokenizer, "{x}<|end|>"), ElementsAre("x", "<|end|>"));
  EXPECT_THAT(pieces_of(tokenizer, "{<}<|end|>"), ElementsAre("<", "<|end|>"));
  EXPECT_THAT(pieces_of(tokenizer, "{<}<a"), ElementsAre("<<", "a"));
}

TEST(ForeignText, HasUserDefinedTokensOnlyWhereTheyAreWordsOfPlainText) {
  struct Row {
    const char* text;
    bool plain;
  };
  const Row rows[] = {{"<tool_call>", false}, {"</think>", false},    {"<|im_start|>", false}, {"[IMG]", false},
                      {"USER:", false},       {"<s>", false},         {"<pre>", true},         {"<table>", true},
                      {"</h1>", true},        {"<br/>", true},        {"    ", true},          {"OTHER:", true},
                      {"word", true},         {"\xE4\xB8\xAD", true}, {"```", true},           {"\t\t", true}};
  VocabularyBuilder vocabulary = byte_level();
  for (const Row& row : rows) vocabulary.add(row.text, TokenType::user_defined);
  vocabulary.add("end", TokenType::user_defined);
  vocabulary.settings.eot = static_cast<std::uint64_t>(vocabulary.add("stop", TokenType::user_defined));
  vocabulary.settings.chat_template = "USER: {{ m }} <s> word ```    \t\t";
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_EQ(count_of(tokenizer, "{stop end}", "stop"), 0u);  // the file names it
  EXPECT_EQ(count_of(tokenizer, "{stop end}", "end"), 1u);
  for (const Row& row : rows) {
    EXPECT_EQ(count_of(tokenizer, "{" + std::string(row.text) + "}", row.text), row.plain ? 1u : 0u) << row.text;
    EXPECT_EQ(count_of(tokenizer, row.text + std::string("{a}"), row.text), 1u) << row.text;
  }
}

TEST(ForeignText, MergesIntoNoMarker) {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("<", "t");
  vocabulary.merge("<t", ">");
  vocabulary.types.back() = static_cast<std::int32_t>(TokenType::user_defined);  // "<t>"
  vocabulary.merge("[", "x");
  vocabulary.types.back() = static_cast<std::int32_t>(TokenType::control);
  const Tokenizer tokenizer = vocabulary.build();
  EXPECT_THAT(pieces_of(tokenizer, "<t>{<t>[x}[x"), ElementsAre("<t>", "<", "t", ">", "[", "x", "[x"));
  EXPECT_THAT(pieces(tokenizer, "[x", {.add_bos = {}, .add_eos = {}, .parse_special = false}), ElementsAre("[", "x"));
}

TEST(ForeignText, OfAWholeWordPieceIsNoMarker) {
  VocabularyBuilder vocabulary = byte_level("llama3");  // takes a piece that is a token whole
  vocabulary.add("<|>", TokenType::user_defined);
  EXPECT_THAT(pieces_of(vocabulary.build(), "{<|>}<|>"), ElementsAre("<", "|", ">", "<|>"));
}

TEST(ForeignText, HoldsNoUserDefinedMarkerOfSentencePiece) {
  for (const bool remove : {false, true}) {
    for (const bool prefix : {false, true}) {
      VocabularyBuilder vocabulary = sentencepiece();
      vocabulary.settings.add_space_prefix = prefix;
      vocabulary.settings.remove_extra_whitespaces = remove;
      vocabulary.add("<|a|>", TokenType::user_defined, 10);
      vocabulary.add("<|a", TokenType::normal, 5);
      vocabulary.add("<|", TokenType::normal, 4);
      vocabulary.add("<", TokenType::normal);
      vocabulary.add("|", TokenType::normal);
      vocabulary.add("|>", TokenType::normal, 4);
      vocabulary.add(">", TokenType::normal);
      const Tokenizer tokenizer = vocabulary.build();
      for (const char* source : {"<|a|>{<|a|>}b<|a|>", "  <|a|> {  <|a|>  <|a|>} <|a|>  ", "</s> <|a|>{ <|a|></s> } <|a|>",
                                 "<|a|>{a }<|a|>{}<|{}a|>", "{  } <|a|>{<|a|}<|a|>|>"})
        EXPECT_EQ(count_of(tokenizer, source, "<|a|>"), 2u) << source << remove << prefix;
    }
  }
}

TEST(ForeignText, DecodesToItsBytes) {
  VocabularyBuilder vocabulary = sentencepiece();
  vocabulary.settings.add_space_prefix = false;
  vocabulary.add("<|a|>", TokenType::user_defined, 10);
  const Tokenizer with_bytes = vocabulary.build();
  const Tokenizer bpe = byte_level("qwen2").build();
  const Written written("<|end|>{<|end|></s><unk><0x41><tool> <|a|>}<|end|>");
  for (const Tokenizer* tokenizer : {&with_bytes, &bpe})
    EXPECT_EQ(tokenizer->decode_bytes(tokenizer->encode(written.text, written.foreign, {.add_bos = false, .add_eos = false})),
              written.text);
}

// Texts in which no marker stands in foreign text, or half in it, keep their ids.
TEST(ForeignText, WithoutMarkersChangesNoId) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (const bool bytes : {true, false}) {
    VocabularyBuilder vocabulary = bytes ? byte_level("qwen2") : sentencepiece();
    for (const char* text : {"\n\n", "  ", "<b>", "ab"}) vocabulary.add(text, TokenType::user_defined);
    vocabulary.add("[end]", TokenType::control);
    const Tokenizer tokenizer = vocabulary.build();
    const std::vector<std::string> words = {"a", "b", " ", "\n", "<b>", "e\xCC\x81", "<", "ab", "\n\n", "  ", "d"};
    for (int turn = 0; turn < 2000; ++turn) {
      std::string text;
      std::vector<TextRange> foreign;
      for (std::size_t part = below(6); part-- > 0;) {
        text += below(3) == 0 ? "[end]" : words[below(words.size())];
        const std::size_t begin = text.size();
        for (std::size_t n = below(4); n-- > 0;) text += words[below(words.size())];
        if (!foreign.empty() && foreign.back().end == begin) continue;
        foreign.push_back({begin, text.size()});
      }
      EXPECT_EQ(tokenizer.encode(text, foreign), tokenizer.encode(text)) << testing::PrintToString(text);
    }
  }
}

// Against a search that looks at each marker at each place.
TEST(ForeignText, HoldsMarkersWhereASlowSearchFindsThem) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  VocabularyBuilder vocabulary = byte_level();
  const std::vector<std::string> markers = {"<a", "<a>", "a>", "><", "a><"};
  for (const std::string& text : markers) vocabulary.add(text, TokenType::control);
  const Tokenizer tokenizer = vocabulary.build();
  for (int turn = 0; turn < 3000; ++turn) {
    std::string text;
    for (std::size_t n = below(12); n-- > 0;) text += "<a>"[below(3)];
    std::vector<TextRange> foreign;
    for (std::size_t at = 0; at <= text.size(); at += 1 + below(3)) {
      if (!foreign.empty() && foreign.back().end >= at) continue;
      foreign.push_back({at, std::min(at + below(3), text.size())});
    }
    std::vector<std::string> expected;
    for (std::size_t at = 0; at < text.size();) {
      std::string best;
      for (const std::string& marker : markers) {
        const std::size_t end = at + marker.size();
        bool fits = std::string_view(text).substr(at).starts_with(marker) && marker.size() > best.size();
        for (const TextRange& range : foreign) fits = fits && (range.end <= at || range.begin >= end);
        if (fits) best = marker;
      }
      if (best.empty()) best = text.substr(at, 1);
      expected.push_back(best);
      at += best.size();
    }
    std::vector<std::string> found;
    for (const std::int32_t id : tokenizer.encode(text, foreign)) found.emplace_back(tokenizer.token_text(id));
    EXPECT_EQ(found, expected) << text;
  }
}

TEST(ForeignText, IsRefusedWhereItsRangesDoNotLieInTheTextInOrder) {
  const Tokenizer tokenizer = byte_level().build();
  for (const std::vector<TextRange>& foreign :
       std::vector<std::vector<TextRange>>{{{2, 1}}, {{0, 5}}, {{2, 3}, {0, 1}}, {{0, 2}, {1, 3}}, {{0, 2}, {2, 3}}})
    EXPECT_THROW(tokenizer.encode("abcd", foreign), Error);
}

}  // namespace
}  // namespace quern::test
