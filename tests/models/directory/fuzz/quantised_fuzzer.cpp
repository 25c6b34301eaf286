// Fuzzes quantised weights of a directory: the object "quantization_config", and the tensors of one module.
//
//   line 1   the module: 0 is the last product of a layer, 1 is its queries, whose rows change their order
//   line 2   the object
//   others   a tensor each, NAME DTYPE SIZE SIZE..=BYTES. NAME stands behind the module's, and BYTES are repeated until the tensor is full.
//
// All other weights are plain, and sound. A refusal is an Error with QUERN_BAD_MODEL or QUERN_UNSUPPORTED. Of a model that opens, every
// tensor is read.
#include "support/scratch_folder.hpp"

#include "quern/models/architecture.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/safetensors.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace quern;
using safetensors::Dtype;

constexpr std::uint64_t width = 128, head = 32, vocabulary = 4;
constexpr std::string_view norm = "model.norm.weight";  // lies beside the module's tensors, so that the index may name their file
constexpr std::string_view modules[] = {"model.layers.0.mlp.down_proj", "model.layers.0.self_attn.q_proj"};
constexpr std::string_view tokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "merges": []}})";
constexpr std::string_view config_front =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 128, "intermediate_size": 128,)"
    R"( "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 4, "max_position_embeddings": 64,)"
    R"( "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "quantization_config": )";

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), std::ssize(bytes));
}

/// What lies in the folder whatever the input is: the vocabulary, and all weights but the module's.
void write_sound_files(const std::string& folder, std::string_view module) {
  struct Weight {
    std::string_view name;
    std::vector<std::uint64_t> shape;
  };
  const Weight weights[] = {{"model.embed_tokens", {vocabulary, width}},          {"model.layers.0.input_layernorm", {width}},
                            {"model.layers.0.post_attention_layernorm", {width}}, {"model.layers.0.self_attn.q_proj", {width, width}},
                            {"model.layers.0.self_attn.k_proj", {head, width}},   {"model.layers.0.self_attn.v_proj", {head, width}},
                            {"model.layers.0.self_attn.o_proj", {width, width}},  {"model.layers.0.mlp.gate_proj", {width, width}},
                            {"model.layers.0.mlp.up_proj", {width, width}},       {"model.layers.0.mlp.down_proj", {width, width}}};
  static const std::vector<std::byte> zeros(2 * width * width);
  std::vector<safetensors::NewTensor> list;
  std::string map = "\"" + std::string(norm) + "\": \"module.safetensors\"";
  for (const Weight& weight : weights) {
    if (weight.name == module) continue;
    std::size_t bytes = 2;
    for (const std::uint64_t size : weight.shape) bytes *= size;
    const std::string name = std::string(weight.name) + ".weight";
    list.push_back({name, Dtype::f16, weight.shape, std::span(zeros).first(bytes)});
    map += ", \"" + name + "\": \"plain.safetensors\"";
  }
  safetensors::write(folder + "/plain.safetensors", list);
  write(folder + "/model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  write(folder + "/tokenizer.json", tokenizer);
}

std::string_view next(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Dtype::u64); ++i)
    if (safetensors::name_of(static_cast<Dtype>(i)) == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

class ModuleFile {
 public:
  explicit ModuleFile(std::string_view module) : module_(module) { append(std::string(norm), Dtype::f16, {width}, "11"); }

  void add(std::string_view line) {
    std::string_view words = next(line, '=');
    const std::string_view name = next(words, ' ');
    const std::optional<Dtype> dtype = dtype_named(next(words, ' '));
    std::vector<std::uint64_t> shape;
    while (!words.empty()) {
      const std::string_view word = next(words, ' ');
      shape.push_back(0);
      std::from_chars(word.data(), word.data() + word.size(), shape.back());
    }
    if (dtype) append(std::string(module_) + "." + std::string(name), *dtype, shape, line.empty() ? std::string_view("\0", 1) : line);
  }
  void commit(const std::string& path) const {
    const std::string header = "{" + header_ + "}";
    const std::uint64_t size = header.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    write(path, file + header + data_);
  }

 private:
  void append(const std::string& name, Dtype dtype, const std::vector<std::uint64_t>& shape, std::string_view pattern) {
    constexpr std::uint64_t most = 1 << 18;
    std::uint64_t bits = safetensors::bits_of(dtype);
    std::string sizes;
    for (const std::uint64_t one : shape) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(one);
      bits = one > most ? 0 : std::min(bits * one, 9 * most);  // what is larger has no bytes, and is refused
    }
    const std::uint64_t begin = data_.size(), bytes = bits > 8 * most ? 0 : bits / 8;
    while (data_.size() < begin + bytes) data_ += pattern;
    data_.resize(begin + bytes);
    const bool plain = std::ranges::all_of(name, [](unsigned char c) { return c >= ' ' && c < 127 && c != '"' && c != '\\'; });
    header_ += (header_.empty() ? "\"" : ",\"") + (plain ? name : std::string("odd")) + R"(":{"dtype":")" +
               std::string(safetensors::name_of(dtype)) + R"(","shape":[)" + sizes + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
               std::to_string(data_.size()) + "]}";
  }

  std::string_view module_;
  std::string header_, data_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::ScratchFolder folders[2];
  static const bool written = [] {
    for (std::size_t i = 0; i < std::size(folders); ++i) write_sound_files(folders[i].path("."), modules[i]);
    return true;
  }();
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t which = next(input, '\n') == "1" ? 1 : 0;
  const test::ScratchFolder& folder = folders[which];
  write(folder.path("config.json"), std::string(config_front) + std::string(next(input, '\n')) + "}");
  ModuleFile file(modules[which]);
  while (written && !input.empty()) file.add(next(input, '\n'));
  file.commit(folder.path("module.safetensors"));
  for (const models::ActOrder act_order : {models::ActOrder::expanded, models::ActOrder::by_groups}) try {
      const gguf::File model = models::open_model(folder.path("."), act_order);
      models::read_hyperparameters(model);
      for (const gguf::TensorInfo& tensor : model.tensors()) {
        const gguf::TensorBytes read = model.read(tensor);
        if (read.bytes().size() != tensor.bytes) std::abort();
      }
    } catch (const Error& error) {
      if (error.code() != QUERN_BAD_MODEL && error.code() != QUERN_UNSUPPORTED) std::abort();
    }
  return 0;
}
