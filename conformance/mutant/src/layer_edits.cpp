// Faults that only whole layers show: what a plugin that computes several nodes at once gets wrong. See edits.hpp.
//
// Each changes graphs of more than one node before the plugin underneath sees them, and leaves every node alone as it is.
#include "edits.hpp"

#include <algorithm>

namespace quern::mutant {
namespace {

std::uint32_t root_of(const GraphCopy& graph, std::uint32_t value) {
  while ((graph.values[value].uses & QUERN_VALUE_USES_ALIAS) != 0 && graph.values[value].alias_of < value)
    value = graph.values[value].alias_of;
  return value;
}

bool is_part(const GraphCopy& graph, std::uint32_t value) { return (graph.values[value].uses & QUERN_VALUE_USES_STRIDES) != 0; }

/// The op of the node that makes a value; 0: none does.
std::uint32_t maker_op(const GraphCopy& graph, std::uint32_t value) {
  std::uint32_t op = 0;
  for (const NodeCopy& node : graph.nodes)
    for (const std::uint32_t y : node.outputs)
      if (y != QUERN_NONE && root_of(graph, y) == root_of(graph, value)) op = node.fields.op;
  return op;
}

/// Both of one size, so that a value of one may count the other.
bool has_two_extents(const GraphCopy& graph) { return graph.symbols().size() == 2 && graph.symbols()[0].max == graph.symbols()[1].max; }

Mutation edits_layers(std::function<void(GraphCopy&)> edit) {
  Mutation m;
  m.edit_graph = [edit = std::move(edit)](GraphCopy& graph) {
    if (graph.nodes.size() > 1) edit(graph);
  };
  return m;
}

Mutation edits_layer_nodes(std::uint32_t op, std::function<void(const GraphCopy&, NodeCopy&)> edit) {
  return edits_layers([op, edit = std::move(edit)](GraphCopy& graph) {
    for (NodeCopy& node : graph.nodes)
      if (node.fields.op == op) edit(graph, node);
  });
}

void drop(NodeCopy& node, std::uint32_t key) {
  std::erase_if(node.attributes, [&](const quern_attribute& a) { return a.key == key; });
}

/// Who reads what the node makes reads its first input instead, or another view of its memory.
void skip(GraphCopy& graph, const NodeCopy& node) {
  for (NodeCopy& other : graph.nodes)
    if (&other != &node) std::ranges::replace(other.inputs, node.outputs[0], node.inputs[0]);
}

}  // namespace

Mutation layers_without_attribute(std::uint32_t op, std::uint32_t key) {
  return edits_layer_nodes(op, [key](const GraphCopy&, NodeCopy& node) { drop(node, key); });
}

Mutation last_window_is_ignored() {
  return edits_layers([](GraphCopy& graph) {
    NodeCopy* last = nullptr;
    for (NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_ATTENTION && node.attribute(QUERN_KEY_WINDOW) != nullptr) last = &node;
    if (last != nullptr) drop(*last, QUERN_KEY_WINDOW);
  });
}

Mutation norms_behind_products_without_weight() {
  return edits_layer_nodes(QUERN_OP_RMS_NORM, [](const GraphCopy& graph, NodeCopy& node) {
    if (node.inputs.size() > 1 && maker_op(graph, node.inputs[0]) == QUERN_OP_MATMUL && graph.values[node.inputs[0]].rank == 2)
      node.inputs.resize(1);
  });
}

Mutation norms_of_keys_are_skipped() {
  return edits_layers([](GraphCopy& graph) {
    std::int64_t most_heads = 0;
    const auto heads_of = [&](const NodeCopy& node) {
      return graph.values[node.inputs[0]].rank == 3 ? graph.values[node.inputs[0]].dims[1] : 0;
    };
    for (const NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_RMS_NORM) most_heads = std::max(most_heads, heads_of(node));
    for (const NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_RMS_NORM && heads_of(node) > 0 && heads_of(node) < most_heads) skip(graph, node);
  });
}

Mutation norms_of_all_keys_are_skipped() {
  return edits_layers([](GraphCopy& graph) {
    std::int64_t most = 0;
    const auto elements_of = [&](const NodeCopy& node) {  // of a norm of whole rows that are then rotated
      const bool rotated = std::ranges::any_of(graph.nodes, [&](const NodeCopy& other) {
        return other.fields.op == QUERN_OP_ROPE && root_of(graph, other.inputs[0]) == root_of(graph, node.outputs[0]);
      });
      return node.fields.op == QUERN_OP_RMS_NORM && rotated && graph.values[node.inputs[0]].rank == 2 ? graph.values[node.inputs[0]].dims[1]
                                                                                                      : 0;
    };
    for (const NodeCopy& node : graph.nodes) most = std::max(most, elements_of(node));
    for (NodeCopy& node : graph.nodes)
      if (const std::int64_t n = elements_of(node); n > 0 && n < most)
        node.fields.op = QUERN_OP_COPY, node.inputs.resize(1), node.attributes.clear();
  });
}

Mutation sums_behind_norms_are_read_before() {
  return edits_layers([](GraphCopy& graph) {
    for (const NodeCopy& add : graph.nodes) {
      if (add.fields.op != QUERN_OP_ADD) continue;
      for (const std::uint32_t x : add.inputs)
        if (maker_op(graph, x) == QUERN_OP_RMS_NORM)
          for (NodeCopy& other : graph.nodes)
            if (other.fields.op == QUERN_OP_MATMUL || other.fields.op == QUERN_OP_RMS_NORM)
              std::ranges::replace(other.inputs, add.outputs[0], x);
    }
  });
}

Mutation activations_are_skipped() {
  return edits_layers([](GraphCopy& graph) {
    for (const NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_GELU) skip(graph, node);
  });
}

Mutation gate_and_up_of_experts_are_swapped() {
  return edits_layer_nodes(QUERN_OP_GLU, [](const GraphCopy& graph, NodeCopy& node) {
    if (node.inputs.size() > 1 && maker_op(graph, node.inputs[0]) == QUERN_OP_MATMUL_ID) std::swap(node.inputs[0], node.inputs[1]);
  });
}

Mutation residuals_of_experts_are_skipped() {
  return edits_layers([](GraphCopy& graph) {
    for (const NodeCopy& add : graph.nodes)
      if (add.fields.op == QUERN_OP_ADD && maker_op(graph, add.inputs[1]) == QUERN_OP_MOE_COMBINE)
        for (NodeCopy& other : graph.nodes) std::ranges::replace(other.inputs, add.outputs[0], add.inputs[1]);
  });
}

Mutation second_sums_are_skipped() {
  return edits_layers([](GraphCopy& graph) {
    for (const NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_ADD && maker_op(graph, node.inputs[0]) == QUERN_OP_ADD) skip(graph, node);
  });
}

Mutation layer_norms_without_bias() {
  return edits_layer_nodes(QUERN_OP_LAYER_NORM, [](const GraphCopy&, NodeCopy& node) {
    if (node.inputs.size() > 2) node.inputs.resize(2);
  });
}

Mutation columns_start_at_their_product() {
  return edits_layers([](GraphCopy& graph) {
    for (std::uint32_t v = 0; v < graph.values.size(); ++v)
      if (is_part(graph, v) && (graph.values[v].uses & QUERN_VALUE_USES_ALIAS) != 0) graph.values[v].alias_offset = 0;
  });
}

Mutation partial_rotations_pair_neighbours() {
  return edits_layer_nodes(QUERN_OP_ROPE, [](const GraphCopy& graph, NodeCopy& node) {
    const quern_value &x = graph.values[node.inputs[0]], &table = graph.values[node.inputs[2]];
    if (table.dims[1] * 2 < x.dims[x.rank - 1]) drop(node, QUERN_KEY_MODE);
  });
}

Mutation gate_and_up_views_are_swapped() {
  return edits_layer_nodes(QUERN_OP_GLU, [](const GraphCopy& graph, NodeCopy& node) {
    if (node.inputs.size() > 1 && is_part(graph, node.inputs[0])) std::swap(node.inputs[0], node.inputs[1]);
  });
}

Mutation views_start_at_their_root() {
  return edits_layers([](GraphCopy& graph) {
    for (quern_value& value : graph.values)
      if ((value.uses & QUERN_VALUE_USES_ALIAS) != 0 && (value.uses & QUERN_VALUE_USES_STRIDES) == 0) value.alias_offset = 0;
  });
}

Mutation sinks_are_ignored() {
  return edits_layer_nodes(QUERN_OP_ATTENTION, [](const GraphCopy& graph, NodeCopy& node) {
    if (node.inputs.size() > 8 && graph.values[node.inputs[0]].dims[0] > 1) node.inputs.resize(6);
  });
}

Mutation norms_read_what_is_written_later() {
  return edits_layers([](GraphCopy& graph) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].fields.op != QUERN_OP_RMS_NORM) continue;
      const std::uint32_t x = root_of(graph, graph.nodes[n].inputs[0]);
      // To the place right behind the write, where no one reads the norm before.
      for (std::size_t at = n + 1; at < graph.nodes.size(); ++at) {
        const NodeCopy& other = graph.nodes[at];
        if (std::ranges::find(other.inputs, graph.nodes[n].outputs[0]) != other.inputs.end()) break;
        if (other.fields.op != QUERN_OP_ADD || root_of(graph, other.outputs[0]) != x) continue;
        std::rotate(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n), graph.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1,
                    graph.nodes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        break;
      }
    }
  });
}

Mutation adapters_of_values_are_skipped() {
  return edits_layer_nodes(QUERN_OP_LORA_MATMUL, [](const GraphCopy& graph, NodeCopy& node) {  // of what is written to a cache as it is
    const bool cached = std::ranges::any_of(graph.nodes, [&](const NodeCopy& other) {
      return other.fields.op == QUERN_OP_KV_WRITE && root_of(graph, other.inputs[0]) == root_of(graph, node.outputs[0]);
    });
    if (cached) node.attributes.push_back({QUERN_KEY_ALPHA, QUERN_ATTR_F64, 0, 0});
  });
}

Mutation extents_change_places() {
  return edits_layers([](GraphCopy& graph) {
    if (!has_two_extents(graph)) return;
    for (quern_value& value : graph.values)
      if (value.symbols[0] != 0) value.symbols[0] = 3 - value.symbols[0];
  });
}

Mutation outputs_are_all_rows() {
  return edits_layers([](GraphCopy& graph) {
    if (!has_two_extents(graph)) return;
    for (const NodeCopy& node : graph.nodes)
      if (node.fields.op == QUERN_OP_GET_ROWS && graph.values[node.inputs[0]].symbols[0] != 0) skip(graph, node);
    for (quern_value& value : graph.values)
      if (value.symbols[0] != 0) value.symbols[0] = 1;
  });
}

Mutation first_output_is_of_the_first_row() {
  Mutation m = edits_input(QUERN_OP_GET_ROWS, 1, [](const NodeRun& node) {
    if (node.input(0).absent()) node.input(1).set(0, 0);  // not of a table that the host has
  });
  m.needs_inputs = m.needs_outputs = false;
  m.first_rows = true;
  return m;
}

}  // namespace quern::mutant
