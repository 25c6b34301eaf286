// Long texts, large vocabularies, many threads.
//
// Times are the least of a few runs, in processor time. The limits for texts are far above what a linear
// method takes (a tenth of a second) and far below what a quadratic one would (minutes).
#include "vocabulary_builder.hpp"
#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <time.h>

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

constexpr std::size_t megabyte =
    is_fast_build ? std::size_t{1} << 20 : std::size_t{1} << 18;  // a quarter where all is slow

// Of this thread's own processor time, so that other work on the machine does not count.
double processor_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double least_milliseconds(int runs, const std::function<void()>& work) {
  double least = 1e9;
  for (int run = 0; run < runs; ++run) {
    const double start = processor_milliseconds();
    work();
    least = std::min(least, processor_milliseconds() - start);
  }
  return least;
}

std::string repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

// One class of character each, and sequences that make some matchers start over.
const std::string long_texts[] = {
    repeated("a", megabyte),
    repeated("7", megabyte),
    repeated(" ", megabyte),
    repeated("!", megabyte),
    repeated("\n", megabyte),
    repeated("\n ", megabyte),
    repeated("\r\n  ", megabyte),
    repeated("'", megabyte),
    repeated("\xE7\xA3\xA8", megabyte),
    repeated("\xCC\x81", megabyte),
    repeated("\xCC\x81\xCC\xA3", megabyte),
    repeated("\xFF", megabyte),
    repeated("<|end", megabyte),
    repeated("ab", megabyte),
    repeated(" 1", megabyte),
    repeated("<", megabyte),
    "a" + repeated(" ", megabyte),
    repeated(" ", megabyte) + "a",
    repeated("\xC2\xA0", megabyte),
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

TEST(LongTexts, TakeNoMoreThanSecondsWhateverTheyHold) {
  for (const char* pre_tokenizer : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-llm", "deepseek-coder"}) {
    const Tokenizer tokenizer = doubling(byte_level(pre_tokenizer)).build();
    for (const std::string& text : long_texts) {
      const double took = least_milliseconds(1, [&] { EXPECT_GE(tokenizer.encode(text).size(), megabyte / 4096); });
      EXPECT_LT(took, is_fast_build ? 4000 : 40000) << pre_tokenizer << ' ' << text.substr(0, 6);
    }
  }
}

TEST(LongTexts, TakeNoMoreThanSecondsInSentencePiece) {
  const Tokenizer tokenizer = doubling(sentencepiece()).build();
  for (const std::string& text : long_texts) {
    const double took = least_milliseconds(1, [&] { EXPECT_GE(tokenizer.encode(text).size(), megabyte / 4096); });
    EXPECT_LT(took, is_fast_build ? 4000 : 40000) << text.substr(0, 6);
  }
}

TEST(LongTexts, ComeBackWhole) {
  const Tokenizer tokenizer = doubling(byte_level("llama-bpe")).build();
  for (const std::string& text : long_texts)
    EXPECT_TRUE(tokenizer.decode_bytes(tokenizer.encode(text)) == text);
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

TEST(LargeVocabulary, OfAHundredAndFiftyThousandTokensIsReadyIn80Milliseconds) {
  VocabularyBuilder vocabulary = large_byte_level(150000);
  const VocabularyView view = vocabulary.view();
  const double took = least_milliseconds(5, [&] { EXPECT_EQ(Tokenizer(view).size(), 150000); });
  RecordProperty("milliseconds", static_cast<int>(took));
  EXPECT_LT(took, is_fast_build ? 80 : 5000);
}

TEST(LargeVocabulary, OfSentencePieceIsReadyIn80Milliseconds) {
  VocabularyBuilder vocabulary = sentencepiece();
  for (std::string& token : large_byte_level(150000).tokens)
    if (token.size() > 1 && token[0] != '<')
      vocabulary.add(token, TokenType::normal, -static_cast<float>(vocabulary.tokens.size()));
  const VocabularyView view = vocabulary.view();
  ASSERT_GT(view.tokens.size(), 149000u);
  const double took = least_milliseconds(5, [&] { EXPECT_GT(Tokenizer(view).size(), 149000); });
  RecordProperty("milliseconds", static_cast<int>(took));
  EXPECT_LT(took, is_fast_build ? 80 : 5000);
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
