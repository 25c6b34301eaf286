// Directories that the library writes: compared with those of an independent writer (written_directory.cpp), and read again.
#include "refused_directory.hpp"

#include "quern/models/directory_writer.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/gguf_writer.hpp"
#include "quern/models/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace quern::test {
namespace {

using testing::HasSubstr;

models::DirectoryForm form_of(const gguf::File& model, quern_dtype dtype, std::uint64_t shard_bytes = 1 << 30) {
  models::DirectoryForm form;
  form.dtype = dtype;
  form.shard_bytes = shard_bytes;
  form.type = [dtype](const gguf::TensorInfo&) { return dtype; };
  form.give = [&model](const gguf::TensorInfo& tensor, quern_dtype to, const models::DirectoryForm::TakeBytes& take) {
    const gguf::TensorBytes bytes = model.read(tensor);
    const std::vector<std::byte> made = models::encode_floats(to, models::decode_floats(tensor.dtype, bytes.bytes()));
    for (std::size_t at = 0; at < made.size(); at += 96) take(std::span(made).subspan(at, std::min<std::size_t>(96, made.size() - at)));
  };
  return form;
}

struct Stored {
  safetensors::Dtype dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
  bool operator==(const Stored&) const = default;
};

std::map<std::string, Stored> stored_tensors(const std::filesystem::path& folder) {
  std::map<std::string, Stored> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const safetensors::File file = safetensors::File::open(entry.path().string());
    for (const safetensors::TensorInfo& tensor : file.tensors()) all[tensor.name] = {tensor.dtype, tensor.shape, file.read_bytes(tensor)};
  }
  return all;
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Names, shapes and bytes, with the tensor's name where they differ.
void expect_same_tensors(const gguf::File& found, const gguf::File& wanted, quern_dtype dtype) {
  EXPECT_EQ(found.tensors().size(), wanted.tensors().size());
  for (const gguf::TensorInfo& tensor : wanted.tensors()) {
    const gguf::TensorInfo* const other = found.find_tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(other->dims, tensor.dims)) << tensor.name;
    const gguf::TensorBytes bytes = found.read(*other), original = wanted.read(tensor);
    std::vector<float> numbers = models::decode_floats(tensor.dtype, original.bytes());
    if (tensor.name != "rope_freqs.weight") numbers = models::decode_floats(dtype, models::encode_floats(dtype, numbers));
    EXPECT_EQ(models::decode_floats(other->dtype, bytes.bytes()), numbers) << tensor.name;
  }
}

/// Keys that a directory does not carry, or that its reader makes: the rest comes back as it was.
const std::set<std::string_view> other_keys = {"general.file_type",
                                               "general.quantization_version",
                                               "general.type",
                                               "general.size_label",
                                               "general.finetune",
                                               "quern.end_token_ids",           // all ends, of generation_config.json
                                               "tokenizer.ggml.add_bos_token",  // stated, where a file may leave them out
                                               "tokenizer.ggml.add_eos_token",
                                               "tokenizer.ggml.add_space_prefix",
                                               "tokenizer.ggml.tokens",
                                               "tokenizer.ggml.token_type",  // compared apart: unused ones have no names
                                               "tokenizer.ggml.scores",  // places of merges in place of log-probabilities; compared by ids
                                               "tokenizer.ggml.pre"};

std::vector<std::byte> value_of(const gguf::File& file, std::string_view key) {
  if (file.type_of(key) == gguf::ValueType::f32 || file.type_of(key) == gguf::ValueType::f64) {
    const float number = static_cast<float>(*file.find_f64(key));  // a file may have either type
    const auto bytes = std::as_bytes(std::span(&number, 1));
    return {bytes.begin(), bytes.end()};
  }
  const auto bytes = file.value_bytes(key);
  return {bytes.begin(), bytes.end()};
}

void expect_same_tokens(const Tokenizer& found, const Tokenizer& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::int32_t id = 0; id < wanted.size(); ++id) {
    EXPECT_EQ(found.token_type(id), wanted.token_type(id)) << id;
    if (wanted.token_type(id) != TokenType::unused) { EXPECT_EQ(found.token_text(id), wanted.token_text(id)) << id; }
  }
}

void expect_same_keys(const gguf::File& found, const gguf::File& wanted) {
  for (const std::string_view key : wanted.keys()) {
    if (other_keys.contains(key)) continue;
    ASSERT_TRUE(found.has(key)) << key;
    EXPECT_TRUE(value_of(found, key) == value_of(wanted, key)) << key;
  }
  expect_same_tokens(*tokenizer_from_gguf(found), *tokenizer_from_gguf(wanted));
}

void expect_same_numbers(const gguf::File& one, const gguf::File& other) {
  const models::Hyperparameters found = models::read_hyperparameters(one), wanted = models::read_hyperparameters(other);
  EXPECT_EQ(found.rope_scaling, wanted.rope_scaling);
  EXPECT_EQ(found.rope_factor, wanted.rope_factor);
  EXPECT_EQ(found.rope_mscale, wanted.rope_mscale);
  EXPECT_EQ(found.rope_base, wanted.rope_base);
  EXPECT_EQ(found.rope_beta_fast, wanted.rope_beta_fast);
  EXPECT_EQ(found.rope_beta_slow, wanted.rope_beta_slow);
  EXPECT_EQ(found.rope_original_context, wanted.rope_original_context);
  EXPECT_EQ(found.sliding_window, wanted.sliding_window);
  EXPECT_EQ(found.norm_epsilon, wanted.norm_epsilon);
  EXPECT_EQ(found.tied_head, wanted.tied_head);
  EXPECT_EQ(found.attention_bias, wanted.attention_bias);
  EXPECT_EQ(found.output_bias, wanted.output_bias);
}

class WrittenFamilies : public testing::TestWithParam<std::string> {};

// One test for several claims: each folder is synced to the disk.
TEST_P(WrittenFamilies, AreThoseOfAnIndependentWriterAndComeBackAsTheyWere) {
  const ScratchFolder scratch;
  const gguf::File model = gguf::File::open(test_data + "architecture/" + GetParam());
  const std::string ours = scratch.path("ours"), theirs = scratch.path("theirs");
  models::write_directory(model, ours, form_of(model, QUERN_F32));
  write_directory(model, theirs, {1, Spelling::transformers4, [](const gguf::TensorInfo&) { return quern_dtype{QUERN_F32}; }});
  const auto found = stored_tensors(ours), wanted = stored_tensors(theirs);
  EXPECT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(found.contains(name) && found.at(name) == tensor) << name;
  const gguf::File read = models::open_model(ours);
  expect_same_tensors(read, model, QUERN_F32);
  expect_same_keys(read, model);
  expect_same_numbers(read, model);
}

INSTANTIATE_TEST_SUITE_P(Committed, WrittenFamilies, testing::ValuesIn(committed_models()),
                         [](const auto& info) { return test_name(info.param); });

/// A small llama with changes: keys that are set, tensors that are added or left out, and another vocabulary.
class WrittenVariants : public testing::Test {
 protected:
  using Change = std::function<void(gguf::Writer&)>;

  gguf::File llama(const Change& change = {}, const std::string& left_out = "", const std::string& vocabulary = "") {
    const gguf::File base = gguf::File::open(test_data + "architecture/llama-11.gguf");
    gguf::Writer writer;
    writer.copy_keys(base);
    std::uint64_t rows = base.require_u64("llama.vocab_size");
    if (!vocabulary.empty()) {
      for (const std::string_view key : base.keys())
        if (key.starts_with("tokenizer.")) writer.remove(key);
      const gguf::File other = gguf::File::open(test_data + "tokenizer/" + vocabulary);
      for (const std::string_view key : other.keys())
        if (key.starts_with("tokenizer.")) writer.copy(other, key);
      rows = other.array_shape("tokenizer.ggml.tokens")->count;
      writer.u32("llama.vocab_size", static_cast<std::uint32_t>(rows));
    }
    std::vector<std::vector<std::byte>> bytes;
    for (const gguf::TensorInfo& tensor : base.tensors()) {
      if (tensor.name == left_out) continue;
      std::vector<std::uint64_t> dims(tensor.dims, tensor.dims + tensor.n_dims);
      const std::span<const std::byte> lying = base.data(tensor);
      bytes.emplace_back(lying.begin(), lying.end());
      if (tensor.name == "token_embd.weight" || tensor.name == "output.weight") {
        bytes.back().resize(lying.size() / dims[1] * rows);
        dims[1] = rows;
      }
      writer.tensor(tensor.name, dims, tensor.dtype);
    }
    if (change) change(writer);
    for (std::size_t i = bytes.size(); i < writer.order().size(); ++i)
      bytes.push_back(models::encode_floats(QUERN_F32, std::vector<float>(writer.order()[i].elements(), 0.5f)));
    const std::string path = scratch_.path(concat("model", ++count_, ".gguf"));
    writer.begin(path);
    for (const auto& one : bytes) writer.append(one);
    writer.commit();
    return gguf::File::open(path);
  }
  std::string folder() const { return scratch_.path("out"); }
  std::string refusal(const gguf::File& model) {
    try {
      models::write_directory(model, folder(), form_of(model, QUERN_F32));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), QUERN_UNSUPPORTED);
      EXPECT_FALSE(std::filesystem::exists(folder()));
      return error.what();
    }
    return "";
  }

  ScratchFolder scratch_;
  int count_ = 0;
};

TEST_F(WrittenVariants, VocabulariesGiveTheSameIds) {
  const std::string texts[] = {"",
                               " ",
                               "Hello world",
                               "  two  spaces\n\n\ttab",
                               "naïve Ωmega 漢字 \U0001F600 x",
                               "1234567 It's we'LL",
                               "<|im_start|>a</s><s>b",
                               std::string("a\0b", 3),
                               "\xff\xfe broken",
                               "the quick brown fox jumps over the lazy dog"};
  for (const char* name : {"gpt-2.gguf", "llama-bpe.gguf", "qwen2.gguf", "smollm.gguf", "sentencepiece.gguf"}) {
    const gguf::File model = llama({}, "", name);
    std::filesystem::remove_all(folder());
    models::write_directory(model, folder(), form_of(model, QUERN_F16));
    const gguf::File read = models::open_model(folder());
    const auto found = tokenizer_from_gguf(read), wanted = tokenizer_from_gguf(model);
    expect_same_tokens(*found, *wanted);
    EXPECT_EQ(found->bos(), wanted->bos()) << name;
    EXPECT_EQ(found->eos(), wanted->eos()) << name;
    EXPECT_EQ(found->adds_bos(), wanted->adds_bos()) << name;
    EXPECT_TRUE(std::ranges::equal(found->end_tokens(), wanted->end_tokens())) << name;
    for (const std::string& text : texts) EXPECT_EQ(found->encode(text), wanted->encode(text)) << name << ": " << text;
  }
}

TEST_F(WrittenVariants, WhatIsWrittenAgainIsTheSame) {
  for (const char* name : {"llama-11.gguf", "llama-21.gguf", "qwen2-01.gguf", "qwen3-03.gguf"}) {
    const gguf::File model = gguf::File::open(test_data + "architecture/" + name);
    const std::string first = scratch_.path(concat(name, "-first")), second = scratch_.path(concat(name, "-second"));
    models::write_directory(model, first, form_of(model, QUERN_BF16, 3000));
    const gguf::File read = models::open_model(first);
    expect_same_tensors(read, model, QUERN_BF16);
    models::write_directory(read, second, form_of(read, QUERN_BF16, 3000));
    EXPECT_EQ(stored_tensors(second), stored_tensors(first)) << name;
    for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      EXPECT_EQ(text_of_file(second + "/" + file), text_of_file(first + "/" + file)) << name;
  }
}

TEST_F(WrittenVariants, ShardsHaveAtMostTheirBytes) {
  const gguf::File model = llama();
  models::write_directory(model, folder(), form_of(model, QUERN_F16, 4096));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    std::uint64_t bytes = 0;
    const safetensors::File file = safetensors::File::open(entry.path().string());
    for (const auto& tensor : file.tensors()) bytes += tensor.bytes;
    EXPECT_TRUE(bytes <= 4096 || file.tensors().size() == 1) << entry.path();
  }
  EXPECT_GT(files, 2);
  EXPECT_TRUE(std::filesystem::exists(folder() + "/model.safetensors.index.json"));
}

TEST_F(WrittenVariants, NothingStaysOfAFolderThatWasNotFinished) {
  const gguf::File model = llama();
  models::DirectoryForm form = form_of(model, QUERN_F32, 4096);
  int given = 0;
  form.give = [&, give = form.give](const gguf::TensorInfo& tensor, quern_dtype to, const models::DirectoryForm::TakeBytes& take) {
    if (++given == 9) throw Error(QUERN_IO, "the disk is full");
    give(tensor, to, take);
  };
  EXPECT_THROW(models::write_directory(model, folder(), form), Error);
  EXPECT_EQ(given, 9);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path("")))
    EXPECT_TRUE(entry.path().extension() == ".gguf") << entry.path();
}

TEST_F(WrittenVariants, TemplatesComeBack) {
  const auto templates = [&](const Change& change) {
    const gguf::File model = llama(change);
    std::filesystem::remove_all(folder());
    models::write_directory(model, folder(), form_of(model, QUERN_F32));
    const gguf::File read = models::open_model(folder());
    return std::pair(read.find_string("tokenizer.chat_template").value_or("-") == "one \u2581\n{{ x }}",
                     read.find_string("tokenizer.chat_template.tool_use").value_or("-") == "two");
  };
  EXPECT_EQ(templates({}), std::pair(false, false));
  const auto one = [](gguf::Writer& keys) { keys.string("tokenizer.chat_template", "one \u2581\n{{ x }}"); };
  EXPECT_EQ(templates(one), std::pair(true, false));
  EXPECT_EQ(text_of_file(folder() + "/chat_template.jinja"), "one \u2581\n{{ x }}");
  EXPECT_EQ(templates([&](gguf::Writer& keys) {
              one(keys);
              keys.string("tokenizer.chat_template.tool_use", "two");
            }),
            std::pair(true, true));
}

TEST_F(WrittenVariants, TheModelCardComesBack) {
  const gguf::File model = llama([&](gguf::Writer& keys) {
    keys.string("general.name", "Small");
    keys.string("general.license", "apache-2.0");
    keys.u32("general.base_model.count", 1);
    keys.string("general.base_model.0.name", "Base 1B");
    keys.string("general.base_model.0.repo_url", "https://huggingface.co/owner/base-1b");
    keys.strings("general.tags", std::vector<std::string>{"chat", "text-generation"});
  });
  models::write_directory(model, folder(), form_of(model, QUERN_F32));
  EXPECT_THAT(text_of_file(folder() + "/README.md"),
              HasSubstr("license: \"apache-2.0\"\nbase_model:\n- \"owner/base-1b\"\ntags:\n- \"chat\"\n"));
  const gguf::File read = models::open_model(folder());
  EXPECT_EQ(read.find_string("general.name"), "Small");
  EXPECT_EQ(read.find_string("general.license"), "apache-2.0");
  EXPECT_EQ(read.find_string("general.base_model.0.name"), "base-1b");
  EXPECT_EQ(read.find_string("general.base_model.0.organization"), "owner");
  EXPECT_EQ(read.find_string("general.base_model.0.repo_url"), "https://huggingface.co/owner/base-1b");
  EXPECT_EQ(read.require_strings("general.tags").size(), 2u);
}

TEST_F(WrittenVariants, AModelCardInAnotherFormIsNoReasonToRefuseAModel) {
  const gguf::File model = llama();
  models::write_directory(model, folder(), form_of(model, QUERN_F32));
  const auto license = [&](const std::string& card) {
    write_text(folder() + "/README.md", card);
    return std::string(models::open_model(folder()).find_string("general.license").value_or("-"));
  };
  EXPECT_EQ(license("---\nlicense: mit\n---\n# x"), "mit");
  EXPECT_EQ(license("---\r\nlicense: 'mit' \r\n---\r\n"), "mit");
  EXPECT_EQ(license("---\nlicense: mit # of the weights\nlanguage: [en, de]\nmodel-index:\n- name: x\n  license: no\n---\n"), "mit");
  EXPECT_EQ(license("license: mit\n"), "-");
  EXPECT_EQ(license("---\nlicense: mit\n"), "-");                // without an end
  EXPECT_EQ(license("---\nlicense: [mit, other]\n---\n"), "-");  // no single one
  EXPECT_EQ(license("---\nlicense: {a: b}\n---\n"), "-");
  EXPECT_EQ(license("---\nlicense: \"a\\nb\"\n---\n"), "-");
}

TEST_F(WrittenVariants, WhatNoDirectoryHoldsIsNamed) {
  EXPECT_THAT(refusal(llama([](gguf::Writer& keys) { keys.u32("llama.rope.dimension_count", 4); })),
              HasSubstr("rotates 4 of the 10 elements"));
  EXPECT_THAT(refusal(llama([](gguf::Writer& keys) { keys.string("tokenizer.ggml.pre", "deepseek-llm"); })),
              HasSubstr("'tokenizer.ggml.pre' is 'deepseek-llm'"));
  EXPECT_THAT(refusal(llama([](gguf::Writer& writer) {
                const auto q = std::ranges::find(writer.order(), "blk.0.attn_q.weight", &gguf::TensorInfo::name)->dims[1];
                for (const char* layer : {"0", "1", "2"})
                  for (const char* part : {"attn_q", "attn_k", "attn_v"})
                    writer.tensor(concat("blk.", layer, ".", part, ".bias"), {q}, QUERN_F32);
              })),
              HasSubstr("biases in other places"));
  EXPECT_THAT(refusal(llama([](gguf::Writer& writer) { writer.tensor("rope_freqs.weight", {5}, QUERN_F32); })), HasSubstr("is below 1"));
}

TEST_F(WrittenVariants, TokensOfOneScoreAreRefused) {
  const std::vector<float> scores(gguf::File::open(test_data + "tokenizer/sentencepiece.gguf").array_shape("tokenizer.ggml.tokens")->count,
                                  -5);
  EXPECT_THAT(refusal(llama([&](gguf::Writer& keys) { keys.numbers<float>("tokenizer.ggml.scores", scores); }, "", "sentencepiece.gguf")),
              HasSubstr("has one score for tokens"));
}

}  // namespace
}  // namespace quern::test
