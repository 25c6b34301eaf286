// Typed access to keys. What each getter refuses is in malformed_meaning_test.cpp.
#include "sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::test {
namespace {

using gguf::File;
using gguf::ValueType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GgufValues : public ::testing::Test {
 protected:
  GgufWriter::Bytes bytes_ = sample().bytes();
  File file_ = File::from_memory(bytes_, "m.gguf");
};

TEST_F(GgufValues, AnIntegerOfAnyWidthIsReadAsItsValue) {
  EXPECT_EQ(file_.find_u64("sample.u8"), 200u);
  EXPECT_EQ(file_.find_u64("sample.u16"), 60000u);
  EXPECT_EQ(file_.find_u64("sample.u32"), 4000000000u);
  EXPECT_EQ(file_.find_u64("sample.u64"), 10000000000000000000u);
  EXPECT_EQ(file_.find_i64("sample.i8"), -5);
  EXPECT_EQ(file_.find_i64("sample.i16"), -300);
  EXPECT_EQ(file_.find_i64("sample.i32"), -70000);
  EXPECT_EQ(file_.find_i64("sample.i64"), -1);
  EXPECT_EQ(file_.find_i64("sample.u32"), 4000000000);
}

TEST_F(GgufValues, FloatsBooleansAndStringsAreReadAsTheyAre) {
  EXPECT_EQ(file_.find_f64("sample.f32"), 1.5);
  EXPECT_EQ(file_.find_f64("sample.f64"), 0.1);
  EXPECT_EQ(file_.find_bool("sample.bool"), true);
  EXPECT_EQ(file_.find_string("general.architecture"), "llama");
  EXPECT_EQ(file_.require_f64("sample.f64"), 0.1);
  EXPECT_EQ(file_.require_bool("sample.bool"), true);
  EXPECT_EQ(file_.require_i64("sample.i8"), -5);
}

TEST_F(GgufValues, ArraysOfEachKindAreReadInOrder) {
  EXPECT_THAT(file_.require_strings("tokenizer.ggml.tokens"), ElementsAre("<s>", "", "h\xc3\xa9"));
  EXPECT_THAT(file_.require_strings("tokenizer.ggml.tokens").to_vector(), ElementsAre("<s>", "", "h\xc3\xa9"));
  EXPECT_THAT(file_.require_ints("tokenizer.ggml.token_type").to_vector(), ElementsAre(3, 1, 1));
  EXPECT_THAT(file_.require_ints("sample.bools").to_vector(), ElementsAre(1, 0, 1));
  EXPECT_THAT(file_.require_ints("sample.u64s").to_vector(), ElementsAre(7, 9));
  EXPECT_THAT(file_.require_floats("tokenizer.ggml.scores").to_vector(), ElementsAre(0.0, -1.0, -2.5));
  EXPECT_EQ(file_.require_floats("tokenizer.ggml.scores").element_type(), ValueType::f32);
}

TEST(GgufArrays, IntegersOfEveryWidthKeepTheirSign) {
  GgufWriter writer;
  const auto minus_two = bytes_of(std::int64_t{-2});
  const auto array = [&](const char* key, ValueType type, std::size_t width) {
    writer.raw_array(key, static_cast<std::uint32_t>(type), 1, {minus_two.begin(), minus_two.begin() + width});
  };
  array("u8", ValueType::u8, 1);
  array("i8", ValueType::i8, 1);
  array("u16", ValueType::u16, 2);
  array("i16", ValueType::i16, 2);
  array("u32", ValueType::u32, 4);
  array("i32", ValueType::i32, 4);
  array("i64", ValueType::i64, 8);
  writer.f64s("f64", {0.25});
  const auto bytes = writer.bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_EQ(file.require_ints("u8")[0], 254);
  EXPECT_EQ(file.require_ints("i8")[0], -2);
  EXPECT_EQ(file.require_ints("u16")[0], 65534);
  EXPECT_EQ(file.require_ints("i16")[0], -2);
  EXPECT_EQ(file.require_ints("u32")[0], 4294967294);
  EXPECT_EQ(file.require_ints("i32")[0], -2);
  EXPECT_EQ(file.require_ints("i64")[0], -2);
  EXPECT_EQ(file.require_floats("f64")[0], 0.25);
}

TEST(GgufArrays, AnEmptyArrayHasNoElements) {
  const auto bytes = GgufWriter().strings("s", {}).i32s("i", {}).f32s("f", {}).bytes();
  const File file = File::from_memory(bytes, "m");
  EXPECT_TRUE(file.require_strings("s").empty());
  EXPECT_EQ(file.require_strings("s").begin(), file.require_strings("s").end());
  EXPECT_TRUE(file.require_ints("i").to_vector().empty());
  EXPECT_TRUE(file.require_floats("f").empty());
}

TEST_F(GgufValues, AnAbsentKeyIsNothingToFindAndAnErrorToRequire) {
  EXPECT_EQ(file_.find_u64("absent"), std::nullopt);
  EXPECT_EQ(file_.find_i64("absent"), std::nullopt);
  EXPECT_EQ(file_.find_f64("absent"), std::nullopt);
  EXPECT_EQ(file_.find_bool("absent"), std::nullopt);
  EXPECT_EQ(file_.find_string("absent"), std::nullopt);
  EXPECT_FALSE(file_.find_strings("absent"));
  EXPECT_FALSE(file_.find_ints("absent"));
  EXPECT_FALSE(file_.find_floats("absent"));
  EXPECT_FALSE(file_.has("absent"));
  EXPECT_EQ(file_.type_of("absent"), std::nullopt);
  EXPECT_FALSE(file_.array_shape("absent"));
  try {
    file_.require_ints("absent");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_STREQ(error.what(), "m.gguf: key 'absent' is missing; it must be an array of integers");
  }
}

TEST_F(GgufValues, KeysAreListedInTheOrderOfTheFileWithTheirTypes) {
  const auto keys = file_.keys();
  ASSERT_EQ(keys.size(), 23u);
  EXPECT_EQ(keys[0], "general.architecture");
  EXPECT_EQ(keys[1], "general.alignment");
  EXPECT_EQ(keys.back(), "tokenizer.chat_template");
  EXPECT_EQ(file_.type_of("sample.i16"), ValueType::i16);
  EXPECT_EQ(file_.type_of("tokenizer.ggml.tokens"), ValueType::array);
  EXPECT_EQ(file_.array_shape("tokenizer.ggml.tokens")->element, ValueType::string);
  EXPECT_EQ(file_.array_shape("tokenizer.ggml.tokens")->count, 3u);
  EXPECT_FALSE(file_.array_shape("sample.i16"));
}

TEST_F(GgufValues, ErrorsOfOtherPartsNameFileKeyAndByte) {
  const std::string text = file_.bad_key("llama.block_count", "is 2; this model needs 3").what();
  EXPECT_THAT(text, HasSubstr("m.gguf: key 'llama.block_count' (byte "));
  EXPECT_THAT(text, HasSubstr("): is 2; this model needs 3"));
  EXPECT_STREQ(file_.bad_key("absent", "is needed").what(), "m.gguf: key 'absent': is needed");
  EXPECT_STREQ(file_.bad_tensor("output_norm.weight", "has 4 elements, not 8").what(),
               "m.gguf: tensor 'output_norm.weight': has 4 elements, not 8");
  EXPECT_STREQ(file_.bad_tensor("absent", "is needed").what(), "m.gguf: tensor 'absent': is needed");
}

TEST_F(GgufValues, NamesFromTheFileAreMadeSafeToShow) {
  EXPECT_STREQ(file_.bad_key("a\x1b[2J\n", "is odd").what(), "m.gguf: key 'a\\x1b[2J\\x0a': is odd");
  EXPECT_THAT(file_.bad_key(std::string(500, 'k'), "is odd").what(), HasSubstr(std::string(80, 'k') + "...'"));
}

TEST(GgufTypes, EveryIdHasItsNameAndOthersHaveNone) {
  EXPECT_EQ(gguf::type_name(QUERN_Q4_K), "Q4_K");
  EXPECT_EQ(gguf::type_name(QUERN_Q4_Z128), "Q4_Z128");
  EXPECT_EQ(gguf::type_name(1000), "");
  EXPECT_TRUE(gguf::has_ggml_type(QUERN_Q4_K));
  EXPECT_FALSE(gguf::has_ggml_type(QUERN_Q4_Z128));
  EXPECT_EQ(gguf::name_of(ValueType::boolean), "bool");
  EXPECT_EQ(gguf::name_of(static_cast<ValueType>(99)), "unknown");
}

}  // namespace
}  // namespace quern::test
