// Long texts, large vocabularies, many threads.
//
// Times are the least of a few runs, in processor time. Four times the input takes four times as long, or little more where caches end. What
// looks at all of it for each part takes sixteen times as long; `most_growth` lies between.
#include "vocabulary_builder.hpp"

#include "support/processor_time.hpp"

#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

namespace quern::test {
namespace {

#if QUERN_SANITIZER != 0 || !defined(__OPTIMIZE__)
constexpr bool is_fast_build = false;
#else
constexpr bool is_fast_build = true;
#endif

constexpr double most_growth = 8;
/// Of texts eight times as long: what is kept leaves the caches, so that 20 times were measured, and 64 are the square.
constexpr double most_growth_of_texts = 45;

constexpr std::size_t length = std::size_t{1} << (is_fast_build ? 19 : 18);

std::string repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

// One class of character each, and sequences that make some matchers start over.
const std::string long_texts[] = {
    repeated("a", length),
    repeated("7", length),
    repeated(" ", length),
    repeated("!", length),
    repeated("\n", length),
    repeated("\n ", length),
    repeated("\r\n  ", length),
    repeated("'", length),
    repeated("\xE7\xA3\xA8", length),
    repeated("\xCC\x81", length),
    repeated("\xCC\x81\xCC\xA3", length),
    repeated("\xFF", length),
    repeated("<|end", length),
    repeated("ab", length),
    repeated(" 1", length),
    repeated("<", length),
    "a" + repeated(" ", length),
    repeated(" ", length) + "a",
    repeated("\xC2\xA0", length),
};

VocabularyBuilder doubling(VocabularyBuilder vocabulary) {
  // a aa aaaa ...: merges cascade over the whole text.
  std::string run = "a";
  for (int level = 0; level < 12; ++level, run += run) {
    if (vocabulary.model == "gpt2") {
      vocabulary.merge(run, run);
    } else {
      vocabulary.add(run + run, TokenType::normal, static_cast<float>(-level));
    }
  }
  vocabulary.add(std::string(4000, '<') + "b", TokenType::control);  // nearly matched at every place
  vocabulary.add(std::string(4000, 'a') + "b", TokenType::user_defined);
  return vocabulary;
}

/// Each text takes the time of its length, whatever it holds. Both ends of a text are kept in the part of it.
void expect_time_by_length(const Tokenizer& tokenizer, const char* name) {
  for (const std::string& text : long_texts) {
    const std::string part = text.substr(0, text.size() / 16) + text.substr(text.size() - text.size() / 16);
    const auto encode = [&](const std::string& what) { EXPECT_GE(tokenizer.encode(what).size(), what.size() / 4097); };
    EXPECT_LT(growth(
                  most_growth_of_texts, [&] { encode(part); }, [&] { encode(text); }),
              most_growth_of_texts)
        << name << ' ' << text.substr(0, 6);
  }
}

TEST(LongTexts, TakeTimeByTheirLengthWhateverTheyHold) {
  for (const char* pre_tokenizer : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-llm", "deepseek-coder"})
    expect_time_by_length(doubling(byte_level(pre_tokenizer)).build(), pre_tokenizer);
}

TEST(LongTexts, TakeTimeByTheirLengthInSentencePiece) { expect_time_by_length(doubling(sentencepiece()).build(), "sentencepiece"); }

TEST(LongTexts, ComeBackWhole) {
  const Tokenizer tokenizer = doubling(byte_level("llama-bpe")).build();
  for (const std::string& text : long_texts) EXPECT_TRUE(tokenizer.decode_bytes(tokenizer.encode(text)) == text);
}

// A vocabulary of the shape of the largest in use: tokens of a few letters, each made by one merge.
VocabularyBuilder large_byte_level(std::size_t tokens) {
  VocabularyBuilder vocabulary = byte_level("qwen2");
  std::vector<std::string> made;
  for (char c = 'a'; c <= 'z'; ++c) made.emplace_back(1, c);
  for (std::size_t i = 0; vocabulary.tokens.size() < tokens; ++i) {
    const std::string left = made[i / 26], right(1, static_cast<char>('a' + i % 26));
    made.push_back(left + right);
    vocabulary.merge(left, right);
  }
  return vocabulary;
}

void expect_time_by_tokens(VocabularyBuilder (*of)(std::size_t)) {
  VocabularyBuilder few = of(37500), many = of(150000);
  const VocabularyView few_view = few.view(), many_view = many.view();
  ASSERT_GT(many_view.tokens.size(), 149000u);
  const auto build = [](const VocabularyView& view) { EXPECT_EQ(Tokenizer(view).size(), view.tokens.size()); };
  EXPECT_LT(growth(
                most_growth, [&] { build(few_view); }, [&] { build(many_view); }),
            most_growth);
}

TEST(LargeVocabulary, IsReadyInTimeThatGoesByItsTokens) { expect_time_by_tokens(large_byte_level); }

TEST(LargeVocabulary, OfSentencePieceIsReadyInTimeThatGoesByItsTokens) {
  expect_time_by_tokens([](std::size_t tokens) {
    VocabularyBuilder vocabulary = sentencepiece();
    for (std::string& token : large_byte_level(tokens).tokens)
      if (token.size() > 1 && token[0] != '<') vocabulary.add(token, TokenType::normal, -static_cast<float>(vocabulary.tokens.size()));
    return vocabulary;
  });
}

TEST(Threads, ShareATokenizer) {
  for (VocabularyBuilder vocabulary : {doubling(byte_level("qwen2")), doubling(sentencepiece())}) {
    const Tokenizer tokenizer = vocabulary.build();
    const std::string text = "cafe\xCC\x81 aaaaa <|end|> 12 \xFF the mill";
    const auto expected = tokenizer.encode(text);
    const std::string expected_text = tokenizer.decode(expected);
    std::vector<int> agreed(4);
    std::vector<std::thread> threads;
    for (int& count : agreed)
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i)
          if (tokenizer.encode(text) == expected && tokenizer.decode(expected) == expected_text) ++count;
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(agreed, std::vector<int>(4, 500));
  }
}

}  // namespace
}  // namespace quern::test
