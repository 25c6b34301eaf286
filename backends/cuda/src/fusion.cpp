// See fusion.hpp.
#include "fusion.hpp"

#include <algorithm>
#include <limits>

namespace quern::cuda {

Uses::Uses(const Graph& graph) : graph_(graph), users_(graph.values.size()), maker_(graph.values.size(), none), cache_writers_(graph.values.size()) {
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::uint32_t v : graph.nodes[n].inputs)
      if (v != none) users_[root(v)].push_back(n);
    for (const std::uint32_t v : graph.nodes[n].outputs)
      if (v != none) maker_[root(v)] = n;
    if (graph.nodes[n].op == QUERN_OP_KV_WRITE) cache_writers_[root(graph.nodes[n].outputs[0])].push_back(n);
  }
}

bool Uses::whole(std::uint32_t v) const {
  const Value& value = graph_.values[v];
  return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && value.tensor.contiguous();
}

bool Uses::only_user(std::uint32_t r, std::uint32_t node) const {
  return !kept(r) && std::ranges::all_of(users_[r], [&](std::uint32_t n) { return n == node; });
}

std::optional<Uses::Attention> Uses::attention_at(std::uint32_t n) const {
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_ATTENTION || node.attributes->integer(QUERN_KEY_CAUSAL) == 0) return {};
  const auto rope_of = [&](std::uint32_t value, std::uint32_t user) -> const Node* {
    const std::uint32_t r = root(value), maker = maker_[r];
    if (maker == none || !only_user(r, user) || !whole(value)) return nullptr;
    const Node& rope = graph_.nodes[maker];
    const bool plain = rope.op == QUERN_OP_ROPE && rope.attributes->integer(QUERN_KEY_INVERSE) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION0) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION1) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION2) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION3) == 0;
    return plain && rope.inputs[1] == node.inputs[5] && whole(rope.inputs[0]) &&
                   tensor(rope.inputs[0]).dtype == QUERN_F32
               ? &rope
               : nullptr;
  };
  const auto writer_of = [&](std::uint32_t cache) {  // the one kv_write before this node that writes the cache
    std::uint32_t found = none;
    for (const std::uint32_t w : cache_writers_[root(cache)]) {
      if (w >= n) break;
      const Node& write = graph_.nodes[w];
      if (found != none || write.inputs[1] != node.inputs[3] || write.inputs[2] != node.inputs[4] || write.inputs[3] != node.inputs[5])
        return none;
      found = w;
    }
    return found;
  };
  const Node* rope_q = rope_of(node.inputs[0], n);
  const std::uint32_t write_k = writer_of(node.inputs[1]), write_v = writer_of(node.inputs[2]);
  if (rope_q == nullptr || write_k == none || write_v == none || root(node.inputs[1]) == root(node.inputs[2])) return {};
  const Node* rope_k = rope_of(graph_.nodes[write_k].inputs[0], write_k);
  const std::uint32_t v = graph_.nodes[write_v].inputs[0];
  if (rope_k == nullptr || !whole(v) || tensor(v).dtype != QUERN_F32) return {};
  if (rope_k->inputs[2] != rope_q->inputs[2] ||
      rope_k->attributes->integer(QUERN_KEY_MODE) != rope_q->attributes->integer(QUERN_KEY_MODE))
    return {};
  // Nobody else may look at the caches between their writing and this node.
  bool alone = true;
  for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
    alone = alone && std::ranges::all_of(users_[root(cache)], [&](std::uint32_t user) {
              return user == n || user == write_k || user == write_v || user > n;
            });
  if (!alone) return {};
  return Attention{rope_q->inputs[0],
                   rope_k->inputs[0],
                   v,
                   rope_q->inputs[2],
                   static_cast<std::uint32_t>(rope_q->attributes->integer(QUERN_KEY_MODE)),
                   {maker_[root(node.inputs[0])], maker_[root(graph_.nodes[write_k].inputs[0])], write_k, write_v}};
}

std::uint32_t Uses::glu_of(std::uint32_t gate, std::uint32_t up) const {
  const Node &a = graph_.nodes[gate], &b = graph_.nodes[up];
  const std::uint32_t ya = root(a.outputs[0]), yb = root(b.outputs[0]);
  if (users_[ya].size() != 1 || users_[yb].size() != 1 || users_[ya][0] != users_[yb][0] || kept(ya) || kept(yb)) return none;
  const std::uint32_t n = users_[ya][0];
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_GLU || node.inputs.size() < 2 || node.inputs[1] == none) return none;
  const bool in_order = root(node.inputs[0]) == ya && root(node.inputs[1]) == yb;
  const bool plain = node.attributes->integer(QUERN_KEY_KIND) == 0 && node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
                     node.attributes->real(QUERN_KEY_LIMIT) == std::numeric_limits<double>::infinity();
  const bool no_bias = (a.inputs.size() < 3 || a.inputs[2] == none) && (b.inputs.size() < 3 || b.inputs[2] == none);
  const bool output = whole(node.outputs[0]) && tensor(node.outputs[0]).dtype == QUERN_F32;
  return in_order && plain && no_bias && output ? n : none;
}

std::uint32_t Uses::add_of(std::uint32_t product, std::uint32_t& other) const {
  const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
  if (kept(y) || users_[y].size() != 1) return none;
  const std::uint32_t n = users_[y][0];
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_ADD || node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return none;
  const bool first = root(node.inputs[0]) == y;
  const std::uint32_t operand = node.inputs[first ? 1 : 0];
  if (root(operand) == y || !whole(operand) || !whole(node.inputs[0]) || !whole(node.inputs[1]) || !whole(node.outputs[0])) return none;
  const Tensor &t = tensor(operand), &sum = tensor(node.outputs[0]);
  if (t.dtype != QUERN_F32 || sum.dtype != QUERN_F32 || !check_same(t, sum).empty()) return none;
  const std::uint32_t maker = maker_[root(operand)];
  if (maker != none && maker > product) return none;
  other = operand;
  return n;
}

}  // namespace quern::cuda
