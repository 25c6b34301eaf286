// Classes 1, 2, 3, 7, 10, 11 and 15 of the corpus: counts, strings, arrays, alignment, keys, assertions,
// allocations.
#include "malformed.hpp"

namespace quern::test {
namespace {

using Bytes = GgufWriter::Bytes;
constexpr std::uint64_t two_63 = std::uint64_t{1} << 63;
constexpr std::uint64_t all_ones = ~std::uint64_t{0};

/// The head of a string value, with a length that lies.
Bytes string_with_length(std::uint64_t length, std::string_view text) {
  Bytes bytes = string_bytes(text);
  const Bytes head = bytes_of(length);
  std::copy(head.begin(), head.end(), bytes.begin());
  return bytes;
}

void require_architecture(const gguf::File& file) { file.require_string("general.architecture"); }

const Malformed cases[] = {
    // 1: counts
    {"Class01TensorCountOfAllOnes", change([](auto& w) { w.declare_tensors(all_ones); }), {"n_tensors (byte 8)", "18446744073709551615"}},
    {"Class01TensorCountThatWrapsTimesTheRecordSize",
     change([](auto& w) { w.declare_tensors(all_ones / 64 + 2); }),
     {"n_tensors (byte 8)"}},
    {"Class01TensorCountAboveTheFileSize", change([](auto& w) { w.declare_tensors(5000); }), {"n_tensors (byte 8)", "is 5000"}},
    {"Class01KeyCountOfAllOnes", change([](auto& w) { w.declare_keys(all_ones); }), {"n_kv (byte 16)", "18446744073709551615"}},
    {"Class01KeyCountAboveTheFileSize", change([](auto& w) { w.declare_keys(60000); }), {"n_kv (byte 16)", "is 60000"}},
    {"Class01OneKeyTooMany", change([](auto& w) { w.declare_keys(w.keys().size() + 1); }), {"tensor name (byte"}},
    // 2: string lengths
    {"Class02KeyLengthOfTwoToThe63", change([](auto& w) { w.keys()[0].name_length = two_63; }), {"key (byte 24)", "9223372036854775808"}},
    {"Class02KeyLengthThatWrapsWhenOneIsAdded",
     change([](auto& w) { w.keys()[0].name_length = all_ones; }),
     {"key (byte 24)", "18446744073709551615"}},
    {"Class02KeyOfManyKilobytes", change([](auto& w) { w.u8(std::string(5000, 'k'), 1); }), {"key (byte", "5000"}},
    {"Class02StringValueBeyondTheEnd",
     change([](auto& w) { w.raw("general.architecture", 8, string_with_length(1u << 20, "llama")); }),
     {"key 'general.architecture': value (byte", "1048576"}},
    {"Class02StringValueOfAllOnes",
     change([](auto& w) { w.raw("general.architecture", 8, string_with_length(all_ones, "llama")); }),
     {"key 'general.architecture': value (byte", "18446744073709551615"}},
    {"Class02TensorNameBeyondTheEnd", change([](auto& w) { w.tensors()[0].name_length = 1u << 30; }), {"tensor name (byte", "1073741824"}},
    {"Class02TensorNameLongerThanAnyRealOne",
     change([](auto& w) { w.tensors()[0].name = std::string(300, 'n'); }),
     {"tensor name (byte", "300"}},
    {"Class02StringInAnArrayBeyondTheEnd",
     change([](auto& w) { w.raw_array("tokenizer.ggml.tokens", 8, 1, string_with_length(two_63, "a")); }),
     {"key 'tokenizer.ggml.tokens': array element (byte", "9223372036854775808"}},
    // 3: arrays
    {"Class03ArrayOfArrays",
     change([](auto& w) { w.raw_array("tokenizer.ggml.tokens", 9, 1, Bytes(20)); }),
     {"key 'tokenizer.ggml.tokens': array element type (byte", "arrays of arrays"}},
    {"Class03ArrayElementTypeUnknown",
     change([](auto& w) { w.raw_array("tokenizer.ggml.scores", 13, 1, Bytes(4)); }),
     {"key 'tokenizer.ggml.scores': array element type (byte", "is 13"}},
    {"Class03EmptyArrayOfAnUnknownType",
     change([](auto& w) { w.raw_array("sample.u64s", 0x7fffffff, 0, {}); }),
     {"key 'sample.u64s': array element type (byte", "2147483647"}},
    {"Class03CountTimesSizeWraps",
     change([](auto& w) { w.raw_array("sample.u64s", 10, (std::uint64_t{1} << 61) + 1, Bytes(8)); }),
     {"key 'sample.u64s': array count (byte", "2305843009213693953"}},
    {"Class03CountOfTwoToThe63",
     change([](auto& w) { w.raw_array("tokenizer.ggml.token_type", 5, two_63, Bytes(8)); }),
     {"key 'tokenizer.ggml.token_type': array count (byte", "9223372036854775808"}},
    {"Class03MoreStringsThanFit",
     change([](auto& w) { w.raw_array("tokenizer.ggml.tokens", 8, 5000, Bytes(16)); }),
     {"key 'tokenizer.ggml.tokens': array count (byte", "5000"}},
    {"Class03BooleanInAnArrayOfTwo",
     change([](auto& w) {
       w.booleans("sample.bools", {1, 2, 0});
     }),
     {"key 'sample.bools': value (byte", "of 2"}},
    // 7: alignment
    {"Class07AlignmentOfZero", change([](auto& w) { w.u32("general.alignment", 0); }), {"key 'general.alignment' (byte", "is 0"}},
    {"Class07AlignmentOfThirtyThree",
     change([](auto& w) { w.u32("general.alignment", 33); }),
     {"key 'general.alignment' (byte", "is 33", "power of two"}},
    {"Class07AlignmentOfTwoToThe31",
     change([](auto& w) { w.u32("general.alignment", 1u << 31); }),
     {"key 'general.alignment' (byte", "2147483648"}},
    {"Class07AlignmentOfOne", change([](auto& w) { w.u32("general.alignment", 1); }), {"key 'general.alignment' (byte", "is 1;"}},
    {"Class07AlignmentAsAString",
     change([](auto& w) { w.string("general.alignment", "32"); }),
     {"key 'general.alignment' (byte", "type string", "not u32"}},
    {"Class07AlignmentAsAnArray",
     change([](auto& w) { w.u32s("general.alignment", {32}); }),
     {"key 'general.alignment' (byte", "type array", "not u32"}},
    // 10: keys and names
    {"Class10KeyTwice", change([](auto& w) { w.keys().push_back(w.key("sample.u8")); }), {"key 'sample.u8' (byte", "twice"}},
    {"Class10KeyTwiceWithAnotherType",
     change([](auto& w) {
       auto twin = w.key("general.alignment");
       twin.type = 10;
       twin.value = Bytes(8);
       w.keys().push_back(twin);
     }),
     {"key 'general.alignment' (byte", "twice"}},
    {"Class10EmptyKey", change([](auto& w) { w.u8("", 1); }), {"key (byte", "is empty"}},
    {"Class10EmptyTensorName", change([](auto& w) { w.tensors()[1].name.clear(); }), {"tensor name (byte", "is empty"}},
    {"Class10TensorNameTwice",
     change([](auto& w) { w.tensors()[2].name = w.tensors()[0].name; }),
     {"tensor 'token_embd.weight': name (data at byte", "twice"}},
    {"Class10ValueTypeUnknown", change([](auto& w) { w.raw("sample.u8", 13, Bytes(1)); }), {"key 'sample.u8': value type (byte", "is 13"}},
    {"Class10ValueTypeOfAllOnes",
     change([](auto& w) { w.raw("sample.u8", 0xffffffffu, Bytes(1)); }),
     {"key 'sample.u8': value type (byte", "4294967295"}},
    {"Class10BooleanOfTwo",
     change([](auto& w) { w.raw("sample.bool", 7, Bytes(1, std::byte{2})); }),
     {"key 'sample.bool': value (byte", "neither 0 nor 1"}},
    {"Class10ArchitectureMissing",
     change([](auto& w) { w.remove("general.architecture"); }),
     {"key 'general.architecture' is missing", "a string"},
     require_architecture},
    {"Class10ArchitectureAsANumber",
     change([](auto& w) { w.u32("general.architecture", 7); }),
     {"key 'general.architecture' (byte", "type u32", "not a string"},
     require_architecture},
    // 11: what others assert and a file can reach
    {"Class11ArrayWhereAScalarIsAskedFor",
     change([](auto& w) { w.u32s("llama.block_count", {}); }),
     {"key 'llama.block_count' (byte", "array of 0 u32", "not a non-negative integer"},
     [](const gguf::File& file) { file.require_u64("llama.block_count"); }},
    {"Class11TensorThatIsNotThere",
     change([](auto& w) { w.remove_tensor("output_norm.weight"); }),
     {"tensor 'output_norm.weight' is missing"},
     [](const gguf::File& file) { file.require_tensor("output_norm.weight"); }},
    // 15: allocations out of proportion
    {"Class15KeyCountAtTheLimitInASmallFile", change([](auto& w) { w.declare_keys(65536); }), {"n_kv (byte 16)"}},
    {"Class15ArrayOfFourThousandMillionStrings",
     change([](auto& w) { w.raw_array("tokenizer.ggml.tokens", 8, std::uint64_t{1} << 32, Bytes(64)); }),
     {"key 'tokenizer.ggml.tokens': array count (byte", "4294967296"}},
    {"Class15TensorOfOneTebibyteInASmallFile",
     change([](auto& w) {
       w.tensor("token_embd.weight").dims = {std::uint64_t{1} << 38, 1};
     }),
     {"tensor 'token_embd.weight': offset (byte", "1099511627776 bytes", "probably incomplete"}},
};

class MalformedHeader : public ::testing::TestWithParam<Malformed> {};
TEST_P(MalformedHeader, IsRefusedAndItsTwinIsRead) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Corpus, MalformedHeader, ::testing::ValuesIn(cases), name_of_case);

}  // namespace
}  // namespace quern::test
