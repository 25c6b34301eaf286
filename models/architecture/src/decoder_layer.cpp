// The layer that the llama family shares, as nodes of a graph.
#include "decoder_layer.hpp"

#include "tensors.hpp"

namespace quern::models {
namespace {

namespace ops = graph::ops;
using graph::no_value;
using graph::ValueId;

struct Layer {
  LayerContext& context;
  std::uint32_t index;

  std::string name(std::string_view suffix) const { return layer_tensor(index, suffix); }
  ValueId weight(std::string_view suffix) const { return context.weight(name(suffix)); }
  graph::Graph& graph() const { return context.graph; }

  ValueId norm(ValueId x, std::string_view part) const {
    return ops::rms_norm(graph(), x, weight(concat(part, ".weight")), {.epsilon = context.model.norm_epsilon}, context.node(name(part)));
  }

  ValueId product(ValueId x, std::string_view part, bool bias) const {
    const ValueId b = weight(concat(part, ".weight"));
    const ValueId ordered = context.in_order(name(part), x);
    const ValueId y =
        ops::matmul(graph(), ordered, b, bias ? weight(concat(part, ".bias")) : no_value, no_value, {}, context.node(name(part)));
    return context.adapt(index, part, x, y);
  }

  /// [T, heads * size] seen as [T, heads, size].
  ValueId heads(ValueId x, std::int64_t count, std::int64_t size) const {
    return graph().reshape(x, {graph().value(x).shape[0], count, size});
  }

  ValueId rotate(ValueId x, std::string_view part) const {
    const bool half_split = context.model.pairing == RopePairing::half_split;
    return ops::rope(graph(), x, context.position, context.rope_table, {.mode = half_split ? 1 : 0, .inverse = false, .sections = {}},
                     context.node(name(part)));
  }
};

/// Attention's heads of a row side by side, before they are mixed.
ValueId attend(const Layer& layer, ValueId x) {
  const Hyperparameters& model = layer.context.model;
  graph::Graph& graph = layer.graph();
  ValueId q = layer.heads(layer.product(x, "attn_q", model.attention_bias), model.heads, model.head_size);
  ValueId k = layer.heads(layer.product(x, "attn_k", model.attention_bias), model.kv_heads, model.head_size);
  const ValueId v = layer.heads(layer.product(x, "attn_v", model.attention_bias), model.kv_heads, model.value_size);
  if (model.qk_norm) {
    q = layer.norm(q, "attn_q_norm");
    k = layer.norm(k, "attn_k_norm");
  }
  q = layer.rotate(q, "rope_q");
  k = layer.rotate(k, "rope_k");
  const ValueId y = layer.context.attend(layer.index, q, k, v);
  return graph.reshape(y, {graph.value(y).shape[0], std::int64_t{model.heads} * model.value_size});
}

ValueId feed_forward(const Layer& layer, ValueId x) {
  const ValueId gate = layer.product(x, "ffn_gate", false);
  const ValueId up = layer.product(x, "ffn_up", false);
  const ValueId y = ops::glu(layer.graph(), gate, up, {}, layer.context.node(layer.name("ffn_act")));
  return layer.product(y, "ffn_down", false);
}

}  // namespace

graph::Shape tensor_shape(const gguf::TensorInfo& tensor) {
  graph::Shape shape;
  for (std::uint32_t d = tensor.n_dims; d-- > 0;) shape.push_back(graph::Dim(static_cast<std::int64_t>(tensor.dims[d])));
  return shape;
}

ValueId add_decoder_layer(LayerContext& context, std::uint32_t index, ValueId x) {
  const Layer layer{context, index};
  const LayerRows rows = context.behind_attention(index, {attend(layer, layer.norm(x, "attn_norm")), x});
  const ValueId attended = layer.product(rows.heads, "attn_output", context.model.output_bias);
  x = ops::add(context.graph, rows.x, attended, 1, context.node(layer.name("attn_residual")));
  const ValueId fed = feed_forward(layer, layer.norm(x, "ffn_norm"));
  return ops::add(context.graph, x, fed, 1, context.node(layer.name("ffn_residual")));
}

}  // namespace quern::models
