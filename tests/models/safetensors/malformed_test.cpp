// Files with one thing wrong, each beside a twin that is read.
#include "header_file.hpp"

#include "quern/models/safetensors.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace quern::test {
namespace {

using safetensors::File;

const std::string good_a = record("a", "F32", "[2]", "[0,8]");
const std::string good_b = record("b", "F32", "[1]", "[8,12]");
constexpr std::size_t good_bytes = 12;

/// What reading gives: nothing, or the text of the refusal.
std::string refusal(const std::vector<std::byte>& bytes) {
  try {
    File::from_memory(bytes, "m");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    return error.what();
  }
  return {};
}

struct Malformed {
  std::string name, header, words;
  std::size_t data_bytes = good_bytes;
};
void PrintTo(const Malformed& one, std::ostream* out) { *out << one.name; }

class SafetensorsMalformed : public ::testing::TestWithParam<Malformed> {};

TEST_P(SafetensorsMalformed, IsRefusedWithTheFileAndTheReason) {
  ASSERT_EQ(refusal(file_of("{" + good_a + "," + good_b + "}", good_bytes)), "");
  const std::string text = refusal(file_of(GetParam().header, GetParam().data_bytes));
  EXPECT_TRUE(text.starts_with("m: ")) << text;
  EXPECT_NE(text.find(GetParam().words), std::string::npos) << text;
}

std::string with(const std::string& second) { return "{" + good_a + "," + second + "}"; }

std::string empty_lists(int count) {
  std::string lists;
  for (int i = 0; i < count; ++i) lists += "[],";
  return lists;
}

const Malformed cases[] = {
    {"EmptyHeader", "", "does not begin with '{'"},
    {"SpaceInFront", " {" + good_a + "," + good_b + "}", "does not begin with '{'"},
    {"List", "[1,2]", "does not begin with '{'"},
    {"CutOff", "{" + good_a, "not JSON at byte"},
    {"TextBehind", "{" + good_a + "," + good_b + "}x", "not JSON at byte"},
    {"NotUtf8", "{" + good_a + "," + record("\xff", "F32", "[1]", "[8,12]") + "}", "not UTF-8 at byte"},
    {"TooDeep", "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper than 64"},
    {"ManyEmptyLists", "{\"a\":[" + empty_lists(20000) + "[]]}", "values"},
    {"MetadataOfANumber", "{\"__metadata__\":{\"step\":5}," + good_a + "," + good_b + "}", "'step', which is not text"},
    {"MetadataIsAList", "{\"__metadata__\":[]," + good_a + "," + good_b + "}", "'__metadata__' is not an object"},
    {"MetadataTwice", "{\"__metadata__\":{},\"__metadata__\":{}," + good_a + "," + good_b + "}", "'__metadata__' twice"},
    {"MetadataKeyTwice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," + good_a + "," + good_b + "}", "'k' twice"},
    {"NameTwice", with(record("a", "F32", "[1]", "[8,12]")), "tensor 'a': is there twice"},
    {"NameTwiceBySomeEscape", with(record("\\u0061", "F32", "[1]", "[8,12]")), "tensor 'a': is there twice"},
    {"RecordIsANumber", with("\"b\":4"), "tensor 'b': its record in the header is not an object"},
    {"NoDtype", with("\"b\":{\"shape\":[1],\"data_offsets\":[8,12]}"), "'dtype' is missing"},
    {"NoShape", with("\"b\":{\"dtype\":\"F32\",\"data_offsets\":[8,12]}"), "'shape' is missing"},
    {"NoOffsets", with("\"b\":{\"dtype\":\"F32\",\"shape\":[1]}"), "'data_offsets' is missing"},
    {"MemberTwice", with("\"b\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}"), "a member twice"},
    {"MemberUnknown", with("\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12],\"strides\":[4]}"), "'strides'"},
    {"DtypeUnknown", with(record("b", "F33", "[1]", "[8,12]")), "'dtype' is 'F33'"},
    {"DtypeInSmallLetters", with(record("b", "f32", "[1]", "[8,12]")), "'dtype' is 'f32'"},
    {"ShapeNegative", with(record("b", "F32", "[-1]", "[8,12]")), "'shape' holds"},
    {"ShapeOfAFraction", with(record("b", "F32", "[1.0]", "[8,12]")), "'shape' holds"},
    {"ShapeOfText", with(record("b", "F32", "[\"1\"]", "[8,12]")), "'shape' holds"},
    {"ShapeBeyond64Bits", with(record("b", "F32", "[18446744073709551616]", "[8,12]")), "'shape' holds"},
    {"ShapeOfNineDimensions", with(record("b", "F32", "[1,1,1,1,1,1,1,1,1]", "[8,12]")), "has 9 dimensions"},
    {"ShapeWraps", with(record("b", "F32", "[4294967296,4294967296,1]", "[8,12]")), "more elements than a file holds"},
    {"ShapeWrapsToFour", with(record("b", "U8", "[9223372036854775810,2]", "[8,12]")), "more elements than a file holds"},
    {"ShapeWrapsBesideZero", with(record("b", "F32", "[0,18446744073709551615,18446744073709551615]", "[12,12]")), "more elements"},
    {"HalfAByte", with(record("b", "F4", "[3]", "[8,10]")), "no whole bytes of F4"},
    {"OneOffset", with(record("b", "F32", "[1]", "[8]")), "not two whole numbers"},
    {"ThreeOffsets", with(record("b", "F32", "[1]", "[8,12,16]")), "not two whole numbers"},
    {"NegativeOffset", with(record("b", "F32", "[1]", "[-4,0]")), "not two whole numbers"},
    {"OffsetsTurned", with(record("b", "F32", "[1]", "[12,8]")), "'data_offsets' are 12 and 8"},
    {"OffsetsBeyondTheEnd", with(record("b", "F32", "[1]", "[12,16]")), "'data_offsets' are 12 and 16, but the file has 12 bytes"},
    {"OffsetsOfAllOnes", with(record("b", "F32", "[1]", "[18446744073709551612,18446744073709551615]")), "'data_offsets' are"},
    {"OffsetsTooWide", with(record("b", "F32", "[0]", "[8,12]")), "give 4 bytes, but F32 of its shape takes 0"},
    {"OffsetsTooNarrow", with(record("b", "F32", "[2]", "[8,12]")), "give 4 bytes, but F32 of its shape takes 8"},
    {"Overlap", with(record("b", "F32", "[2]", "[4,12]")), "inside another tensor, which ends at 8"},
    {"SameBytesTwice", "{" + good_a + "," + record("b", "F32", "[2]", "[0,8]") + "}", "inside another tensor", 8},
    {"Gap", with(record("b", "F32", "[1]", "[12,16]")), "leave a gap behind 8", 16},
    {"GapAtTheStart", "{" + record("b", "F32", "[1]", "[8,12]") + "}", "leave a gap behind 0"},
    {"BytesBehindTheLast", "{" + good_a + "}", "the tensors end 8 bytes behind the header, but the file has 12"},
    {"NoTensorsButBytes", "{}", "end 0 bytes behind the header"},
};
INSTANTIATE_TEST_SUITE_P(Each, SafetensorsMalformed, ::testing::ValuesIn(cases), [](const auto& one) { return one.param.name; });

TEST(SafetensorsLength, AHeaderLongerThanTheFileIsRefusedBeforeItIsRead) {
  auto bytes = file_of("{" + good_a + "," + good_b + "}", good_bytes);
  for (const std::uint64_t length : {std::uint64_t{200}, std::uint64_t{1} << 20, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_NE(refusal(bytes).find("the header's length is " + std::to_string(length)), std::string::npos) << refusal(bytes);
  }
}

TEST(SafetensorsLength, AFileCutAtAnyByteIsRefused) {
  const auto bytes = file_of("{" + good_a + "," + good_b + "}", good_bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(refusal({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
}

TEST(SafetensorsLength, AChangedByteIsReadOrRefusedAndNeverMore) {
  const auto good = file_of("{" + good_a + "," + good_b + "}", good_bytes);
  for (std::size_t at = 0; at + good_bytes < good.size(); ++at)
    for (const int bit : {0, 1, 3, 6}) {
      auto bytes = good;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      if (!refusal(bytes).empty()) continue;
      const File file = File::from_memory(bytes, "m");
      for (const auto& info : file.tensors()) EXPECT_EQ(file.read_bytes(info).size(), info.bytes);
    }
}

}  // namespace
}  // namespace quern::test
