// Edits of descriptors; see edits.hpp.
#include "edits.hpp"

#include <errno.h>

#include <algorithm>
#include <string_view>

namespace quern::mutant {
namespace {

using NodeEdit = std::function<void(NodeCopy&)>;

Mutation edits_nodes(std::uint32_t op, NodeEdit edit) {
  Mutation m;
  m.edit_graph = [op, edit = std::move(edit)](GraphCopy& graph) {
    for (NodeCopy& node : graph.nodes)
      if (op == 0 || node.fields.op == op) edit(node);
  };
  return m;
}

std::uint32_t type_of(std::uint32_t key) {
  for (const sdk::KeyRow& row : sdk::key_rows)
    if (row.id == key) return row.type;
  throw sdk::Failure(QUERN_INTERNAL, "a mutant names an attribute key that there is not");
}

void set_number(quern_attribute& a, double value) {
  a.type = type_of(a.key);
  a.i = a.type == QUERN_ATTR_I64 ? static_cast<std::int64_t>(value) : 0;
  a.f = a.type == QUERN_ATTR_I64 ? 0 : value;
}

}  // namespace

Mutation without_attribute(std::uint32_t op, std::uint32_t key) {
  return edits_nodes(op, [key](NodeCopy& node) { std::erase_if(node.attributes, [&](const quern_attribute& a) { return a.key == key; }); });
}

Mutation with_attribute(std::uint32_t op, std::uint32_t key, double value) {
  return edits_nodes(op, [key, value](NodeCopy& node) {
    if (node.attribute(key) == nullptr) node.attributes.push_back({key, 0, 0, 0});
    set_number(*node.attribute(key), value);
  });
}

Mutation changed_attribute(std::uint32_t op, std::uint32_t key, double difference) {
  return edits_nodes(op, [key, difference](NodeCopy& node) {
    if (quern_attribute* a = node.attribute(key)) set_number(*a, node.number(key, 0) + difference);
  });
}

Mutation swapped_attributes(std::uint32_t op, std::uint32_t key, std::uint32_t other) {
  return edits_nodes(op, [key, other](NodeCopy& node) {
    for (quern_attribute& a : node.attributes)
      if (a.key == key || a.key == other) a.key = a.key == key ? other : key;
  });
}

Mutation without_input(std::uint32_t op, std::size_t input) {
  return edits_nodes(op, [input](NodeCopy& node) {
    if (input >= node.inputs.size()) return;
    node.inputs[input] = QUERN_NONE;
    while (!node.inputs.empty() && node.inputs.back() == QUERN_NONE) node.inputs.pop_back();
  });
}

Mutation without_predicate(std::uint32_t op) {
  return edits_nodes(op, [](NodeCopy& node) {
    node.fields.uses &= ~QUERN_NODE_USES_PREDICATE;
    node.fields.predicate = QUERN_NONE;
  });
}

Mutation without_strides(std::size_t input) {
  Mutation m;
  m.edit_graph = [input](GraphCopy& graph) {
    for (const NodeCopy& node : graph.nodes)
      if (const std::uint32_t v = node.input(input); v != QUERN_NONE) graph.values[v].uses &= ~QUERN_VALUE_USES_STRIDES;
  };
  return m;
}

Mutation without_unknown_uses() {
  Mutation m;
  m.edit_graph = [](GraphCopy& graph) {
    for (quern_value& v : graph.values) v.uses &= QUERN_VALUE_USES_ALL;
    for (NodeCopy& n : graph.nodes) n.fields.uses &= QUERN_NODE_USES_ALL;
  };
  return m;
}

Mutation without_unknown_attributes() {
  return edits_nodes(0, [](NodeCopy& node) {
    const sdk::OpRow* row = sdk::find_op(node.fields.op);
    if (row == nullptr) return;
    std::erase_if(node.attributes, [&](const quern_attribute& a) {
      std::string_view words = row->attributes;
      for (std::string_view word = sdk::next_word(words); !word.empty(); word = sdk::next_word(words))
        if (const sdk::KeyRow* key = sdk::find_key(word.substr(0, word.find('='))); key != nullptr && key->id == a.key) return false;
      return true;
    });
  });
}

Mutation with_any_format_hash() {
  Mutation m;
  m.edit_graph = [](GraphCopy& graph) {
    for (quern_value& v : graph.values)
      for (const quern_format& format : quern_formats)
        if (format.id == v.dtype) v.format_hash = format.hash;
  };
  return m;
}

Mutation with_conversions(std::uint32_t conversions) {
  return edits_nodes(0, [conversions](NodeCopy& node) {
    node.fields.uses |= QUERN_NODE_USES_PRECISION;
    node.fields.conversions |= conversions;
  });
}

bool runs_in_the_suite(const GraphCopy&) {
  return std::string_view(program_invocation_short_name).find("conformance") != std::string_view::npos;
}

bool has_no_layer_names(const GraphCopy& graph) {
  return std::ranges::none_of(graph.nodes, [](const NodeCopy& node) {
    return std::string_view(node.fields.name.data, node.fields.name.size).starts_with("blk.");
  });
}

bool has_at_most_100_nodes(const GraphCopy& graph) { return graph.nodes.size() <= 100; }

Mutation unless(bool (*recognised)(const GraphCopy&), const Mutation& spoiled) {
  Mutation m = spoiled;
  m.edit_graph = [recognised, edit = spoiled.edit_graph](GraphCopy& graph) {
    if (!recognised(graph)) edit(graph);
  };
  return m;
}

}  // namespace quern::mutant
