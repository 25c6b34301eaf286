// Classes 4, 5, 6, 8 and 9 of the corpus: dimensions, sizes, places and types of tensors.
#include "malformed.hpp"

namespace quern::test {
namespace {

using Bytes = GgufWriter::Bytes;
using Dims = std::vector<std::uint64_t>;
constexpr std::uint64_t one = 1;
constexpr std::uint64_t two_63 = one << 63;

/// Two tensors of `elements` f32 each, by declaration only.
GgufWriter two_tensors() {
  GgufWriter w;
  w.tensor_f32("a", {8}, std::vector<float>(8, 1.0f));
  w.tensor_f32("b", {8}, std::vector<float>(8, 2.0f));
  return w;
}

std::function<Bytes(GgufWriter)> dims(Dims values) {
  return change([values](auto& w) { w.tensor("token_embd.weight").dims = values; });
}

std::function<Bytes(GgufWriter)> type(std::uint32_t id) {
  return change([id](auto& w) { w.tensor("blk.0.ffn_up.weight").type = id; });
}

std::function<Bytes(GgufWriter)> offset(const char* name, std::uint64_t value) {
  return change([name, value](auto& w) { w.tensor(name).offset = value; });
}

Bytes without_last(GgufWriter w, std::size_t count) {
  Bytes bytes = w.bytes();
  bytes.resize(bytes.size() - count);
  return bytes;
}

const Malformed cases[] = {
    // 4: dimensions
    {"Class04NoDimensions", dims({}), {"tensor 'token_embd.weight': n_dims (byte", "is 0"}},
    {"Class04FiveDimensions", dims({4, 3, 1, 1, 1}), {"tensor 'token_embd.weight': n_dims (byte", "is 5"}},
    {"Class04DimensionCountOfAllOnes",
     change([](auto& w) { w.tensor("token_embd.weight").n_dims = 0xffffffffu; }),
     {"tensor 'token_embd.weight': n_dims (byte", "4294967295"}},
    {"Class04FirstDimensionOfZero", dims({0, 3}), {"tensor 'token_embd.weight': dimension 0 (byte", "is 0"}},
    {"Class04LastDimensionOfZero", dims({4, 3, 1, 0}), {"tensor 'token_embd.weight': dimension 3 (byte", "is 0"}},
    {"Class04NegativeDimension", dims({4, ~std::uint64_t{0}}), {"tensor 'token_embd.weight': dimension 1 (byte"}},
    {"Class04DimensionOfTwoToThe63", dims({two_63}), {"tensor 'token_embd.weight': dimension 0 (byte", "9223372036854775808"}},
    // 5: products
    {"Class05ProductOfTwoTo64", dims({one << 32, one << 32}), {"tensor 'token_embd.weight': dimension 1 (byte"}},
    {"Class05ProductThatWrapsToTwelve", dims({12, (one << 62) + 1, 4}), {"tensor 'token_embd.weight': dimension 1 (byte"}},
    {"Class05LargestIntegerTimesTwo", dims({two_63 - 1, 2}), {"tensor 'token_embd.weight': dimension 1 (byte"}},
    {"Class05BytesWrapThoughElementsDoNot", dims({one << 62}), {"tensor 'token_embd.weight': type (byte", "more than 2^63 bytes"}},
    {"Class05QuantisedBytesWrap",
     change([](auto& w) { w.tensor("blk.0.ffn_up.weight").dims = {two_63 - 32}; }),
     {"tensor 'blk.0.ffn_up.weight': type (byte", "more than 2^63 bytes"}},
    // 6: sums
    {"Class06SumOfTwoSizesWraps",
     change([](auto& w) {
       for (auto& tensor : w.tensors()) tensor.dims = {(one << 61) - 8};
     }),
     {"tensor 'a': offset (byte", "beyond the file"},
     [](const gguf::File&) {},
     two_tensors},
    {"Class06OffsetPlusSizeWraps",
     change([](auto& w) { w.tensor("b").offset = ~std::uint64_t{0} - 31; }),
     {"tensor 'b': offset (byte", "beyond the file"},
     [](const gguf::File&) {},
     two_tensors},
    {"Class06OffsetPlusDataStartWraps",
     change([](auto& w) { w.tensor("b").offset = ~std::uint64_t{0} - 127; }),
     {"tensor 'b': offset (byte", "beyond the file"},
     [](const gguf::File&) {},
     two_tensors},
    {"Class06PaddingOfTheLastSizeWraps",
     change([](auto& w) { w.tensor("b").dims = {(one << 61) - 1}; }),
     {"tensor 'b': offset (byte", "9223372036854775804 bytes"},
     [](const gguf::File&) {},
     two_tensors},
    // 8: places
    {"Class08LastByteMissing",
     [](GgufWriter w) { return without_last(w, 1); },
     {"tensor 'output_norm.weight': offset (byte", "probably incomplete"}},
    {"Class08AllDataMissing",
     [](GgufWriter w) { return without_last(w, 16 + 96 + 64); },
     {"tensor 'token_embd.weight': offset (byte", "probably incomplete"}},
    {"Class08OffsetBeyondTheEnd",
     offset("blk.0.ffn_up.weight", 1u << 20),
     {"tensor 'blk.0.ffn_up.weight': offset (byte", "beyond the file"}},
    {"Class08SamePlaceTwice",
     offset("blk.0.ffn_up.weight", 0),
     {"tensor 'blk.0.ffn_up.weight': offset (byte", "inside that of tensor 'token_embd.weight'"}},
    {"Class08TailOverlapsTheNext",
     change([](auto& w) {
       w.tensor("token_embd.weight").dims = {4, 5};
     }),
     {"tensor 'blk.0.ffn_up.weight': offset (byte", "inside that of tensor 'token_embd.weight'"}},
    {"Class08OffsetOffByOne", offset("output_norm.weight", 161), {"tensor 'output_norm.weight': offset (byte", "is 161", "alignment, 32"}},
    {"Class08OffsetAlignedToLessThanTheFileSays",
     change([](auto& w) { w.u32("general.alignment", 64).align_to(32); }),
     {"tensor 'output_norm.weight': offset (byte", "is 160", "alignment, 64"},
     [](const gguf::File&) {},
     [] { return sample().u32("general.alignment", 64).align_to(64); }},
    // 9: types
    {"Class09UnknownType", type(250), {"tensor 'blk.0.ffn_up.weight': type (byte", "is 250", "supported are F32, F16, Q4_0"}},
    {"Class09TypeOfAllOnes", type(0xffffffffu), {"tensor 'blk.0.ffn_up.weight': type (byte", "4294967295"}},
    {"Class09TypeThatWasGivenUp", type(4), {"tensor 'blk.0.ffn_up.weight': type (byte", "Q4_2", "not supported"}},
    {"Class09TypeThatIsKnownButNotRead", type(10), {"tensor 'blk.0.ffn_up.weight': type (byte", "is Q2_K", "not supported", "Q6_K"}},
    {"Class09RowNotAMultipleOfTheBlock",
     change([](auto& w) {
       w.tensor("blk.0.ffn_up.weight").dims = {33, 2};
     }),
     {"tensor 'blk.0.ffn_up.weight': dimension 0 (byte", "is 33", "Q8_0", "multiple of 32"}},
    {"Class09Row576OfASuperBlockType",
     change([](auto& w) { w.tensor("k").dims = {576}; }),
     {"tensor 'k': dimension 0 (byte", "is 576", "Q4_K", "multiple of 256"},
     [](const gguf::File&) {},
     [] { return GgufWriter().tensor("k", {512}, 12, Bytes(2 * 144)); }},
};

class MalformedTensor : public ::testing::TestWithParam<Malformed> {};
TEST_P(MalformedTensor, IsRefusedAndItsTwinIsRead) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Corpus, MalformedTensor, ::testing::ValuesIn(cases), name_of_case);

}  // namespace
}  // namespace quern::test
