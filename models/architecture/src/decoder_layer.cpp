// The layer that the llama family shares, as nodes of a step graph.
#include "decoder_layer.hpp"

#include "tensors.hpp"

#include <cmath>

namespace quern::models {
namespace {

namespace ops = graph::ops;
using graph::no_value;
using graph::ValueId;

struct Layer {
  StepBuilder& builder;
  std::uint32_t index;

  std::string name(std::string_view suffix) const { return layer_tensor(index, suffix); }
  ValueId weight(std::string_view suffix) const { return builder.weight(name(suffix)); }
  graph::Graph& graph() const { return builder.step.graph; }

  ValueId norm(ValueId x, std::string_view part) const {
    return ops::rms_norm(graph(), x, weight(concat(part, ".weight")), {.epsilon = builder.model.norm_epsilon}, builder.node(name(part)));
  }

  ValueId product(ValueId x, std::string_view part, bool bias) const {
    const ValueId b = weight(concat(part, ".weight"));
    return ops::matmul(graph(), x, b, bias ? weight(concat(part, ".bias")) : no_value, no_value, {}, builder.node(name(part)));
  }

  /// [T, heads * size] seen as [T, heads, size].
  ValueId heads(ValueId x, std::int64_t count, std::int64_t size) const {
    return graph().reshape(x, {graph().value(x).shape[0], count, size});
  }

  ValueId rotate(ValueId x, std::string_view part) const {
    const bool half_split = builder.model.pairing == RopePairing::half_split;
    return ops::rope(graph(), x, builder.step.position, builder.step.rope_table,
                     {.mode = half_split ? 1 : 0, .inverse = false, .sections = {}}, builder.node(name(part)));
  }
};

/// Attention's heads of a row side by side, before they are mixed.
ValueId attend(const Layer& layer, ValueId x) {
  const Hyperparameters& model = layer.builder.model;
  StepGraph& step = layer.builder.step;
  graph::Graph& graph = step.graph;
  ValueId q = layer.heads(layer.product(x, "attn_q", model.attention_bias), model.heads, model.head_size);
  ValueId k = layer.heads(layer.product(x, "attn_k", model.attention_bias), model.kv_heads, model.head_size);
  const ValueId v = layer.heads(layer.product(x, "attn_v", model.attention_bias), model.kv_heads, model.value_size);
  if (model.qk_norm) {
    q = layer.norm(q, "attn_q_norm");
    k = layer.norm(k, "attn_k_norm");
  }
  q = layer.rotate(q, "rope_q");
  k = layer.rotate(k, "rope_k");
  const ValueId k_cache = step.k_cache[layer.index];
  const ValueId v_cache = step.v_cache[layer.index];
  ops::kv_write(graph, k, step.block_table, step.row_slot, step.position, k_cache, layer.builder.node(layer.name("k_cache")));
  ops::kv_write(graph, v, step.block_table, step.row_slot, step.position, v_cache, layer.builder.node(layer.name("v_cache")));
  const ops::AttentionInputs in = {.q = q,
                                   .k_cache = k_cache,
                                   .v_cache = v_cache,
                                   .block_table = step.block_table,
                                   .row_slot = step.row_slot,
                                   .position = step.position};
  ops::AttentionAttributes how = {.scale = 1 / std::sqrt(static_cast<double>(model.head_size))};
  how.window = model.sliding_window;
  const ValueId y = ops::attention(graph, in, how, layer.builder.node(layer.name("attention")));
  return graph.reshape(y, {graph.value(y).shape[0], std::int64_t{model.heads} * model.value_size});
}

ValueId feed_forward(const Layer& layer, ValueId x) {
  const ValueId gate = layer.product(x, "ffn_gate", false);
  const ValueId up = layer.product(x, "ffn_up", false);
  const ValueId y = ops::glu(layer.graph(), gate, up, {}, layer.builder.node(layer.name("ffn_act")));
  return layer.product(y, "ffn_down", false);
}

}  // namespace

ValueId add_decoder_layer(StepBuilder& builder, std::uint32_t index, ValueId x) {
  const Layer layer{builder, index};
  graph::Graph& graph = builder.step.graph;
  ValueId heads = attend(layer, layer.norm(x, "attn_norm"));
  if (builder.options.early_outputs && index + 1 == builder.model.layers) {
    heads = ops::get_rows(graph, heads, builder.step.output_row, builder.node("output_heads"));
    x = ops::get_rows(graph, x, builder.step.output_row, builder.node("output_rows"));
  }
  const ValueId attended = layer.product(heads, "attn_output", builder.model.output_bias);
  x = ops::add(graph, x, attended, 1, builder.node(layer.name("attn_residual")));
  const ValueId fed = feed_forward(layer, layer.norm(x, "ffn_norm"));
  return ops::add(graph, x, fed, 1, builder.node(layer.name("ffn_residual")));
}

}  // namespace quern::models
