#include "written_directory.hpp"

#include "quern/models/architecture.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/safetensors.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <stdexcept>

namespace quern::test {
namespace {

using nlohmann::json;

const std::map<std::string, std::string> parts = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

std::string their_name(const std::string& name) {
  if (name == "token_embd.weight") return "model.embed_tokens.weight";
  if (name == "output_norm.weight") return "model.norm.weight";
  if (name == "output.weight") return "lm_head.weight";
  const std::size_t layer_end = name.find('.', 4), part_end = name.rfind('.');
  if (!name.starts_with("blk.") || layer_end >= part_end) throw std::runtime_error("no place in a directory for " + name);
  return "model.layers." + name.substr(4, layer_end - 4) + "." + parts.at(name.substr(layer_end + 1, part_end - layer_end - 1)) +
         name.substr(part_end);
}

/// Rows of each head from neighbours to halves, as transformers has them.
std::vector<float> halves(const std::vector<float>& numbers, std::size_t heads, std::size_t rows) {
  const std::size_t columns = numbers.size() / rows, size = rows / heads;
  std::vector<float> out;
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t odd = 0; odd < 2; ++odd)
      for (std::size_t pair = 0; pair < size / 2; ++pair) {
        const auto row = numbers.begin() + static_cast<std::ptrdiff_t>((head * size + 2 * pair + odd) * columns);
        out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(columns));
      }
  return out;
}

std::vector<std::byte> their_bytes(const gguf::File& model, const gguf::TensorInfo& tensor, const models::Hyperparameters& shape,
                                   quern_dtype dtype) {
  std::vector<float> numbers = models::decode_floats(tensor.dtype, model.data(tensor));
  if (shape.pairing == models::RopePairing::interleaved) {
    const std::size_t rows = tensor.dims[tensor.n_dims - 1];
    if (tensor.name.find("attn_q.") != std::string::npos) numbers = halves(numbers, shape.heads, rows);
    if (tensor.name.find("attn_k.") != std::string::npos) numbers = halves(numbers, shape.kv_heads, rows);
  }
  return models::encode_floats(dtype, numbers);
}

json rope_of(const gguf::File& model, const models::Hyperparameters& shape) {
  json rope = {{"rope_type", "default"}};
  const auto key = [&](const char* suffix) { return shape.architecture + ".rope.scaling." + suffix; };
  if (shape.rope_factors) {
    const std::vector<float> factors = models::decode_floats(QUERN_F32, model.data(model.require_tensor("rope_freqs.weight")));
    const float factor = *std::ranges::max_element(factors);
    rope = {{"rope_type", "llama3"}, {"factor", factor}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
    rope["original_max_position_embeddings"] = static_cast<int>(static_cast<float>(shape.context) / factor);
  } else if (const auto type = model.find_string(key("type"))) {
    rope = {{"rope_type", *type}, {"factor", shape.rope_factor}};
    if (*type == "yarn") rope["original_max_position_embeddings"] = shape.rope_original_context;
    for (const auto& [ours, theirs] : {std::pair("yarn_beta_fast", "beta_fast"), std::pair("yarn_beta_slow", "beta_slow"),
                                       std::pair("yarn_attn_factor", "attention_factor")})
      if (const auto number = model.find_f64(key(ours))) rope[theirs] = *number;
  }
  return rope;
}

json config_of(const gguf::File& model, const models::Hyperparameters& shape, Spelling spelling) {
  const bool window = shape.sliding_window != 0 && shape.architecture == "llama";
  const std::string type = window ? "mistral" : shape.architecture;
  const std::map<std::string, std::string> classes = {
      {"llama", "LlamaForCausalLM"}, {"mistral", "MistralForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}};
  json config = {{"architectures", {classes.at(type)}},
                 {"model_type", type},
                 {"hidden_act", "silu"},
                 {"hidden_size", shape.hidden},
                 {"intermediate_size", shape.ffn},
                 {"num_hidden_layers", shape.layers},
                 {"num_attention_heads", shape.heads},
                 {"num_key_value_heads", shape.kv_heads},
                 {"vocab_size", shape.vocabulary},
                 {"max_position_embeddings", shape.context},
                 {"tie_word_embeddings", shape.tied_head},
                 {"use_cache", true},
                 {"rms_norm_eps", *model.find_f64(shape.architecture + ".attention.layer_norm_rms_epsilon")}};
  if (type != "qwen2") config["head_dim"] = shape.head_size;
  if (window) config["sliding_window"] = shape.sliding_window;
  json rope = rope_of(model, shape);
  if (spelling == Spelling::transformers5) {
    rope["rope_theta"] = shape.rope_base;
    config["rope_parameters"] = rope;
    config["dtype"] = "float16";
    if (type == "qwen2" || type == "qwen3") config["layer_types"] = std::vector<std::string>(shape.layers, "full_attention");
  } else {
    config["rope_theta"] = shape.rope_base;
    config["rope_scaling"] = rope.at("rope_type") == "default" ? json() : rope;
    config["torch_dtype"] = "float16";
    if (type == "qwen2" || type == "qwen3")
      config.update({{"use_sliding_window", false}, {"max_window_layers", shape.layers}, {"sliding_window", 4096}});
  }
  return config;
}

const std::string tail = R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";

json split_by(const std::string& pattern) {
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

json pre_tokenizer_named(const std::string& name) {
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  if (name == "gpt-2") return bytes;
  if (name == "smollm") return {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, bytes}}};
  if (name == "llama-bpe") return split_by(words + R"(\p{N}{1,3}|)" + tail);
  if (name == "qwen2") return split_by(words + R"(\p{N}|)" + tail);
  throw std::runtime_error("no pre-tokenizer " + name);
}

/// Every two tokens that make a token, by its score: what transformers makes of a SentencePiece model.
std::vector<std::pair<std::string, std::string>> sentencepiece_merges(const gguf::File& model) {
  const std::vector<std::string_view> tokens = model.require_strings("tokenizer.ggml.tokens").to_vector();
  const auto types = model.require_ints("tokenizer.ggml.token_type");
  const auto scores = model.require_floats("tokenizer.ggml.scores");
  std::map<std::string_view, std::size_t> normal;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (types[id] == 1) normal[tokens[id]] = id;
  std::vector<std::size_t> ids;
  for (const auto& [token, id] : normal) ids.push_back(id);
  std::ranges::stable_sort(ids, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::size_t id : ids)
    for (std::size_t at = 1; at < tokens[id].size(); ++at)
      if (normal.contains(tokens[id].substr(0, at)) && normal.contains(tokens[id].substr(at)))
        merges.emplace_back(tokens[id].substr(0, at), tokens[id].substr(at));
  return merges;
}

std::vector<std::pair<std::string, std::string>> merges_of(const gguf::File& model, bool sentencepiece) {
  if (sentencepiece) return sentencepiece_merges(model);
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string_view merge : model.require_strings("tokenizer.ggml.merges"))
    merges.emplace_back(merge.substr(0, merge.find(' ')), merge.substr(merge.find(' ') + 1));
  return merges;
}

json sentencepiece_steps(const gguf::File& model) {
  const std::string mark = "\u2581";
  json normalizers = json::array();
  if (model.find_bool("tokenizer.ggml.add_space_prefix").value_or(true)) normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}});
  const json decoders = {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                         {{"type", "ByteFallback"}},
                         {{"type", "Fuse"}},
                         {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  return {{"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};
}

json byte_level_steps(const std::string& pre) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"normalizer", pre == "qwen2" ? json{{"type", "NFC"}} : json()},
          {"pre_tokenizer", pre_tokenizer_named(pre)},
          {"post_processor", byte_level},
          {"decoder", byte_level}};
}

json with_bos(const json& post_processor, std::uint64_t bos) {
  const json front = {{"SpecialToken", {{"id", "begin"}, {"type_id", 0}}}}, text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json single = {{"type", "TemplateProcessing"},
                       {"single", {front, text}},
                       {"pair", json::array()},
                       {"special_tokens", {{"begin", {{"id", "begin"}, {"ids", {bos}}, {"tokens", {"begin"}}}}}}};
  if (post_processor.is_null()) return single;
  return {{"type", "Sequence"}, {"processors", {post_processor, single}}};
}

json tokenizer_of(const gguf::File& model, Spelling spelling) {
  const bool sentencepiece = model.require_string("tokenizer.ggml.model") == "llama";
  const std::string pre(model.find_string("tokenizer.ggml.pre").value_or(""));
  json vocabulary = json::object(), added = json::array(), merges = json::array(), unknown;
  const auto types = model.require_ints("tokenizer.ggml.token_type");
  std::uint64_t id = 0;
  for (const std::string_view token : model.require_strings("tokenizer.ggml.tokens")) {
    const std::int64_t type = types[id];
    if (type == 2) unknown = token;
    if (type >= 2 && type <= 4)
      added.push_back({{"id", id},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type != 4}});
    if (type != 5) vocabulary[std::string(token)] = id;
    ++id;
  }
  for (const auto& [left, right] : merges_of(model, sentencepiece)) {
    if (spelling == Spelling::transformers4) merges.push_back(left + " " + right);
    else merges.push_back({left, right});
  }
  json tokenizer = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
  tokenizer["model"] = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", unknown},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", sentencepiece},
                        {"byte_fallback", sentencepiece},
                        {"ignore_merges", pre == "llama-bpe"},
                        {"vocab", vocabulary},
                        {"merges", merges}};
  tokenizer.update(sentencepiece ? sentencepiece_steps(model) : byte_level_steps(pre));
  const auto bos = model.find_u64("tokenizer.ggml.bos_token_id");
  if (model.find_bool("tokenizer.ggml.add_bos_token").value_or(bos && (sentencepiece || pre == "llama-bpe")))
    tokenizer["post_processor"] = with_bos(tokenizer.at("post_processor"), bos.value());
  return tokenizer;
}

json tokenizer_config_of(const gguf::File& model) {
  const std::vector<std::string_view> tokens = model.require_strings("tokenizer.ggml.tokens").to_vector();
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", nullptr}, {"clean_up_tokenization_spaces", false}};
  for (const std::string name : {"bos", "eos"})
    if (const auto id = model.find_u64("tokenizer.ggml." + name + "_token_id");
        id && model.require_ints("tokenizer.ggml.token_type")[*id] != 5)
      config[name + "_token"] = tokens.at(*id);
  return config;
}

void write_tensors(const gguf::File& model, const models::Hyperparameters& shape, const std::filesystem::path& folder,
                   const DirectoryForm& form) {
  std::vector<const gguf::TensorInfo*> tensors;
  for (const gguf::TensorInfo& tensor : model.tensors())
    if (tensor.name != "rope_freqs.weight") tensors.push_back(&tensor);
  json map = json::object();
  for (std::uint32_t file = 0; file < form.files; ++file) {
    std::string number = std::to_string(file + 1), count = std::to_string(form.files);
    const std::string name = form.files == 1 ? "model.safetensors"
                                             : "model-" + std::string(5 - number.size(), '0') + number + "-of-" +
                                                   std::string(5 - count.size(), '0') + count + ".safetensors";
    std::vector<std::vector<std::byte>> bytes;
    std::vector<safetensors::NewTensor> list;
    for (std::size_t i = file; i < tensors.size(); i += form.files) {
      const gguf::TensorInfo& tensor = *tensors[i];
      const quern_dtype dtype = form.dtype ? form.dtype(tensor) : tensor.dtype;
      bytes.push_back(their_bytes(model, tensor, shape, dtype));
      std::vector<std::uint64_t> dims(tensor.dims, tensor.dims + tensor.n_dims);
      std::ranges::reverse(dims);
      list.push_back({their_name(tensor.name), *safetensors::from_float_type(dtype), dims, bytes.back()});
      map[list.back().name] = name;
    }
    safetensors::write((folder / name).string(), list, {{"format", "pt"}});
  }
  if (form.files > 1)
    write_text(folder / "model.safetensors.index.json", json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
}

}  // namespace

void write_text(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

void edit_json(const std::filesystem::path& path, const std::function<void(json&)>& change) {
  json value = json::parse(std::ifstream(path));
  change(value);
  write_text(path, value.dump());
}

void write_directory(const gguf::File& model, const std::filesystem::path& folder, const DirectoryForm& form) {
  std::filesystem::create_directories(folder);
  const models::Hyperparameters shape = models::read_hyperparameters(model);
  json config = config_of(model, shape, form.spelling);
  if (const auto eos = model.find_u64("tokenizer.ggml.eos_token_id")) config["eos_token_id"] = *eos;
  write_text(folder / "config.json", config.dump());
  write_text(folder / "tokenizer.json", tokenizer_of(model, form.spelling).dump());
  json tokenizer_config = tokenizer_config_of(model);
  if (const auto text = model.find_string("tokenizer.chat_template")) tokenizer_config["chat_template"] = *text;
  write_text(folder / "tokenizer_config.json", tokenizer_config.dump());
  write_tensors(model, shape, folder, form);
}

}  // namespace quern::test
