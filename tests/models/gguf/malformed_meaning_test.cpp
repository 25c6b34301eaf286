// What the reader can see of classes 12, 13 and 14 of the corpus: hyper-parameters, vocabulary and chat
// template whose type or sign is wrong. Whether a value makes sense is judged by the parts that use it.
#include "malformed.hpp"

#include <limits>

namespace quern::test {
namespace {

const Malformed cases[] = {
    // 12: hyper-parameters
    {"Class12BlockCountNegative",
     change([](auto& w) { w.i32("llama.block_count", -1); }),
     {"key 'llama.block_count' (byte", "is -1", "negative"},
     [](const gguf::File& file) { file.require_u64("llama.block_count"); }},
    {"Class12HeadCountAsAFloat",
     change([](auto& w) { w.f32("llama.attention.head_count", 4.0f); }),
     {"key 'llama.attention.head_count' (byte", "type f32", "integer"},
     [](const gguf::File& file) { file.require_u64("llama.attention.head_count"); }},
    {"Class12BlockCountMissing",
     change([](auto& w) { w.remove("llama.block_count"); }),
     {"key 'llama.block_count' is missing"},
     [](const gguf::File& file) { file.require_u64("llama.block_count"); }},
    {"Class12RopeBaseNotANumber",
     change([](auto& w) { w.f32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()); }),
     {"key 'llama.rope.freq_base' (byte", "nan", "finite"},
     [](const gguf::File& file) { file.require_f64("llama.rope.freq_base"); }},
    {"Class12RopeBaseInfinite",
     change([](auto& w) { w.f64("llama.rope.freq_base", -std::numeric_limits<double>::infinity()); }),
     {"key 'llama.rope.freq_base' (byte", "-inf", "finite"},
     [](const gguf::File& file) { file.require_f64("llama.rope.freq_base"); }},
    {"Class12RopeBaseAsAnInteger",
     change([](auto& w) { w.u32("llama.rope.freq_base", 10000); }),
     {"key 'llama.rope.freq_base' (byte", "type u32", "floating-point"},
     [](const gguf::File& file) { file.require_f64("llama.rope.freq_base"); }},
    {"Class12FlagAsAnInteger",
     change([](auto& w) { w.u8("sample.bool", 1); }),
     {"key 'sample.bool' (byte", "type u8", "a boolean"},
     [](const gguf::File& file) { file.require_bool("sample.bool"); }},
    {"Class12SignedValueAboveTheRange",
     change([](auto& w) { w.u64("sample.i64", ~std::uint64_t{0}); }),
     {"key 'sample.i64' (byte", "18446744073709551615"},
     [](const gguf::File& file) { file.require_i64("sample.i64"); }},
    // 13: vocabulary
    {"Class13TokensAsNumbers",
     change([](auto& w) {
       w.i32s("tokenizer.ggml.tokens", {1, 2, 3});
     }),
     {"key 'tokenizer.ggml.tokens' (byte", "array of 3 i32", "array of strings"},
     [](const gguf::File& file) { file.require_strings("tokenizer.ggml.tokens"); }},
    {"Class13TokensAsOneString",
     change([](auto& w) { w.string("tokenizer.ggml.tokens", "abc"); }),
     {"key 'tokenizer.ggml.tokens' (byte", "type string", "array of strings"},
     [](const gguf::File& file) { file.require_strings("tokenizer.ggml.tokens"); }},
    {"Class13ScoresAsBytes",
     change([](auto& w) { w.raw_array("tokenizer.ggml.scores", 0, 3, GgufWriter::Bytes(3)); }),
     {"key 'tokenizer.ggml.scores' (byte", "array of 3 u8", "floating-point"},
     [](const gguf::File& file) { file.require_floats("tokenizer.ggml.scores"); }},
    {"Class13TokenTypesAsFloats",
     change([](auto& w) {
       w.f32s("tokenizer.ggml.token_type", {3, 1, 1});
     }),
     {"key 'tokenizer.ggml.token_type' (byte", "array of 3 f32", "integers"},
     [](const gguf::File& file) { file.require_ints("tokenizer.ggml.token_type"); }},
    {"Class13IdAboveTheRangeInAnArray",
     change([](auto& w) {
       w.u64s("sample.u64s", {7, std::uint64_t{1} << 63});
     }),
     {"key 'sample.u64s' (byte", "9223372036854775808 as element 1"},
     [](const gguf::File& file) { file.require_ints("sample.u64s"); }},
    {"Class13EndTokenNegative",
     change([](auto& w) { w.i64("tokenizer.ggml.eos_token_id", -2); }),
     {"key 'tokenizer.ggml.eos_token_id' (byte", "is -2"},
     [](const gguf::File& file) { file.require_u64("tokenizer.ggml.eos_token_id"); }},
    // 14: chat template
    {"Class14TemplateAsAnArray",
     change([](auto& w) {
       w.strings("tokenizer.chat_template", {"{{", "}}"});
     }),
     {"key 'tokenizer.chat_template' (byte", "array of 2 string", "not a string"},
     [](const gguf::File& file) { file.require_string("tokenizer.chat_template"); }},
    {"Class14TemplateLongerThanTheFile",
     change([](auto& w) {
       auto value = string_bytes("{{ x }}");
       value[4] = std::byte{1};  // a length of 2^32 + 7
       w.raw("tokenizer.chat_template", 8, value);
     }),
     {"key 'tokenizer.chat_template': value (byte", "4294967303"}},
};

class MalformedMeaning : public ::testing::TestWithParam<Malformed> {};
TEST_P(MalformedMeaning, IsRefusedAndItsTwinIsRead) { expect_refused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Corpus, MalformedMeaning, ::testing::ValuesIn(cases), name_of_case);

}  // namespace
}  // namespace quern::test
