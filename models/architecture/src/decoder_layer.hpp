// The layer that the llama family shares, as nodes of a graph.
#pragma once

#include "quern/graph/ops.hpp"
#include "quern/models/architecture.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace quern::models {

/// The heads of a row side by side, and the rows that they are added to.
struct LayerRows {
  graph::ValueId heads, x;
};

/// What a graph gives to its layers: values that all read, and what a step of inference does otherwise than one of training.
class LayerContext {
 public:
  LayerContext(const Hyperparameters& m, graph::Graph& g) : model(m), graph(g) {}
  virtual ~LayerContext() = default;

  const Hyperparameters& model;
  graph::Graph& graph;
  graph::ValueId position = graph::no_value;    // i32 [T]
  graph::ValueId rope_table = graph::no_value;  // f32 [positions, rope_size / 2, 2]

  /// The value of a tensor of the file, with its shape.
  virtual graph::ValueId weight(const std::string& tensor) = 0;
  /// x with its elements in the order of the columns of a product's weight, "blk.3.attn_q"; x where they are in the model's.
  virtual graph::ValueId in_order(const std::string& /*product*/, graph::ValueId x) { return x; }
  /// Options of a node: its name and the conversions that are allowed.
  virtual graph::NodeOptions node(std::string name) const = 0;
  /// Rotated q [T, heads, d] and k [T, kv_heads, d], v [T, kv_heads, dv] -> [T, heads, dv].
  virtual graph::ValueId attend(std::uint32_t layer, graph::ValueId q, graph::ValueId k, graph::ValueId v) = 0;
  /// y = x times the weight of "attn_q" (without bias), which an adapter may change; x may be measured.
  virtual graph::ValueId adapt(std::uint32_t /*layer*/, std::string_view /*part*/, graph::ValueId /*x*/, graph::ValueId y) { return y; }
  /// What goes on behind the attention of a layer: all rows, or those whose results are wanted.
  virtual LayerRows behind_attention(std::uint32_t /*layer*/, LayerRows rows) { return rows; }
};

/// Adds one layer to the rows x [T, hidden] and returns the rows behind it.
graph::ValueId add_decoder_layer(LayerContext& context, std::uint32_t layer, graph::ValueId x);

/// The shape of a tensor of the file as a graph has it.
graph::Shape tensor_shape(const gguf::TensorInfo& tensor);

}  // namespace quern::models
