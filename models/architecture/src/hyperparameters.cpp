// The shape of a model from its file, every number checked before it is used.
#include "metadata.hpp"
#include "registry.hpp"
#include "rope.hpp"
#include "tensors.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/architecture.hpp"

#include <algorithm>

namespace quern::models {
namespace {

// Limits far above any model and low enough that every later product fits 64 bits.
constexpr std::uint32_t most_layers = 4096;
constexpr std::uint32_t most_hidden = 1u << 20;
constexpr std::uint32_t most_ffn = 1u << 24;
constexpr std::uint32_t most_heads = 1u << 16;
constexpr std::uint32_t most_head_size = 1u << 16;
constexpr std::uint32_t most_context = 1u << 31;  // positions are i32
constexpr std::uint32_t most_vocabulary = (1u << 31) - 1;

const Architecture& architecture_of(const gguf::File& file) {
  const std::string_view name = file.require_string("general.architecture");
  const Architecture* architecture = find_architecture(name);
  if (!architecture)
    throw file.bad_key("general.architecture",
                       concat("the architecture ", in_quotes(name, 64), " is not known; this version runs ", known_architectures()));
  return *architecture;
}

void read_heads(const Metadata& metadata, Hyperparameters& model) {
  model.heads = metadata.require_count("attention.head_count", 1, most_heads);
  model.kv_heads = metadata.find_count("attention.head_count_kv", 1, most_heads).value_or(model.heads);
  if (model.kv_heads > model.heads || model.heads % model.kv_heads != 0)
    throw metadata.bad("attention.head_count_kv", "is ", model.kv_heads, ", which does not divide the ", model.heads, " heads");
  const std::optional<std::uint32_t> key_size = metadata.find_count("attention.key_length", 1, most_head_size);
  const std::optional<std::uint32_t> value_size = metadata.find_count("attention.value_length", 1, most_head_size);
  if ((!key_size || !value_size) && (model.hidden % model.heads != 0 || model.hidden / model.heads > most_head_size))
    throw metadata.bad("attention.head_count", "is ", model.heads, ", which does not divide embedding_length ", model.hidden,
                       " into heads of at most ", most_head_size, ", and key_length or value_length is missing");
  model.head_size = key_size.value_or(model.hidden / model.heads);
  model.value_size = value_size.value_or(model.hidden / model.heads);
  if (model.head_size % 2 != 0)
    throw metadata.bad(key_size ? "attention.key_length" : "attention.head_count", "gives heads of ", model.head_size,
                       " elements; rotated heads need an even size");
}

/// Keys whose presence would change the computation in a way that this decoder does not have.
void refuse_variants(const gguf::File& file, const Metadata& metadata) {
  if (const auto experts = file.find_u64(metadata.key("expert_count")); experts.value_or(0) != 0)
    throw metadata.bad("expert_count", "is ", *experts, "; mixtures of experts are not supported by this version");
  if (const auto parallel = file.find_bool(metadata.key("use_parallel_residual")); parallel.value_or(false))
    throw metadata.bad("use_parallel_residual", "is set; parallel residuals are not part of this architecture");
}

void read_vocabulary(const gguf::File& file, const Metadata& metadata, Hyperparameters& model) {
  const gguf::TensorInfo& table = file.require_tensor("token_embd.weight");
  if (table.n_dims != 2 || table.dims[1] < 1 || table.dims[1] > most_vocabulary)
    throw file.bad_tensor(table.name, concat("has ", table.n_dims == 2 ? table.dims[1] : 0, " rows, one a token; it must have 1 to ",
                                             most_vocabulary, " rows in 2 dimensions"));
  model.vocabulary = static_cast<std::uint32_t>(table.dims[1]);
  if (const auto stated = file.find_u64(metadata.key("vocab_size")); stated && *stated != model.vocabulary)
    throw metadata.bad("vocab_size", "is ", *stated, " but token_embd.weight has ", model.vocabulary, " rows");
  const auto tokens = file.array_shape("tokenizer.ggml.tokens");
  if (tokens && tokens->count > model.vocabulary)
    throw file.bad_key("tokenizer.ggml.tokens",
                       concat("holds ", tokens->count, " tokens but token_embd.weight has ", model.vocabulary, " rows"));
}

bool read_presence(const gguf::File& file, Presence presence, std::string_view tensor) {
  return presence == Presence::always || (presence == Presence::optional && has_tensor(file, tensor));
}

}  // namespace

void require_known_architecture(const gguf::File& file) { architecture_of(file); }

Hyperparameters read_hyperparameters(const gguf::File& file) {
  const Architecture& architecture = architecture_of(file);
  const Metadata metadata(file, architecture.name);
  Hyperparameters model;
  model.architecture = architecture.name;
  model.pairing = architecture.pairing;
  model.qk_norm = architecture.qk_norm;
  refuse_variants(file, metadata);
  model.layers = metadata.require_count("block_count", 1, most_layers);
  model.hidden = metadata.require_count("embedding_length", 1, most_hidden);
  model.ffn = metadata.require_count("feed_forward_length", 1, most_ffn);
  model.context = metadata.require_count("context_length", 1, most_context);
  model.norm_epsilon = static_cast<float>(metadata.require_number("attention.layer_norm_rms_epsilon", 0, 1));
  model.sliding_window = metadata.find_count("attention.sliding_window", 0, most_context).value_or(0);
  read_heads(metadata, model);
  model.rope_factors = architecture.rope_factors && has_tensor(file, "rope_freqs.weight");
  read_rope(metadata, model);
  read_vocabulary(file, metadata, model);
  model.tied_head = !has_tensor(file, "output.weight");
  model.attention_bias = read_presence(file, architecture.attention_bias, "blk.0.attn_q.bias");
  model.output_bias = read_presence(file, architecture.output_bias, "blk.0.attn_output.bias");
  check_tensors(file, model);
  return model;
}

}  // namespace quern::models
