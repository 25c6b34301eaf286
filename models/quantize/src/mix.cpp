// See mix.hpp.
#include "quern/models/mix.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/graph.hpp"
#include "quern/models/encoding.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <tuple>

namespace quern::quantize {
namespace {

/// A part of the model that has rules of its own.
enum class Part : std::uint8_t { head, table, attention_values, attention_keys, attention_output, feed_forward_down, other };

/// Layers for which a rule holds.
enum class Layers : std::uint8_t { all, more_bits, first_eighth, first_four };

struct MixRow {
  Mix mix;
  struct Rule {
    Part part = Part::other;
    Layers layers = Layers::all;
    quern_dtype dtype = QUERN_DTYPE_NONE;
    bool with_importance = false;  // it holds only where there is a matrix
  };
  std::array<Rule, 2> rules = {};
  quern_dtype output_of_eight_experts = QUERN_DTYPE_NONE;  // attn_output, in a model of 8 experts
};

constexpr auto values = Part::attention_values, down = Part::feed_forward_down;
constexpr MixRow mixes[] = {
    {{"F32", 0, QUERN_F32}},
    {{"F16", 1, QUERN_F16}},
    {{"BF16", 32, QUERN_BF16}},
    {{"Q4_0", 2, QUERN_Q4_0}, {{{down, Layers::first_eighth, QUERN_Q4_1, true}}}},
    {{"Q4_1", 3, QUERN_Q4_1}},
    {{"Q5_0", 8, QUERN_Q5_0}, {{{down, Layers::first_eighth, QUERN_Q5_1, true}}}},
    {{"Q5_1", 9, QUERN_Q5_1}},
    {{"Q8_0", 7, QUERN_Q8_0}},
    {{"Q4_K_S", 14, QUERN_Q4_K}, {{{values, Layers::first_four, QUERN_Q5_K}, {down, Layers::first_eighth, QUERN_Q5_K}}}, QUERN_Q5_K},
    {{"Q4_K_M", 15, QUERN_Q4_K}, {{{values, Layers::more_bits, QUERN_Q6_K}, {down, Layers::more_bits, QUERN_Q6_K}}}, QUERN_Q5_K},
    {{"Q5_K_S", 16, QUERN_Q5_K}},
    {{"Q5_K_M", 17, QUERN_Q5_K}, {{{values, Layers::more_bits, QUERN_Q6_K}, {down, Layers::more_bits, QUERN_Q6_K}}}},
    {{"Q6_K", 18, QUERN_Q6_K}},
};

constexpr std::pair<std::string_view, std::string_view> other_names[] = {{"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

constexpr std::string_view not_written[] = {"Q1_0",  "Q2_0",  "Q2_K",    "Q2_K_S", "Q3_K",  "Q3_K_S", "Q3_K_M",    "Q3_K_L",
                                            "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M",  "IQ3_XXS",   "IQ3_XS",
                                            "IQ3_S", "IQ3_M", "IQ4_NL",  "IQ4_XS", "TQ1_0", "TQ2_0",  "MXFP4_MOE", "NVFP4"};

/// Where rows are no whole blocks of the first.
constexpr std::pair<quern_dtype, quern_dtype> fallbacks[] = {{QUERN_Q4_K, QUERN_Q5_0}, {QUERN_Q5_K, QUERN_Q5_1}, {QUERN_Q6_K, QUERN_Q8_0}};

/// Tensors that stay as they are, by a part of their name.
constexpr std::string_view never[] = {
    "_norm.weight", "ffn_gate_inp.weight",   "ffn_gate_tid2eid.weight", "altup",       "laurel",           "per_layer_model_proj",
    "ssm_conv1d",   "shortconv.conv.weight", "position_embd",           "token_types", "attn_rel_b.weight"};

std::string capitals(std::string_view text) {
  std::string made(text);
  for (char& c : made)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return made;
}

std::string small_letters(std::string_view text) {
  std::string made(text);
  for (char& c : made)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return made;
}

std::string names_of_mixes() {
  std::string names;
  for (const MixRow& row : mixes) names += (names.empty() ? "" : ", ") + std::string(row.mix.name);
  return names;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

Part part_of(std::string_view name, bool tied) {
  if (name == "output.weight") return Part::head;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return tied ? Part::head : Part::table;
  for (const std::string_view values_too : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"})
    if (has(name, values_too)) return Part::attention_values;
  if (has(name, "attn_k.weight")) return Part::attention_keys;
  if (has(name, "attn_output.weight")) return Part::attention_output;
  return has(name, "ffn_down") ? Part::feed_forward_down : Part::other;
}

bool is_quantised(const gguf::TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  return tensor.n_dims >= 2 && name.ends_with("weight") && block_elements(tensor.dtype) != 0 &&
         std::ranges::none_of(never, [&](std::string_view part) { return has(name, part); });
}

bool holds(Layers layers, std::uint64_t layer, std::uint64_t count) {
  const std::uint64_t eighth = count / 8;
  switch (layers) {
    case Layers::more_bits: return layer < eighth || layer >= 7 * count / 8 || (layer - eighth) % 3 == 2;
    case Layers::first_eighth: return layer < eighth;
    case Layers::first_four: return layer < 4;
    default: return true;
  }
}

quern_dtype fitting(quern_dtype wanted, std::uint64_t columns) {
  if (columns % block_elements(wanted) == 0) return wanted;
  for (const auto& [from, to] : fallbacks)
    if (from == wanted && columns % block_elements(to) == 0) return to;
  return QUERN_F16;
}

/// The mix of one file, asked tensor by tensor, layer after layer.
class Chooser {
 public:
  Chooser(const gguf::File& file, const MixRow& row, const MixOptions& options) : row_(row), options_(options) {
    const std::string architecture(file.find_string("general.architecture").value_or(""));
    layers_ = file.find_u64(architecture + ".block_count").value_or(0);
    experts_ = file.find_u64(architecture + ".expert_count").value_or(0);
    llama_of_80_layers_ = layers_ == 80 && (architecture == "llama" || architecture == "qwen2");
    tied_ = file.find_tensor("output.weight") == nullptr;
    value_layers_ = static_cast<std::uint64_t>(
        std::ranges::count_if(file.tensors(), [](const auto& tensor) { return part_of(tensor.name, false) == Part::attention_values; }));
  }

  TensorChoice choose(const gguf::TensorInfo& tensor) {
    const std::optional<quern_dtype> said = given(tensor);
    const quern_dtype wanted = said ? *said : by_part(tensor);
    return {wanted == tensor.dtype ? wanted : fitting(wanted, tensor.dims[0]), wanted, !said};
  }

 private:
  /// What an option or a rule says, or the type that a tensor keeps.
  std::optional<quern_dtype> given(const gguf::TensorInfo& tensor) const {
    if (!is_quantised(tensor)) return tensor.dtype;
    const bool table = part_of(tensor.name, false) == Part::table;
    if (options_.embedding != QUERN_DTYPE_NONE && table) return options_.embedding;
    if (options_.output != QUERN_DTYPE_NONE && tensor.name == "output.weight") return options_.output;
    if (block_elements(row_.mix.base) == 1) return row_.mix.base;
    for (const TensorRule& rule : options_.rules)
      if (rule.pattern.is_found_in(tensor.name)) return rule.dtype;
    if (options_.output != QUERN_DTYPE_NONE && !options_.pure && part_of(tensor.name, tied_) == Part::head) return options_.output;
    return {};
  }

  quern_dtype by_part(const gguf::TensorInfo& tensor) {
    const quern_dtype base = row_.mix.base;
    if (options_.pure) return base;
    const Part part = part_of(tensor.name, tied_);
    switch (part) {
      case Part::head:
        if (tensor.dims[0] % block_elements(base) != 0) return QUERN_Q8_0;
        return base == QUERN_Q8_0 ? QUERN_Q8_0 : QUERN_Q6_K;
      case Part::attention_values: return values(by_rule(part, values_seen_++, value_layers_));
      case Part::attention_keys: return experts_ == 8 ? quern_dtype{QUERN_Q8_0} : base;
      case Part::attention_output:
        return experts_ == 8 && row_.output_of_eight_experts != QUERN_DTYPE_NONE ? row_.output_of_eight_experts : base;
      case Part::feed_forward_down: {
        // Tensors of experts come in any order; others are counted.
        const std::uint64_t seen = downs_seen_++;
        return by_rule(part, experts_ > 1 ? layer_of(tensor.name).value_or(seen) : seen, layers_);
      }
      default: return base;
    }
  }

  quern_dtype values(quern_dtype dtype) const {
    if (experts_ == 8) return QUERN_Q8_0;
    return llama_of_80_layers_ && dtype == QUERN_Q4_K ? quern_dtype{QUERN_Q5_K} : dtype;  // of grouped heads: an eighth of attn_q's size
  }

  quern_dtype by_rule(Part part, std::uint64_t layer, std::uint64_t count) const {
    for (const MixRow::Rule& rule : row_.rules)
      if (rule.dtype != QUERN_DTYPE_NONE && rule.part == part && (!rule.with_importance || options_.importance) &&
          holds(rule.layers, layer, count))
        return rule.dtype;
    return row_.mix.base;
  }

  const MixRow& row_;
  const MixOptions& options_;
  std::uint64_t layers_ = 0, experts_ = 0, value_layers_ = 0, values_seen_ = 0, downs_seen_ = 0;
  bool tied_ = false, llama_of_80_layers_ = false;
};

}  // namespace

std::optional<std::uint64_t> layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return {};
  name.remove_prefix(4);
  std::uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {};
  return layer;
}

const Mix& mix_of(std::string_view name) {
  std::string wanted = capitals(name);
  for (const auto& [other, usual] : other_names)
    if (wanted == other) wanted = usual;
  for (const MixRow& row : mixes)
    if (row.mix.name == wanted) return row.mix;
  if (std::ranges::find(not_written, wanted) != std::end(not_written))
    throw Error(QUERN_UNSUPPORTED, concat(wanted, " is a type of files that is not written here; these are: ", names_of_mixes()));
  throw Error(QUERN_INVALID_ARGUMENT, concat("'", name, "' is no type of files; these are: ", names_of_mixes()));
}

const Mix& mix_with_base(quern_dtype base) {
  return std::ranges::find(mixes, base, [](const MixRow& row) { return row.mix.base; })->mix;
}

quern_dtype tensor_type_of(std::string_view what, std::string_view name) {
  const std::optional<quern_dtype> dtype = graph::dtype_from_name(small_letters(name));
  if (!dtype || block_elements(*dtype) == 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat(what, ": '", name,
                                               "' is no type of tensors that is written; these are: f32, f16, bf16, q4_0, q4_1, "
                                               "q5_0, q5_1, q8_0, q4_k, q5_k, q6_k"));
  return *dtype;
}

TensorRule tensor_rule(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("the tensor type '", text, "' has no REGEX=TYPE; ffn_down=q6_k is one"));
  const quern_dtype dtype = tensor_type_of(concat("the tensor type '", text, "'"), std::string_view(text).substr(at + 1));
  try {
    return {tokenizer::TextPattern(std::string_view(text).substr(0, at)), dtype};
  } catch (const Error& error) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("the tensor type '", text, "': '", text.substr(0, at), "' is no regular expression that is read: ", error.what()));
  }
}

std::vector<TensorChoice> choose_types(const gguf::File& file, const Mix& mix, const MixOptions& options) {
  const MixRow& row = *std::ranges::find(mixes, mix.name, [](const MixRow& r) { return r.mix.name; });
  Chooser chooser(file, row, options);
  // Layer after layer, and by name within one, whatever the order of the file: so does llama-quantize count.
  std::vector<std::size_t> order(file.tensors().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const std::string& name = file.tensors()[i].name;
    const std::optional<std::uint64_t> layer = layer_of(name);
    return std::tuple(layer.has_value(), layer.value_or(0), std::string_view(name));
  });
  std::vector<TensorChoice> choices(order.size());
  for (const std::size_t i : order) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    choices[i] = chooser.choose(tensor);
  }
  return choices;
}

}  // namespace quern::quantize
