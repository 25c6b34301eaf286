#include "model_keys.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>

namespace quern::directory {
namespace {

// As models/architecture has them.
constexpr std::uint64_t most_layers = 4096, most_width = 1 << 24, most_heads = 1 << 16, most_positions = std::uint64_t{1} << 31;

std::string key_of(const Family& family, std::string_view suffix) { return concat(family.architecture, ".", suffix); }

/// The field, or what its class has where it is absent or null.
std::uint64_t count_or_default(const Config& config, const Family& family, std::string_view name, std::uint64_t most) {
  if (const auto stated = config.find_count(name, 1, most)) return *stated;
  if (const auto usual = default_of(family, name)) return static_cast<std::uint64_t>(*usual);
  throw config.file().bad(name, "is missing");
}

/// Fields whose other values would compute something else. Each is allowed to be absent.
void refuse_variants(const Config& config) {
  if (const auto name = config.find_text("hidden_act"); name.value_or("silu") != "silu")
    throw config.file().unsupported("hidden_act", concat("is ", in_quotes(*name, 48), "; this family is supported with silu alone"));
  if (config.find_bool("mlp_bias").value_or(false))
    throw config.file().unsupported("mlp_bias", "is true; biases of the feed-forward layers are not supported");
  if (const auto part = config.find_number("partial_rotary_factor"); part.value_or(1) != 1)
    throw config.file().unsupported("partial_rotary_factor", concat("is ", *part, "; this family is supported with whole heads rotated"));
}

/// Whether all layers attend within a window, or none.
bool all_windowed(const Config& config, const Family& family, std::uint64_t layers) {
  std::uint64_t windowed = 0, first = layers;
  if (const Json* types = config.find("layer_types"); types != nullptr && !types->is_null()) {
    if (types->list() == nullptr || types->list()->size() != layers)
      throw config.file().bad("layer_types", concat("is not a list of ", layers, " names, one a layer"));
    for (const Json& type : *types->list()) {
      const std::string* const name = type.text();
      if (name == nullptr || (*name != "full_attention" && *name != "sliding_attention"))
        throw config.file().unsupported("layer_types", "has a layer that is neither 'full_attention' nor 'sliding_attention'");
      windowed += *name == "sliding_attention" ? 1 : 0;
    }
    first = windowed == 0 ? layers : windowed == layers ? 0 : 1;
  } else if (family.window == Window::if_stated) {
    first = 0;
  } else if (family.window == Window::if_used && config.find_bool("use_sliding_window").value_or(false)) {
    const auto stated = config.find_count("max_window_layers", 0, UINT64_MAX);
    first = stated ? *stated : static_cast<std::uint64_t>(default_of(family, "max_window_layers").value_or(0));
  }
  if (first != 0 && first < layers)
    throw config.file().unsupported(config.find("layer_types") != nullptr ? "layer_types" : "max_window_layers",
                                    "gives a window to some of the layers; this version has a window in all layers or in none");
  return first == 0;
}

void write_window(const Config& config, const Family& family, std::uint64_t layers, gguf::Writer& keys) {
  if (!all_windowed(config, family, layers)) return;
  const Json* const stated = config.find("sliding_window");
  if (stated != nullptr && stated->is_null()) return;
  const auto window = config.find_count("sliding_window", 1, most_positions);
  const double usual = default_of(family, "sliding_window").value_or(0);
  keys.u32(key_of(family, "attention.sliding_window"), static_cast<std::uint32_t>(window ? *window : static_cast<std::uint64_t>(usual)));
}

}  // namespace

Shape write_model_keys(const Config& config, const Family& family, gguf::Writer& keys) {
  refuse_variants(config);
  Shape shape;
  shape.layers = count_or_default(config, family, "num_hidden_layers", most_layers);
  shape.hidden = count_or_default(config, family, "hidden_size", most_width);
  shape.context = count_or_default(config, family, "max_position_embeddings", most_positions);
  shape.heads = count_or_default(config, family, "num_attention_heads", most_heads);
  const bool has_own = config.find_count("num_key_value_heads", 1, most_heads).has_value() || default_of(family, "num_key_value_heads");
  shape.kv_heads = has_own ? count_or_default(config, family, "num_key_value_heads", most_heads) : shape.heads;
  const bool stated = config.find_count("head_dim", 1, most_heads).has_value() || default_of(family, "head_dim");
  if (!stated && shape.hidden % shape.heads != 0)
    throw config.file().bad("num_attention_heads", concat("is ", shape.heads, ", which does not divide 'hidden_size' ", shape.hidden,
                                                          ", and 'head_dim' is missing"));
  shape.head_size = stated ? count_or_default(config, family, "head_dim", most_heads) : shape.hidden / shape.heads;
  shape.tied = config.find_bool("tie_word_embeddings").value_or(false);

  const auto count = [&](std::string_view suffix, std::uint64_t value) {
    keys.u32(key_of(family, suffix), static_cast<std::uint32_t>(value));
  };
  count("block_count", shape.layers);
  count("context_length", shape.context);
  count("embedding_length", shape.hidden);
  count("feed_forward_length", count_or_default(config, family, "intermediate_size", most_width));
  count("attention.head_count", shape.heads);
  count("attention.head_count_kv", shape.kv_heads);
  count("attention.key_length", shape.head_size);
  count("attention.value_length", shape.head_size);
  count("vocab_size", count_or_default(config, family, "vocab_size", most_positions));
  const double epsilon = config.find_number("rms_norm_eps").value_or(default_of(family, "rms_norm_eps").value_or(0));
  keys.f32(key_of(family, "attention.layer_norm_rms_epsilon"), static_cast<float>(epsilon));
  write_window(config, family, shape.layers, keys);
  write_rope_keys(config, family, shape, keys);
  return shape;
}

}  // namespace quern::directory
