#include "tensor_names.hpp"

#include "changes.hpp"
#include "quantised_modules.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/graph.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace quern::directory {
namespace {

constexpr NameRow whole_rows[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight", Rows::as_they_lie, true},
};

constexpr NameRow layer_rows[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight", Rows::of_queries},
    {"self_attn.q_proj.bias", "attn_q.bias", Rows::of_queries},
    {"self_attn.k_proj.weight", "attn_k.weight", Rows::of_keys},
    {"self_attn.k_proj.bias", "attn_k.bias", Rows::of_keys},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};

// The first that fits is taken off.
constexpr std::string_view prefixes[] = {"model.language_model.", "language_model.model.", "language_model.", "model.", "transformer."};

// What no inference of text reads.
constexpr std::string_view skipped_parts[] = {"vision", "visual", "audio"};
constexpr std::string_view skipped_starts[] = {"multi_modal_projector.", "mtp."};
constexpr std::string_view skipped_ends[] = {".rotary_emb.inv_freq", ".masked_bias", ".input_scale", ".input_zero_point",
                                             ".activation_scale",    ".k_scale",     ".v_scale"};

constexpr std::string_view their_layers = "layers.", our_layers = "blk.";

/// "layers.12.mlp..." to 12 and what follows; nothing for a name with another front.
std::optional<std::uint64_t> take_layer(std::string_view& name, std::string_view front) {
  if (!name.starts_with(front)) return std::nullopt;
  std::uint64_t layer = 0;
  const char* const begin = name.data() + front.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()) + 1);
  return layer;
}

bool is_skipped(std::string_view name) {
  return std::ranges::any_of(skipped_parts, [&](std::string_view part) { return name.find(part) != name.npos; }) ||
         std::ranges::any_of(skipped_starts, [&](std::string_view start) { return name.starts_with(start); }) ||
         std::ranges::any_of(skipped_ends, [&](std::string_view end) { return name.ends_with(end); });
}

struct Target {
  std::string name;  // empty: the tensor is left out
  Rows rows = Rows::as_they_lie;
};

/// Nothing for a name that the tables do not have.
std::optional<Target> target_of(std::string_view name, const Shape& shape, const NameTable& names) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  const std::string_view all = name;
  const std::optional<std::uint64_t> layer = take_layer(name, their_layers);
  if (layer && *layer >= shape.layers) return Target{};  // next-token layers
  const std::span<const NameRow> rows = layer ? names.layers : names.whole;
  if (const auto at = std::ranges::find(rows, name, &NameRow::theirs); at != rows.end()) {
    if (shape.tied && at->ours == "output.weight") return Target{};
    return Target{layer ? concat(our_layers, *layer, ".", at->ours) : std::string(at->ours), at->rows};
  }
  return is_skipped(all) ? std::optional(Target{}) : std::nullopt;
}

/// The heads whose rows lie otherwise in the graph; 0 for none.
std::uint64_t permuted_heads(Rows rows, const Family& family, const Shape& shape) {
  if (!family.interleaves || rows == Rows::as_they_lie) return 0;
  return rows == Rows::of_queries ? shape.heads : shape.kv_heads;
}

/// The heads, if they are those that config.json gives.
template <typename Refused>
std::uint64_t checked_heads(std::uint64_t heads, std::uint64_t rows, const Shape& shape, const Refused& refused) {
  if (heads != 0 && (rows != heads * shape.head_size || shape.head_size % 2 != 0))
    throw refused(QUERN_BAD_MODEL, concat("has ", rows, " rows; config.json gives ", heads, " heads of ", shape.head_size,
                                          ", and heads are rotated in pairs"));
  return heads;
}

gguf::AssembledTensor assembled(const StoredTensor& stored, const std::string& file, const Target& target, const Family& family,
                                const Shape& shape) {
  const safetensors::TensorInfo& info = stored.info;
  const auto refused = [&](quern_status code, std::string_view text) {
    return Error(code, concat(file, ": tensor ", in_quotes(info.name), ": ", text));
  };
  const quern_dtype dtype = safetensors::float_type(info.dtype);
  if (dtype == QUERN_DTYPE_NONE)
    throw refused(QUERN_UNSUPPORTED,
                  concat("is ", safetensors::name_of(info.dtype), "; weights of directories are read in BF16, F16 and F32"));
  if (info.shape.empty() || info.shape.size() > 2)
    throw refused(QUERN_BAD_MODEL, concat("has ", info.shape.size(), " dimensions; a tensor of this family has 1 or 2"));
  gguf::AssembledTensor made;
  made.tensor.name = target.name;
  made.tensor.n_dims = static_cast<std::uint32_t>(info.shape.size());
  std::ranges::reverse_copy(info.shape, made.tensor.dims);
  made.tensor.dtype = info.shape.size() == 1 ? QUERN_F32 : dtype;  // norms and biases
  made.tensor.offset = info.offset;
  made.lying_bytes = info.bytes;
  const std::uint64_t rows = info.shape.front(), heads = checked_heads(permuted_heads(target.rows, family, shape), rows, shape, refused);
  made.change = tensor_change({heads, rows, dtype, made.tensor.dtype});
  return made;
}

/// Weights by what is to be said of them, and whether it warns.
using Counts = std::map<std::pair<std::string, bool>, std::uint64_t>;

/// Which element of its input each column of a weight multiplies, as a tensor beside the weight.
gguf::AssembledTensor order_of(const QuantisedWeight& weight, std::string name, std::uint32_t first_file) {
  gguf::AssembledTensor made;
  made.tensor.name = std::move(name);
  made.tensor.n_dims = 1;
  made.tensor.dims[0] = weight.columns;
  made.tensor.dtype = QUERN_I32;
  made.tensor.offset = weight.index->info.offset;
  made.tensor.shard = first_file + weight.index->file;
  made.lying_bytes = weight.index->info.bytes;
  made.change = made_of(weight.order);
  return made;
}

/// The weight, and behind it the order of its columns where that is another than the model's.
void assemble(const ModuleContext& context, const QuantisedModule& module, const Target& target, const Family& family, const Shape& shape,
              std::uint32_t first_file, Counts& counts, std::vector<gguf::AssembledTensor>& all) {
  Quantisation how = context.quantisation;
  if (target.name == "token_embd.weight") how.act_order = models::ActOrder::expanded;  // its rows are read, and no input is put in order
  QuantisedWeight weight = quantised_weight({context.shards, how}, module);
  const auto refused = [&](quern_status code, std::string_view text) { return context.refused(code, *weight.first, text); };
  const std::uint64_t heads = checked_heads(permuted_heads(target.rows, family, shape), weight.rows, shape, refused);
  if (!weight.expanded.empty()) ++counts[{concat("are expanded to ", graph::dtype_name(weight.dtype), ", since ", weight.expanded), true}];
  if (!weight.order.empty()) {
    ++counts[{"have their columns by groups, and 'take' puts their inputs in that order ('desc_act')", false}];
    all.push_back(
        order_of(weight, concat(std::string_view(target.name).substr(0, target.name.size() - std::string_view(".weight").size()), ".order"),
                 first_file));
  }
  if (!weight.zeros.text.empty()) ++counts[{weight.zeros.text, weight.zeros.warns}];
  gguf::AssembledTensor made;
  made.tensor.name = target.name;
  made.tensor.n_dims = 2;
  made.tensor.dims[0] = weight.columns;
  made.tensor.dims[1] = weight.rows;
  made.tensor.dtype = weight.dtype;
  made.tensor.offset = weight.first->info.offset;
  made.tensor.shard = first_file + weight.first->file;
  made.lying_bytes = weight.first->info.bytes;
  for (const StoredTensor* piece : weight.further)
    made.further.push_back({first_file + piece->file, piece->info.offset, piece->info.bytes});
  made.change = with_rows_interleaved(std::move(weight.change), heads, weight.rows);
  all.push_back(std::move(made));
}

}  // namespace

const NameTable& name_table() noexcept {
  static constexpr NameTable table{whole_rows, layer_rows};
  return table;
}

AssembledTensors assembled_tensors(const Shards& shards, const Family& family, const Shape& shape, const Quantisation& quantisation,
                                   std::uint32_t first_file, const NameTable& names) {
  std::vector<gguf::AssembledTensor> all;
  std::map<std::string, std::string> taken;
  /// Nothing where the tensor is left out.
  const auto place = [&](const StoredTensor& stored, const std::string& name) -> std::optional<Target> {
    const std::string& file = shards.files[stored.file];
    std::optional<Target> target = target_of(name, shape, names);
    if (!target)
      throw Error(QUERN_UNSUPPORTED, concat(file, ": tensor ", in_quotes(stored.info.name), ": is not part of the family ",
                                            family.model_type, " as it is known here, so the model would compute something else"));
    if (target->name.empty()) return std::nullopt;
    if (const auto [at, is_new] = taken.emplace(target->name, name); !is_new)
      throw Error(QUERN_BAD_MODEL, concat(file, ": tensor ", in_quotes(name), ": is there twice, also as ", in_quotes(at->second)));
    return target;
  };
  const ModuleContext context{shards, quantisation};
  const Modules modules = find_modules(context);
  Counts counts;
  std::size_t next = 0;  // of the modules, each at the place of its first tensor
  for (std::size_t i = 0; i < shards.tensors.size(); ++i) {
    const StoredTensor& stored = shards.tensors[i];
    if (modules.of[i] == Modules::none) {
      if (const auto target = place(stored, stored.info.name)) {
        all.push_back(assembled(stored, shards.files[stored.file], *target, family, shape));
        all.back().tensor.shard = first_file + stored.file;
      }
    } else if (modules.of[i] == next) {
      const QuantisedModule& module = modules.all[next++];
      if (const auto target = place(stored, concat(module.name, ".weight")))
        assemble(context, module, *target, family, shape, first_file, counts, all);
    }
  }
  if (!shape.rope_factors.empty()) {
    gguf::AssembledTensor factors;
    factors.tensor.name = made_tensor;
    factors.tensor.n_dims = 1;
    factors.tensor.dims[0] = shape.rope_factors.size();
    factors.tensor.dtype = QUERN_F32;
    factors.change = made_of(shape.rope_factors);
    all.push_back(std::move(factors));
  }
  AssembledTensors made{std::move(all), {}};
  for (const auto& [what, count] : counts) made.notes.push_back({concat(count, " of its weights ", what.first), what.second});
  return made;
}

std::optional<DirectoryTensor> directory_tensor(std::string_view ours, const Family& family, const Shape& shape) {
  const std::optional<std::uint64_t> layer = take_layer(ours, our_layers);
  const std::span<const NameRow> rows = layer ? name_table().layers : name_table().whole;
  const auto at = std::ranges::find(rows, ours, &NameRow::ours);
  if (at == rows.end() || (layer && *layer >= shape.layers)) return std::nullopt;
  const std::string_view front = at->outside ? "" : "model.";
  return DirectoryTensor{layer ? concat(front, their_layers, *layer, ".", at->theirs) : concat(front, at->theirs),
                         permuted_heads(at->rows, family, shape)};
}

}  // namespace quern::directory
