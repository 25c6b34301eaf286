// Malformed vocabularies (classes 13 and 20 of the malformed-file corpus): each file has one thing wrong, is
// refused with an error that names file and field, and has a twin that differs in that thing only and loads.
#include "gguf_vocabulary.hpp"

#include "support/processor_time.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace quern::test {
namespace {

using Change = std::function<void(VocabularyBuilder&, GgufWriter&)>;

struct Hostile {
  std::string name;
  VocabularyBuilder (*base)();
  Change bad, good;  // made to the vocabulary and to its file, in this order: see written()
  std::vector<std::string> said;
};

VocabularyBuilder merging() {
  VocabularyBuilder vocabulary = byte_level();
  vocabulary.merge("a", "b");
  return vocabulary;
}

// A change of tokens, types, scores or merges.
Change in_vocabulary(void (*change)(VocabularyBuilder&)) {
  return [change](VocabularyBuilder& vocabulary, GgufWriter& writer) {
    change(vocabulary);
    writer = gguf_of(vocabulary);
  };
}

// A change of other keys.
Change in_file(void (*change)(GgufWriter&)) {
  return [change](VocabularyBuilder&, GgufWriter& writer) { change(writer); };
}

GgufWriter written(VocabularyBuilder vocabulary, const Change& change) {
  GgufWriter writer = gguf_of(vocabulary);
  change(vocabulary, writer);
  return writer;
}

constexpr auto tokens_key = "tokenizer.ggml.tokens", types_key = "tokenizer.ggml.token_type", scores_key = "tokenizer.ggml.scores",
               merges_key = "tokenizer.ggml.merges";
const Change nothing = in_file([](auto&) {});
constexpr std::int32_t byte_type = 6, control_type = 3;

const Hostile cases[] = {
    {"SpecialIdEqualToTheSize",
     merging,
     in_file([](auto& w) { w.u32("tokenizer.ggml.eos_token_id", 259); }),
     in_file([](auto& w) { w.u32("tokenizer.ggml.eos_token_id", 258); }),
     {"tokenizer.ggml.eos_token_id is 259", "259 tokens"}},
    {"SpecialIdOfAllOnes",
     sentencepiece,
     in_file([](auto& w) { w.u64("tokenizer.ggml.bos_token_id", ~std::uint64_t{0}); }),
     in_file([](auto& w) { w.u64("tokenizer.ggml.bos_token_id", 0); }),
     {"tokenizer.ggml.bos_token_id"}},
    {"SpecialIdBelowZero",
     merging,
     in_file([](auto& w) { w.i32("tokenizer.ggml.eot_token_id", -1); }),
     in_file([](auto& w) { w.i32("tokenizer.ggml.eot_token_id", 1); }),
     {"tokenizer.ggml.eot_token_id"}},
    {"UnknownIdBeyondTheEnd",
     sentencepiece,
     in_file([](auto& w) { w.u32("tokenizer.ggml.unknown_token_id", 1u << 31); }),
     in_file([](auto& w) { w.u32("tokenizer.ggml.unknown_token_id", 0); }),
     {"tokenizer.ggml.unknown_token_id is 2147483648"}},
    {"MessageEndBeyondTheEnd",
     merging,
     in_file([](auto& w) { w.u32("tokenizer.ggml.eom_token_id", 100000); }),
     nothing,
     {"tokenizer.ggml.eom_token_id is 100000"}},
    {"BeginAskedForButAbsent",
     merging,
     in_file([](auto& w) { w.boolean("tokenizer.ggml.add_bos_token", true); }),
     in_file([](auto& w) { w.boolean("tokenizer.ggml.add_bos_token", true).u32("tokenizer.ggml.bos_token_id", 0); }),
     {"add_bos_token is true", "no tokenizer.ggml.bos_token_id"}},
    {"EndAskedForButAbsent",
     merging,
     in_file([](auto& w) { w.boolean("tokenizer.ggml.add_eos_token", true); }),
     in_file([](auto& w) { w.boolean("tokenizer.ggml.add_eos_token", true).u32("tokenizer.ggml.eos_token_id", 0); }),
     {"add_eos_token is true", "no tokenizer.ggml.eos_token_id"}},

    {"ScoresShorterThanTokens",
     sentencepiece,
     in_vocabulary([](auto& v) { v.scores.pop_back(); }),
     nothing,
     {scores_key, "264 entries for 265 tokens"}},
    {"ScoresAbsent", sentencepiece, in_file([](auto& w) { w.remove(scores_key); }), nothing, {scores_key, "0 entries for 265 tokens"}},
    {"ScoresLongerThanTokensOfByteLevelBpe",
     merging,
     in_file([](auto& w) { w.f32s(scores_key, std::vector<float>(260)); }),
     in_file([](auto& w) { w.f32s(scores_key, std::vector<float>(259)); }),
     {scores_key, "260 entries for 259 tokens"}},
    {"ScoresOfIntegers",
     sentencepiece,
     in_file([](auto& w) { w.i32s(scores_key, std::vector<std::int32_t>(265)); }),
     in_file([](auto& w) { w.f64s(scores_key, std::vector<double>(265)); }),
     {scores_key}},

    {"TypesShorterThanTokens",
     merging,
     in_vocabulary([](auto& v) { v.types.pop_back(); }),
     nothing,
     {types_key, "258 entries for 259 tokens"}},
    {"TypesAbsent", sentencepiece, in_file([](auto& w) { w.remove(types_key); }), nothing, {types_key}},
    {"TypesOfFloats",
     merging,
     in_file([](auto& w) { w.f32s(types_key, std::vector<float>(259, 1)); }),
     in_file([](auto& w) { w.u32s(types_key, std::vector<std::uint32_t>(259, 1)); }),
     {types_key}},
    {"TypesOfNarrowIntegersThatAreTooFew",
     merging,
     in_file([](auto& w) { w.raw_array(types_key, 1, 64, GgufWriter::Bytes(64, std::byte{1})); }),
     in_file([](auto& w) { w.raw_array(types_key, 1, 259, GgufWriter::Bytes(259, std::byte{1})); }),
     {types_key, "64 entries for 259"}},
    {"TypeOfZero", merging, in_vocabulary([](auto& v) { v.types[5] = 0; }), nothing, {types_key, "entry 5 is 0"}},
    {"TypeThatOnlyFitsInSixtyFourBits",
     merging,
     in_file([](auto& w) { w.u64s(types_key, std::vector<std::uint64_t>(259, (std::uint64_t{1} << 32) + 1)); }),
     in_file([](auto& w) { w.u64s(types_key, std::vector<std::uint64_t>(259, 1)); }),
     {types_key, "entry 0 is 2147483647"}},

    {"MergeOfATokenThatIsNotThere",
     merging,
     in_vocabulary([](auto& v) { v.merges.push_back("a xy"); }),
     in_vocabulary([](auto& v) { v.merge("a", "x"); }),
     {merges_key, "entry 1 'a xy' names 'xy', which is not in tokenizer.ggml.tokens"}},
    {"MergeIntoATokenThatIsNotThere",
     merging,
     in_vocabulary([](auto& v) { v.merges.push_back("a c"); }),
     in_vocabulary([](auto& v) { v.merges.push_back("a b"); }),
     {merges_key, "names 'ac'"}},
    {"MergeLongerThanAnyToken",
     merging,
     in_vocabulary([](auto& v) { v.merges.push_back("a " + std::string(100000, 'a')); }),
     nothing,
     {merges_key, "entry 1 'a aaaa"}},
    {"MergeWithoutASpace",
     merging,
     in_vocabulary([](auto& v) { v.merges.push_back("ab"); }),
     nothing,
     {merges_key, "entry 1 'ab' is not two tokens with one space between them"}},
    {"MergeWithNothingBeforeTheSpace", merging, in_vocabulary([](auto& v) { v.merges.push_back(" ab"); }), nothing, {merges_key, "' ab'"}},
    {"MergeWithNothingAfterTheSpace", merging, in_vocabulary([](auto& v) { v.merges.push_back("ab "); }), nothing, {merges_key, "'ab '"}},
    {"MergeOfThree", merging, in_vocabulary([](auto& v) { v.merges.push_back("a b b"); }), nothing, {merges_key, "'a b b'"}},
    {"MergeOfNothing", merging, in_vocabulary([](auto& v) { v.merges.push_back(""); }), nothing, {merges_key, "entry 1 ''"}},
    {"MergesAbsent", merging, in_file([](auto& w) { w.remove(merges_key); }), nothing, {merges_key}},
    {"MergesOfNumbers",
     merging,
     in_file([](auto& w) {
       w.u32s(merges_key, {1, 2});
     }),
     in_file([](auto& w) { w.strings(merges_key, {}); }),
     {merges_key}},

    {"ByteTokenBelowZero",
     sentencepiece,
     in_vocabulary([](auto& v) { v.tokens[3 + 7] = "<0x-1>"; }),
     nothing,
     {tokens_key, "entry 10 has the type of a byte but is '<0x-1>'"}},
    {"ByteTokenOfThreeDigits", sentencepiece, in_vocabulary([](auto& v) { v.tokens[3] = "<0x000>"; }), nothing, {tokens_key, "'<0x000>'"}},
    {"ByteTokenWithoutItsEnd",
     merging,
     in_vocabulary([](auto& v) { v.add("<0x41", TokenType{byte_type}); }),
     in_vocabulary([](auto& v) { v.add("<0x41>", TokenType{byte_type}); }),
     {tokens_key, "'<0x41'"}},
    {"ByteTokenThatIsEmpty",
     merging,
     in_vocabulary([](auto& v) { v.add("", TokenType{byte_type}); }),
     in_vocabulary([](auto& v) { v.add(""); }),
     {tokens_key, "entry 259", "''"}},
    {"ByteTokenGivenTwice",
     merging,
     in_vocabulary([](auto& v) { v.add("<0x4f>", TokenType{byte_type}), v.add("<0x4F>", TokenType{byte_type}); }),
     in_vocabulary([](auto& v) { v.add("<0x4f>", TokenType{byte_type}), v.add("<0x4E>", TokenType{byte_type}); }),
     {tokens_key, "entries 259 and 260 are the same byte '<0x4F>'"}},

    {"TokenGivenTwice",
     merging,
     in_vocabulary([](auto& v) { v.add("ab"); }),
     in_vocabulary([](auto& v) { v.add("ba"); }),
     {tokens_key, "entries 258 and 259 are both 'ab'"}},
    {"TokenGivenTwiceWithControlBytes",
     sentencepiece,
     in_vocabulary([](auto& v) { v.add("\x01\xFF"), v.add("\x01\xFF"); }),
     in_vocabulary([](auto& v) { v.add("\x01\xFF"), v.add("\x01\xFE"); }),
     {tokens_key, "are both '\\x01\\xff'"}},

    {"NoTokens", merging, in_file([](auto& w) { w.strings(tokens_key, {}).i32s(types_key, {}); }), nothing, {tokens_key, "is empty"}},
    {"NoTokensOfSentencePiece",
     sentencepiece,
     in_file([](auto& w) { w.strings(tokens_key, {}).i32s(types_key, {}).f32s(scores_key, {}); }),
     nothing,
     {tokens_key, "is empty"}},
    {"TokensAbsent", merging, in_file([](auto& w) { w.remove(tokens_key); }), nothing, {tokens_key}},
    {"TokensOfNumbers",
     sentencepiece,
     in_file([](auto& w) { w.u32s(tokens_key, std::vector<std::uint32_t>(265)); }),
     nothing,
     {tokens_key}},

    {"TokenLongerThan64KiB",
     merging,
     in_vocabulary([](auto& v) { v.add(std::string(65537, 'x')); }),
     in_vocabulary([](auto& v) { v.add(std::string(65536, 'x')); }),
     {tokens_key, "entry 259 has 65537 bytes; at most 65536"}},
    {"TokenOfAMegabyte",
     sentencepiece,
     in_vocabulary([](auto& v) { v.add(std::string(1 << 20, 'x')); }),
     nothing,
     {tokens_key, "entry 265 has 1048576 bytes"}},
    {"TooMuchTextInControlTokens",
     merging,
     in_vocabulary([](auto& v) {
       for (char c = '0'; c < '0' + 33; ++c) v.add(std::string(65535, 'x') + c, TokenType{control_type});
     }),
     in_vocabulary([](auto& v) {
       for (char c = '0'; c < '0' + 30; ++c) v.add(std::string(65535, 'x') + c, TokenType{control_type});
     }),
     {types_key, "control and user-defined tokens have 2162701 bytes"}},

    {"ModelAbsent", merging, in_file([](auto& w) { w.remove("tokenizer.ggml.model"); }), nothing, {"tokenizer.ggml.model"}},
    {"ModelThatIsANumber", sentencepiece, in_file([](auto& w) { w.u32("tokenizer.ggml.model", 2); }), nothing, {"tokenizer.ggml.model"}},
    {"FlagThatIsANumber",
     sentencepiece,
     in_file([](auto& w) { w.u32("tokenizer.ggml.add_space_prefix", 1); }),
     in_file([](auto& w) { w.boolean("tokenizer.ggml.add_space_prefix", true); }),
     {"tokenizer.ggml.add_space_prefix"}},
};

class HostileVocabulary : public testing::TestWithParam<Hostile> {};

TEST_P(HostileVocabulary, IsRefusedNamingFileAndField) {
  const GgufWriter writer = written(GetParam().base(), GetParam().bad), good = written(GetParam().base(), GetParam().good);
  const double good_seconds = processor_seconds_of([&] { EXPECT_NO_THROW(load(good)); });
  const double start = processor_seconds();
  try {
    load(writer);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL) << error.what();
    EXPECT_THAT(error.what(), testing::StartsWith("vocabulary.gguf: "));
    for (const std::string& part : GetParam().said) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    EXPECT_LT(std::string_view(error.what()).size(), 400u);  // no part of a file is quoted at length
  }
  EXPECT_LT(processor_seconds() - start, far_beyond(good_seconds, good.bytes().size(), writer.bytes().size()));
}

TEST_P(HostileVocabulary, HasATwinThatLoads) { EXPECT_NO_THROW(load(written(GetParam().base(), GetParam().good))); }

INSTANTIATE_TEST_SUITE_P(Classes13And20, HostileVocabulary, testing::ValuesIn(cases), [](const auto& tested) { return tested.param.name; });

TEST(HostileCounts, OfTokensAreRefusedBeforeAnythingIsRead) {
  const std::string_view token = "a";
  VocabularyView view;
  view.model = "gpt2";
  view.pre_tokenizer = "gpt-2";
  view.tokens = std::span(&token, std::size_t{1} << 31);  // never read: the check comes first
  try {
    Tokenizer tokenizer(view);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_THAT(error.what(), testing::HasSubstr("tokenizer.ggml.tokens has 2147483648 entries; at most 1048576"));
  }
}

TEST(HostileCounts, OfMergesAreRefusedBeforeAnythingIsRead) {
  VocabularyBuilder vocabulary = merging();
  VocabularyView view = vocabulary.view();
  view.merges = std::span(view.merges.data(), std::size_t{1} << 31);
  try {
    Tokenizer tokenizer(view);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("tokenizer.ggml.merges has 2147483648 entries; at most 1048576"));
  }
}

TEST(HostileCounts, InAFileAreRefusedBeforeAViewIsMadeOfEachEntry) {
  GgufWriter writer = gguf_of(sentencepiece());
  const std::uint64_t count = (std::uint64_t{1} << 20) + 1;
  writer.raw_array(types_key, 1, count, GgufWriter::Bytes(count, std::byte{1}));
  try {
    load(writer);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_THAT(error.what(), testing::HasSubstr("1048577 entries; at most 1048576"));
    EXPECT_THAT(error.what(), testing::HasSubstr(types_key));
  }
}

void expect_refused_late(const GgufWriter::Bytes& bytes, const std::string& said) {
  try {
    tokenizer_from_gguf(gguf::File::from_memory(bytes, "large.gguf"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_THAT(error.what(), testing::StartsWith("large.gguf: "));
    EXPECT_THAT(error.what(), testing::HasSubstr(said));
  }
}

/// The whole of a large vocabulary is read before the last entry turns out to be wrong. Four times the entries take four times as long, or
/// little more where caches end; eight times is halfway to a search of all entries for each, which takes sixteen.
void expect_cost_by_size(VocabularyBuilder (*large)(std::size_t), std::string (*said)(std::size_t)) {
  constexpr std::size_t few = 250'000, many = 4 * few;
  const GgufWriter::Bytes small_bytes = gguf_of(large(few)).bytes(), large_bytes = gguf_of(large(many)).bytes();
  EXPECT_LT(growth(
                8, [&] { expect_refused_late(small_bytes, said(few)); }, [&] { expect_refused_late(large_bytes, said(many)); }),
            8);
}

TEST(HostileSizes, AMillionMergesWithTheLastOneWrongAreRefusedInTimeThatGoesByTheirNumber) {
  expect_cost_by_size(
      [](std::size_t count) {
        VocabularyBuilder vocabulary = merging();
        while (vocabulary.merges.size() < count) vocabulary.merges.push_back("a b");
        vocabulary.merges.push_back("a nowhere");
        return vocabulary;
      },
      [](std::size_t count) { return "tokenizer.ggml.merges: entry " + std::to_string(count) + " 'a nowhere'"; });
}

TEST(HostileSizes, AMillionTokensWithTheLastOneTwiceAreRefusedInTimeThatGoesByTheirNumber) {
  expect_cost_by_size(
      [](std::size_t count) {
        VocabularyBuilder vocabulary = sentencepiece();
        while (vocabulary.tokens.size() < count) vocabulary.add("t" + std::to_string(vocabulary.tokens.size()));
        vocabulary.add("t" + std::to_string(count - 1));
        return vocabulary;
      },
      [](std::size_t count) {
        const std::string last = std::to_string(count - 1);
        return "tokenizer.ggml.tokens: entries " + last + " and " + std::to_string(count) + " are both 't" + last + "'";
      });
}

}  // namespace
}  // namespace quern::test
