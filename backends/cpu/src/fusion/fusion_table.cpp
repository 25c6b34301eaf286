// The list of fusions, and what all of them have to respect.
#include "fusion.hpp"

#include "tables.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

/// Outputs lie apart from each other and from whatever the step reads of earlier nodes: a step may write before it has read all.
bool outputs_lie_apart(const Graph& graph, std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> written;
  for (std::uint32_t n = first; n < first + count; ++n) {
    for (const std::uint32_t id : graph.nodes[n].outputs) {
      if (id == QUERN_NONE) continue;
      const std::uint32_t root = graph.values[id].root;
      if (std::ranges::find(written, root) != written.end()) return false;
      for (std::uint32_t before = first; before <= n; ++before)
        for (const std::uint32_t read : graph.nodes[before].inputs)
          if (read != QUERN_NONE && graph.values[read].root == root) return false;
      written.push_back(root);
    }
  }
  return true;
}

bool has_predicate(const Graph& graph, std::uint32_t first, std::uint32_t count) noexcept {
  const auto nodes = std::span(graph.nodes).subspan(first, count);
  return std::ranges::any_of(nodes, [](const Node& node) { return node.predicate != QUERN_NONE; });
}

}  // namespace

std::span<const std::span<const Fusion>> fusion_tables() noexcept {
  static const std::span<const Fusion> tables[] = {matmul_glu_fusions, matmul_id_glu_fusions, norm_matmul_fusions, matmul_add_fusions,
                                                   rope_kv_write_fusions};
  return tables;
}

bool touched_within(const Uses& uses, std::uint32_t root, std::uint32_t first, std::uint32_t count) noexcept {
  if (uses.kept(root)) return false;
  for (const auto* nodes : {&uses.readers(root), &uses.writers(root)})
    if (!nodes->empty() && (nodes->front() < first || nodes->back() >= first + count)) return false;
  return true;
}

std::uint32_t Neighbours::input(std::uint32_t node, std::size_t i) const noexcept {
  const auto& ids = graph.nodes[node].inputs;
  return i < ids.size() ? ids[i] : QUERN_NONE;
}
std::uint32_t Neighbours::output(std::uint32_t node, std::size_t i) const noexcept {
  const auto& ids = graph.nodes[node].outputs;
  return i < ids.size() ? ids[i] : QUERN_NONE;
}
bool Neighbours::inner(std::uint32_t node, std::uint32_t first, std::uint32_t count) const noexcept {
  return touched_within(uses, uses.root(output(node, 0)), first, count);
}

Match find_fusion(const Neighbours& nodes, std::uint32_t first) {
  Match none;
  for (const std::span<const Fusion> table : fusion_tables())
    for (const Fusion& fusion : table) {
      Refusal refusal;
      const std::uint32_t count = fusion.match(nodes, first, refusal);
      if (count > 1) {
        if (has_predicate(nodes.graph, first, count)) refusal = {"a node of them runs under a condition", count};
        else if (!outputs_lie_apart(nodes.graph, first, count)) refusal = {"a node of them writes what another one reads or writes", count};
        else return {&fusion, count};
      }
      if (refusal.reason == nullptr || none.refusal.reason != nullptr) continue;
      none.refusal = refusal;
      none.rule = fusion.name;
      none.rule = none.rule.substr(0, none.rule.find('.'));
    }
  return none;
}

bool any_fusion_takes(std::uint32_t op) noexcept {
  for (const std::uint32_t of :
       {QUERN_OP_MATMUL, QUERN_OP_MATMUL_ID, QUERN_OP_GLU, QUERN_OP_ADD, QUERN_OP_RMS_NORM, QUERN_OP_ROPE, QUERN_OP_KV_WRITE})
    if (op == of) return true;
  return false;
}

}  // namespace quern::cpu
