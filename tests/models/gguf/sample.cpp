#include "sample.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <system_error>
#include <unistd.h>

namespace quern::test {
namespace {

/// The directory of this process; gone when it ends.
struct Scratch {
  Scratch() : path(std::filesystem::path(::testing::TempDir()) / ("quern_gguf_" + std::to_string(::getpid()))) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

GgufWriter sample() {
  GgufWriter w;
  w.string("general.architecture", "llama");
  w.u32("general.alignment", 32);
  w.u32("llama.block_count", 2);
  w.u32("llama.attention.head_count", 4);
  w.f32("llama.rope.freq_base", 10000.0f);
  w.u8("sample.u8", 200).i8("sample.i8", -5).u16("sample.u16", 60000).i16("sample.i16", -300);
  w.u32("sample.u32", 4000000000u).i32("sample.i32", -70000).u64("sample.u64", 10000000000000000000u);
  w.i64("sample.i64", -1).f32("sample.f32", 1.5f).f64("sample.f64", 0.1).boolean("sample.bool", true);
  w.strings("tokenizer.ggml.tokens", {"<s>", "", "h\xc3\xa9"});
  w.f32s("tokenizer.ggml.scores", {0.0f, -1.0f, -2.5f});
  w.i32s("tokenizer.ggml.token_type", {3, 1, 1});
  w.booleans("sample.bools", {1, 0, 1});
  w.u64s("sample.u64s", {7, 9});
  w.u32("tokenizer.ggml.eos_token_id", 0);
  w.string("tokenizer.chat_template", "{{ messages[0]['content'] }}");
  std::vector<float> ramp(12);
  std::iota(ramp.begin(), ramp.end(), 0.0f);
  w.tensor_f32("token_embd.weight", {4, 3}, ramp);
  w.tensor("blk.0.ffn_up.weight", {32, 2}, 8, GgufWriter::Bytes(68, std::byte{7}));
  w.tensor_f32("output_norm.weight", {4}, {1, 2, 3, 4});
  return w;
}

std::filesystem::path temporary(const std::string& file) {
  static const Scratch scratch;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string folder = std::string(test->test_suite_name()) + "_" + test->name();
  for (char& c : folder)
    if (c == '/') c = '_';
  const auto directory = scratch.path / folder;
  std::filesystem::create_directories(directory);
  return directory / file;
}

}  // namespace quern::test
