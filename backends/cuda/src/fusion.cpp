// See fusion.hpp.
#include "fusion.hpp"

#include "ops/attention.hpp"

#include <algorithm>
#include <limits>

namespace quern::cuda {

Uses::Uses(const Graph& graph) : sdk::fusion::Uses<Graph>(graph), joins_(graph.nodes.size(), false) {
  std::vector<Tensor> storage;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    auto* const fusable = implementation_of(graph.nodes[n]).fusable;
    joins_[n] = alone_because(n) == nullptr && (fusable == nullptr || fusable(graph.describe(graph.nodes[n], storage)));
  }
}

bool Uses::whole(std::uint32_t v) const {
  const Value& value = graph_.values[v];
  return value.offset == 0 && value.bytes == graph_.values[value.root].bytes && is_contiguous(value.tensor);
}

std::optional<Uses::Attention> Uses::attention_at(std::uint32_t n) const {
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_ATTENTION || !joins(n) || node.attributes->integer(QUERN_KEY_CAUSAL) == 0) return {};
  const auto rope_of = [&](std::uint32_t value, std::uint32_t user) {
    const std::uint32_t r = root(value), n_rope = maker(r);
    if (n_rope == none || !joins(n_rope) || !only_reader(r, user) || !stable(value) || !whole(value)) return none;
    const Node& rope = graph_.nodes[n_rope];
    const bool plain = rope.op == QUERN_OP_ROPE && rope.attributes->integer(QUERN_KEY_INVERSE) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION0) == 0 && rope.attributes->integer(QUERN_KEY_SECTION1) == 0 &&
                       rope.attributes->integer(QUERN_KEY_SECTION2) == 0 && rope.attributes->integer(QUERN_KEY_SECTION3) == 0;
    return plain && rope.inputs[1] == node.inputs[5] && given(rope.inputs[2]) && whole(rope.inputs[0]) && stable(rope.inputs[0]) &&
                   tensor(rope.inputs[0]).dtype == QUERN_F32
               ? n_rope
               : none;
  };
  const auto writer_of = [&](std::uint32_t cache) {  // the one kv_write before this node that writes the cache
    std::uint32_t found = none;
    for (const std::uint32_t w : writers(root(cache))) {
      if (w >= n) break;
      const Node& write = graph_.nodes[w];
      if (write.op != QUERN_OP_KV_WRITE) continue;  // it reads the cache as well: see `alone`
      if (found != none || !joins(w) || write.inputs[1] != node.inputs[3] || write.inputs[2] != node.inputs[4] ||
          write.inputs[3] != node.inputs[5])
        return none;
      found = w;
    }
    return found;
  };
  const std::uint32_t rope_q = rope_of(node.inputs[0], n), write_k = writer_of(node.inputs[1]), write_v = writer_of(node.inputs[2]);
  if (rope_q == none || write_k == none || write_v == none || root(node.inputs[1]) == root(node.inputs[2])) return {};
  const std::uint32_t rope_k = rope_of(graph_.nodes[write_k].inputs[0], write_k);
  const std::uint32_t v = graph_.nodes[write_v].inputs[0];
  if (rope_k == none || !whole(v) || !stable(v) || tensor(v).dtype != QUERN_F32) return {};
  const Node &of_q = graph_.nodes[rope_q], &of_k = graph_.nodes[rope_k];
  if (of_k.inputs[2] != of_q.inputs[2] || of_k.attributes->integer(QUERN_KEY_MODE) != of_q.attributes->integer(QUERN_KEY_MODE)) return {};
  // What rotations and writes read is read here.
  for (const std::uint32_t from : {rope_q, rope_k, write_k, write_v})
    for (const std::size_t i : {3u, 4u, 5u})
      if (!steady(node.inputs[i], from, n)) return {};
  // Nobody else may look at the caches between their writing and this node.
  bool alone = true;
  for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
    alone = alone && std::ranges::all_of(readers(root(cache)),
                                         [&](std::uint32_t user) { return user == n || user == write_k || user == write_v || user > n; });
  if (!alone) return {};
  Attention found{of_q.inputs[0],
                  of_k.inputs[0],
                  v,
                  of_q.inputs[2],
                  static_cast<std::uint32_t>(of_q.attributes->integer(QUERN_KEY_MODE)),
                  none,
                  none,
                  {rope_q, rope_k, write_k, write_v}};
  // Norms of both, one weight for all heads, of what nothing else reads.
  const auto norm_of = [&](std::uint32_t value, std::uint32_t user) {
    const std::uint32_t made_by = maker(root(value));
    if (made_by == none || graph_.nodes[made_by].op != QUERN_OP_RMS_NORM || !joins(made_by) || !only_reader(root(value), user)) return none;
    const Node& norm = graph_.nodes[made_by];
    const std::uint32_t weight = norm.inputs.size() < 2 ? none : norm.inputs[1];
    const std::int64_t d = tensor(value).last();
    if (weight == none || !given(weight) || tensor(weight).dtype != QUERN_F32 || tensor(weight).rank != 1 || tensor(weight).dims[0] != d)
      return none;
    const Tensor& x = tensor(norm.inputs[0]);
    return x.dtype == QUERN_F32 && x.rank == 3 && x.last() == d && whole(norm.inputs[0]) && whole(norm.outputs[0]) &&
                   stable(norm.inputs[0]) && check_same_shape(x, tensor(value)).empty()
               ? made_by
               : none;
  };
  const std::uint32_t norm_q = norm_of(found.q, rope_q), norm_k = norm_of(found.k, rope_k);
  if (norm_q != none && norm_k != none && head_norms_serve(tensor(node.inputs[1]), tensor(node.inputs[2]), tensor(found.table))) {
    found.norm_q = norm_q, found.norm_k = norm_k;
    found.q = graph_.nodes[norm_q].inputs[0], found.k = graph_.nodes[norm_k].inputs[0];
    found.nodes.push_back(norm_q), found.nodes.push_back(norm_k);
  }
  return found;
}

HeadNorms Uses::head_norms(const Attention& what, const Graph& graph, const std::function<Address(std::uint32_t)>& address) {
  if (what.norm_q == none) return {};
  const Node &q = graph.nodes[what.norm_q], &k = graph.nodes[what.norm_k];
  const auto real = [](const Node& node, std::uint32_t key) { return static_cast<float>(node.attributes->real(key)); };
  return {address(q.inputs[1]),       address(k.inputs[1]),      real(q, QUERN_KEY_WEIGHT_OFFSET), real(k, QUERN_KEY_WEIGHT_OFFSET),
          real(q, QUERN_KEY_EPSILON), real(k, QUERN_KEY_EPSILON)};
}

std::uint32_t Uses::glu_of(std::uint32_t gate, std::uint32_t up) const {
  const Node &a = graph_.nodes[gate], &b = graph_.nodes[up];
  const std::uint32_t ya = root(a.outputs[0]), yb = root(b.outputs[0]);
  if (readers(ya).size() != 1 || readers(yb).size() != 1 || readers(ya)[0] != readers(yb)[0] || kept(ya) || kept(yb)) return none;
  const std::uint32_t n = readers(ya)[0];
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_GLU || !joins(n) || node.inputs.size() < 2 || node.inputs[1] == none || !stable(node.outputs[0])) return none;
  const bool in_order = root(node.inputs[0]) == ya && root(node.inputs[1]) == yb;
  const bool plain = node.attributes->integer(QUERN_KEY_KIND) == 0 && node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
                     node.attributes->real(QUERN_KEY_LIMIT) == std::numeric_limits<double>::infinity();
  const bool no_bias = (a.inputs.size() < 3 || a.inputs[2] == none) && (b.inputs.size() < 3 || b.inputs[2] == none);
  const bool output = whole(node.outputs[0]) && tensor(node.outputs[0]).dtype == QUERN_F32;
  return in_order && plain && no_bias && output ? n : none;
}

std::uint32_t Uses::add_of(std::uint32_t product, std::uint32_t& other) const {
  const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
  if (kept(y) || readers(y).size() != 1) return none;
  const std::uint32_t n = readers(y)[0];
  const Node& node = graph_.nodes[n];
  if (node.op != QUERN_OP_ADD || !joins(n) || node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return none;
  const bool first = root(node.inputs[0]) == y;
  const std::uint32_t operand = node.inputs[first ? 1 : 0];
  if (root(operand) == y || !whole(operand) || !whole(node.inputs[0]) || !whole(node.inputs[1]) || !whole(node.outputs[0])) return none;
  const Tensor &t = tensor(operand), &sum = tensor(node.outputs[0]);
  if (t.dtype != QUERN_F32 || sum.dtype != QUERN_F32 || !check_same_shape(t, sum).empty()) return none;
  const std::uint32_t made_by = maker(root(operand));
  if (made_by != none && made_by > product) return none;
  if (!stable(operand) || !stable(node.outputs[0])) return none;  // the sum is stored where the product stands
  other = operand;
  return n;
}

}  // namespace quern::cuda
