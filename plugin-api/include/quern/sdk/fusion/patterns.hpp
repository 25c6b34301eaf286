// Patterns of nodes that fused kernels of most backends stand for, each in one place. They are:
//
//   attention with its norms, rotations and cache writes
//   gated activations of two products, or of the halves of one
//   residual sums, and norms with a sum behind
//   products of chosen experts
//
// A recogniser finds the nodes and asks whatever makes them one step: who else reads what lies between, views, what is written in place. Some
// say in words why they find nothing. What kernels a backend has, it asks itself of what was found; two questions that a recogniser needs
// answered in between are virtual.
//
//   struct Rules : sdk::fusion::Patterns<Graph> { ... };
//   if (const auto found = rules.attention_at(n, &why)) ...
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_PATTERNS_HPP
#define QUERN_SDK_FUSION_PATTERNS_HPP

#include "quern/sdk/calls.hpp"
#include "quern/sdk/fusion/uses.hpp"

#include <limits>

namespace quern {
namespace sdk {
namespace fusion {

/// In words, why a rule does not take a node: what plan_info says of a node that stands alone. Null: the rule takes it.
using Refusal = const char*;

/// `G`: as of Uses, with `values[].tensor`, `offset` and `bytes`, and `nodes[].attributes` to ask for numbers by key.
template <class G>
class Patterns : public Uses<G> {
 public:
  using Uses<G>::none;
  using Uses<G>::root;
  using Uses<G>::readers;
  using Uses<G>::writers;
  using Uses<G>::maker;
  using Uses<G>::kept;
  using Uses<G>::only_reader;
  using Uses<G>::given;
  using Uses<G>::stable;
  using Uses<G>::steady;
  using Uses<G>::whole;
  using Uses<G>::columns_of;

  explicit Patterns(const G& graph) : Uses<G>(graph) {
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) refusals_.push_back(this->alone_because(n));
  }
  virtual ~Patterns() = default;

  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// Whether a node may be part of a step with others. Others run by themselves within the same schedule.
  bool joins(std::uint32_t n) const { return refusals_[n] == nullptr; }
  /// Why not.
  Refusal why_alone(std::uint32_t n) const { return refusals_[n]; }

  /// The rotation that makes a value by these positions, neither inverse nor in sections, of packed f32; or none.
  std::uint32_t rotation_of(std::uint32_t value, std::uint32_t positions, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    const std::uint32_t n = maker(root(value));
    if (n == none || graph_.nodes[n].op != QUERN_OP_ROPE) return no("its queries or keys come from no rotation");
    if (!joins(n)) return no(why_alone(n));
    if (!whole(value)) return no("rotated queries or keys are a part of a value or a strided view");
    const auto& node = graph_.nodes[n];
    if (node.attributes->integer(QUERN_KEY_INVERSE) != 0) return no("a rotation before it is inverse");
    for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
      if (node.attributes->integer(key) != 0) return no("a rotation before it has sections");
    if (node.inputs[1] != positions) return no("a rotation before it has other positions");
    if (tensor(node.inputs[0]).dtype != QUERN_F32) return no("its queries or keys are not f32");
    return columns_of(node.inputs[0]) ? n : no("what a rotation reads is no packed part of each row");
  }
  /// The one kv_write before an attention node that writes a cache, under its table of pages, slots and positions; or none.
  std::uint32_t cache_write_of(std::uint32_t cache, std::uint32_t attention, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    std::uint32_t found = none;
    for (const std::uint32_t w : writers(root(cache))) {
      if (w >= attention) break;
      const auto& write = graph_.nodes[w];
      if (write.op != QUERN_OP_KV_WRITE) return no("another node before it writes its cache");
      if (found != none) return no("two nodes before it write one cache");
      if (!joins(w)) return no(why_alone(w));
      for (std::size_t i = 1; i <= 3; ++i)
        if (write.inputs[i] != graph_.nodes[attention].inputs[i + 2])
          return no("a cache is written under another table of pages, other slots or positions");
      found = w;
    }
    return found != none ? found : no("no node before it writes its cache");
  }

  /// An attention node whose queries and keys are rotated for it alone, by one table, and whose keys and values are written to the cache
  /// just before it: it and these four nodes can run as one or two kernels. Norms of queries and keys, of each head by one weight for
  /// all or of all heads together, are part of them too. Queries, keys and values may be columns of one product.
  struct Attention {
    std::uint32_t q, k, v, table, mode;  // f32 values before norm and rotation
    std::uint32_t norm_q, norm_k;        // nodes, or none
    bool norm_rows;                      // the norms are of all heads together
    std::vector<std::uint32_t> nodes;    // the norms, the rotations and the writes
    Refusal why_no_norms = nullptr;      // why norms before the rotations are not part of it
  };
  /// `why`: of none, what was in the way.
  std::optional<Attention> attention_at(std::uint32_t n, Refusal* why = nullptr) const {
    const auto& node = graph_.nodes[n];
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return std::nullopt;
    };
    if (node.op != QUERN_OP_ATTENTION) return no("it is no attention");
    if (!joins(n)) return no(why_alone(n));
    if (node.attributes->integer(QUERN_KEY_CAUSAL) == 0) return no("it is not causal");
    Refusal inner = nullptr;
    const auto rope_of = [&](std::uint32_t value, std::uint32_t user) {
      const auto not_this = [&](Refusal reason) {
        inner = reason;
        return none;
      };
      const std::uint32_t n_rope = rotation_of(value, node.inputs[5], &inner);
      if (n_rope == none) return none;
      if (!only_reader(root(value), user)) return not_this("rotated queries or keys are read by another node too");
      if (!stable(value)) return not_this("rotated queries or keys are written in place");
      if (!given(graph_.nodes[n_rope].inputs[2])) return not_this("a rotation before it has a table that is made in the graph");
      if (!stable(graph_.nodes[n_rope].inputs[0])) return not_this("what a rotation reads is written in place");
      return n_rope;
    };
    const std::uint32_t rope_q = rope_of(node.inputs[0], n);
    if (rope_q == none) return no(inner);
    const std::uint32_t write_k = cache_write_of(node.inputs[1], n, &inner);
    if (write_k == none) return no(inner);
    const std::uint32_t write_v = cache_write_of(node.inputs[2], n, &inner);
    if (write_v == none) return no(inner);
    if (root(node.inputs[1]) == root(node.inputs[2])) return no("keys and values lie in one cache");
    const std::uint32_t rope_k = rope_of(graph_.nodes[write_k].inputs[0], write_k);
    if (rope_k == none) return no(inner);
    const std::uint32_t v = graph_.nodes[write_v].inputs[0];
    if (tensor(v).dtype != QUERN_F32) return no("its values are not f32");
    if (!columns_of(v)) return no("its values are no packed part of each row");
    if (!stable(v)) return no("its values are written in place");
    const auto &of_q = graph_.nodes[rope_q], &of_k = graph_.nodes[rope_k];
    if (of_k.inputs[2] != of_q.inputs[2] || of_k.attributes->integer(QUERN_KEY_MODE) != of_q.attributes->integer(QUERN_KEY_MODE))
      return no("queries and keys are rotated by other tables or in other pairs");
    // What rotations and writes read is read here.
    for (const std::uint32_t from : {rope_q, rope_k, write_k, write_v})
      for (const std::size_t i : {3u, 4u, 5u})
        if (!steady(node.inputs[i], from, n)) return no("pages, slots or positions are written between a write of the cache and it");
    // Nobody else may look at the caches between their writing and this node.
    bool alone = true;
    for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
      alone = alone &&
              all_of(readers(root(cache)), [&](std::uint32_t user) { return user == n || user == write_k || user == write_v || user > n; });
    if (!alone) return no("another node before it reads its cache");
    Attention found{of_q.inputs[0],
                    of_k.inputs[0],
                    v,
                    of_q.inputs[2],
                    static_cast<std::uint32_t>(of_q.attributes->integer(QUERN_KEY_MODE)),
                    none,
                    none,
                    false,
                    {rope_q, rope_k, write_k, write_v}};
    // Norms of both, of what nothing else reads: of each head by one weight for all, or of all heads together.
    const auto norm_of = [&](std::uint32_t value, std::uint32_t user, bool rows) {
      const auto not_this = [&](Refusal reason) {
        inner = reason;
        return none;
      };
      const std::uint32_t made_by = maker(root(value));
      if (made_by == none || graph_.nodes[made_by].op != QUERN_OP_RMS_NORM) return not_this("queries and keys have not both a norm");
      if (!joins(made_by)) return not_this(why_alone(made_by));
      if (!only_reader(root(value), user)) return not_this("the result of the norm is read by another node too");
      const auto& norm = graph_.nodes[made_by];
      const std::uint32_t weight = norm.inputs.size() < 2 ? none : norm.inputs[1];
      const std::int64_t d = rows ? columns_of(value)->of : tensor(value).last();
      if (weight == none) return not_this("the norm has no weight");
      if (!given(weight)) return not_this("the norm's weight is made in the graph");
      if (tensor(weight).dtype != QUERN_F32 || tensor(weight).rank != 1 || tensor(weight).dims[0] != d)
        return not_this("the norm's weight is not one of f32 for all heads");
      const Tensor& x = tensor(norm.inputs[0]);
      if (x.dtype != QUERN_F32 || x.rank != (rows ? 2 : 3) || x.last() != d || x.elements() != tensor(value).elements())
        return not_this("what the norm reads is not heads of f32");
      if (!whole(norm.inputs[0]) || !whole(norm.outputs[0]) || !whole(value))
        return not_this("the norm reads or writes a part of a value or a strided view");
      if (!stable(norm.inputs[0])) return not_this("what the norm reads is written in place");
      return made_by;
    };
    for (const bool rows : {true, false}) {
      const std::uint32_t norm_q = norm_of(found.q, rope_q, rows), norm_k = norm_q == none ? none : norm_of(found.k, rope_k, rows);
      if (norm_q == none || norm_k == none) {
        found.why_no_norms = inner;
        continue;
      }
      if (!head_norms_serve(tensor(node.inputs[1]), tensor(node.inputs[2]), tensor(found.table), rows)) {
        found.why_no_norms = "no kernel norms heads of this size in this cache";
        continue;
      }
      found.why_no_norms = nullptr;
      found.norm_q = norm_q, found.norm_k = norm_k, found.norm_rows = rows;
      found.q = graph_.nodes[norm_q].inputs[0], found.k = graph_.nodes[norm_k].inputs[0];
      found.nodes.push_back(norm_q), found.nodes.push_back(norm_k);
      break;
    }
    return found;
  }
  /// The attention node, and the norms, rotations and writes that lead to it, whether or not they can run as one.
  std::vector<std::uint32_t> around_attention(std::uint32_t n) const {
    std::vector<std::uint32_t> found{n};
    const auto rotation_of = [&](std::uint32_t value) {
      for (const std::uint32_t op : {QUERN_OP_ROPE, QUERN_OP_RMS_NORM}) {
        const std::uint32_t made_by = maker(root(value));
        if (made_by == none || graph_.nodes[made_by].op != op) continue;
        found.push_back(made_by);
        value = graph_.nodes[made_by].inputs[0];
      }
    };
    rotation_of(graph_.nodes[n].inputs[0]);
    for (const std::size_t cache : {1u, 2u})
      for (const std::uint32_t w : writers(root(graph_.nodes[n].inputs[cache]))) {
        if (w >= n || graph_.nodes[w].op != QUERN_OP_KV_WRITE) continue;
        found.push_back(w);
        rotation_of(graph_.nodes[w].inputs[0]);
      }
    return found;
  }

  /// A glu node without limits that can be part of its products.
  struct Glu {
    std::uint32_t node;
    std::int64_t gate, up;  // of columns of one product: where they begin
  };
  /// That whose gate and up are these two products, and nothing else reads them.
  std::optional<Glu> glu_of(std::uint32_t gate, std::uint32_t up, Refusal* why = nullptr) const {
    const auto &a = graph_.nodes[gate], &b = graph_.nodes[up];
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return std::nullopt;
    };
    const std::uint32_t ya = root(a.outputs[0]), yb = root(b.outputs[0]);
    if (readers(ya).size() != 1 || readers(yb).size() != 1 || kept(ya) || kept(yb)) return no("gate or up is read by another node too");
    if (readers(ya)[0] != readers(yb)[0]) return no("gate and up are products of two other nodes");
    const std::uint32_t n = readers(ya)[0];
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_GLU) return no("it is no gated activation");
    if (!joins(n)) return no(why_alone(n));
    if (!has_input(node, 1)) return no("gate and up are halves of one value");
    if (!stable(node.outputs[0])) return no("its result is written in place");
    if (root(node.inputs[0]) != ya || root(node.inputs[1]) != yb) return no("up is multiplied before gate");
    if (!whole(node.inputs[0]) || !whole(node.inputs[1])) return no("gate or up is a part of a product");
    if (!is_plain_glu(node)) return no("its activation has a limit or a factor");
    if (has_input(a, 2) || has_input(b, 2)) return no("gate or up has a bias");
    if (!whole(node.outputs[0]) || tensor(node.outputs[0]).dtype != QUERN_F32) return no("its result is not packed f32");
    return Glu{n, 0, 0};
  }
  /// That whose gate and up are the two halves of this product's columns, and nothing else reads it.
  std::optional<Glu> glu_of_columns(std::uint32_t product, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return std::nullopt;
    };
    const auto& made = graph_.nodes[product];
    const std::uint32_t y = root(made.outputs[0]);
    if (kept(y) || readers(y).empty() || !only_reader(y, readers(y)[0])) return no("the product is read by another node too");
    if (has_input(made, 2)) return no("the product of gate and up has a bias");
    const std::uint32_t n = readers(y)[0];
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_GLU) return no("it is no gated activation");
    if (!is_plain_glu(node)) return no("its activation has a limit or a factor");
    if (!joins(n)) return no(why_alone(n));
    if (!stable(node.outputs[0])) return no("its result is written in place");
    if (!whole(node.outputs[0]) || tensor(node.outputs[0]).dtype != QUERN_F32) return no("its result is not packed f32");
    const Refusal no_halves = "gate and up are not the two halves of a product's columns";
    const std::int64_t half = tensor(node.outputs[0]).last();
    const auto gate = columns_of(node.inputs[0]);
    if (!gate || gate->of != 2 * half || tensor(node.inputs[0]).rank != 2) return no(no_halves);
    if (!has_input(node, 1)) {  // one input has both
      const std::int64_t first = node.attributes->integer(QUERN_KEY_SWAPPED) != 0 ? half : 0;
      if (gate->count != 2 * half) return no(no_halves);
      return Glu{n, first, half - first};
    }
    const auto up = columns_of(node.inputs[1]);
    if (!up || root(node.inputs[0]) != y || root(node.inputs[1]) != y || gate->count != half || up->count != half) return no(no_halves);
    if (gate->first + up->first != half || gate->first == up->first) return no(no_halves);
    return Glu{n, gate->first, up->first};
  }
  /// The activation node that reads this product, and nothing else does; or none.
  std::uint32_t activation_behind(std::uint32_t product) const {
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (kept(y) || readers(y).size() != 1) return none;
    const std::uint32_t n = readers(y)[0];
    const auto& node = graph_.nodes[n];
    const bool activation = node.op == QUERN_OP_GELU || node.op == QUERN_OP_SILU || node.op == QUERN_OP_RELU;
    return activation && joins(n) && stable(node.outputs[0]) && whole(node.inputs[0]) && whole(node.outputs[0]) &&
                   tensor(node.outputs[0]).dtype == QUERN_F32
               ? n
               : none;
  }
  /// The add node that sums the result of a node with another value `other`, both packed f32 of one shape, and nothing else reads it; or none.
  std::uint32_t sum_of(std::uint32_t summand, std::uint32_t& other, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    const std::uint32_t y = root(graph_.nodes[summand].outputs[0]);
    if (kept(y) || readers(y).size() != 1) return no("the product is read by another node too");
    const std::uint32_t n = readers(y)[0];
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_ADD) return no("it is no sum");
    if (!joins(n)) return no(why_alone(n));
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return no("an operand has a factor");
    const std::uint32_t operand = node.inputs[root(node.inputs[0]) == y ? 1 : 0];
    if (root(operand) == y) return no("both operands are the product");
    if (!whole(operand) || !whole(node.inputs[0]) || !whole(node.inputs[1]) || !whole(node.outputs[0]))
      return no("it reads or writes a part of a value or a strided view");
    const Tensor &t = tensor(operand), &sum = tensor(node.outputs[0]);
    if (t.dtype != QUERN_F32 || sum.dtype != QUERN_F32 || !same_shape(t, sum)) return no("its operands are not f32 of one shape");
    other = operand;
    return n;
  }
  /// The same where `other` is there before node `from`, or a step before it has stored it: `made` of its node.
  std::uint32_t add_of(std::uint32_t summand, std::uint32_t from, const std::vector<bool>& made, std::uint32_t& other,
                       Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    std::uint32_t operand = none;
    const std::uint32_t n = sum_of(summand, operand, why);
    if (n == none) return none;
    const std::uint32_t made_by = maker(root(operand));
    if (made_by != none && made_by > from && !made[made_by]) return no("its other operand is made behind the product");
    // The sum is stored where the product stands.
    if (!stable(operand) || !stable(graph_.nodes[n].outputs[0])) return no("its other operand or its result is written in place");
    other = operand;
    return n;
  }

  /// Whether a kernel makes this norm, rms or layer, from a packed row of f32 at another place than the node's.
  bool row_norm(std::uint32_t n) const {
    const auto& node = graph_.nodes[n];
    if ((node.op != QUERN_OP_RMS_NORM && node.op != QUERN_OP_LAYER_NORM) || !joins(n) || !has_input(node, 1) || !given(node.inputs[1]))
      return false;
    if (node.op == QUERN_OP_LAYER_NORM && has_input(node, 2) && !given(node.inputs[2])) return false;
    const Tensor& x = tensor(node.inputs[0]);
    return x.dtype == QUERN_F32 && x.rank == 2 && row_norm_serves(x) && whole(node.inputs[0]) && stable(node.inputs[0]) &&
           whole(node.outputs[0]) && stable(node.outputs[0]) && tensor(node.outputs[0]).dtype == QUERN_F32;
  }
  /// An add node that sums a value with the rms norm of another, which nothing else reads.
  struct NormedSum {
    std::uint32_t norm, input, other;  // the norm's node and input; what is added to it
  };
  std::optional<NormedSum> normed_sum_at(std::uint32_t add) const {
    const auto& node = graph_.nodes[add];
    if (node.op != QUERN_OP_ADD || !joins(add) || node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return {};
    const Tensor& sum = tensor(node.outputs[0]);
    if (sum.dtype != QUERN_F32 || !whole(node.outputs[0]) || !stable(node.outputs[0])) return {};
    for (const std::size_t i : {0u, 1u}) {
      const std::uint32_t normed = node.inputs[i], other = node.inputs[1 - i], norm = maker(root(normed));
      if (norm == none || graph_.nodes[norm].op != QUERN_OP_RMS_NORM || !row_norm(norm) || !only_reader(root(normed), add) ||
          readers(root(normed)).size() != 1)
        continue;
      if (!whole(normed) || !whole(other) || !stable(other) || tensor(other).dtype != QUERN_F32 || !same_shape(tensor(other), sum) ||
          !same_shape(tensor(normed), sum))
        continue;
      return NormedSum{norm, graph_.nodes[norm].inputs[0], other};
    }
    return {};
  }

  /// A glu without limits of two products of chosen experts, of one operand and the same experts; nothing else reads them.
  struct ExpertGlu {
    std::uint32_t gate, up;  // nodes
  };
  std::optional<ExpertGlu> expert_glu_at(std::uint32_t n) const {
    const auto& node = graph_.nodes[n];
    if (!is_plain_glu(node) || !joins(n) || !has_input(node, 1) || !stable(node.outputs[0])) return {};
    const auto product_of = [&](std::uint32_t value) {
      const std::uint32_t made_by = maker(root(value));
      return made_by != none && graph_.nodes[made_by].op == QUERN_OP_MATMUL_ID && joins(made_by) && whole(value) && stable(value) &&
                     only_reader(root(value), n) && given(graph_.nodes[made_by].inputs[1])
                 ? made_by
                 : none;
    };
    const std::uint32_t gate = product_of(node.inputs[0]), up = product_of(node.inputs[1]);
    if (gate == none || up == none || gate == up) return {};
    const auto &a = graph_.nodes[gate], &b = graph_.nodes[up];
    if (a.inputs[0] != b.inputs[0] || a.inputs[2] != b.inputs[2] || !stable(a.inputs[0]) || !stable(a.inputs[2])) return {};
    return ExpertGlu{gate, up};
  }
  /// The product of chosen experts whose weighted sum this node is, and nothing else reads it; or none.
  std::uint32_t expert_product_of(std::uint32_t n) const {
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MOE_COMBINE || !joins(n) || !stable(node.outputs[0])) return none;
    const std::uint32_t x = node.inputs[0], made_by = maker(root(x));
    if (made_by == none || graph_.nodes[made_by].op != QUERN_OP_MATMUL_ID || !joins(made_by) || !whole(x) || !stable(x)) return none;
    const auto& down = graph_.nodes[made_by];
    const bool fixed = given(down.inputs[1]) && stable(down.inputs[0]) && stable(down.inputs[2]) && stable(node.inputs[1]);
    return fixed && only_reader(root(x), n) && whole(node.outputs[0]) && tensor(node.outputs[0]).dtype == QUERN_F32 ? made_by : none;
  }

 protected:
  using Uses<G>::graph_;

  /// Whether a kernel norms rows like these beside its own work.
  virtual bool row_norm_serves(const Tensor&) const { return true; }
  /// Whether attention's kernels make norms of queries and keys of such a cache too. `rows`: of all heads together.
  virtual bool head_norms_serve(const Tensor& /*k*/, const Tensor& /*v*/, const Tensor& /*table*/, bool /*rows*/) const { return true; }

  std::vector<Refusal> refusals_;  // one a node: why it is a step of its own whatever stands beside it

 private:
  /// Writes down why a recogniser finds nothing, where somebody asks.
  static void tell(Refusal* why, Refusal reason) {
    if (why != nullptr) *why = reason;
  }
  template <class N>
  static bool is_plain_glu(const N& node) {
    return node.op == QUERN_OP_GLU && node.attributes->real(QUERN_KEY_ALPHA) == 1.0 &&
           node.attributes->real(QUERN_KEY_LIMIT) == std::numeric_limits<double>::infinity();
  }
  template <class N>
  static bool has_input(const N& node, std::size_t i) {
    return node.inputs.size() > i && node.inputs[i] != none;
  }
  template <class List, class Predicate>
  static bool all_of(const List& list, const Predicate& predicate) {
    return std::all_of(list.begin(), list.end(), predicate);
  }
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_PATTERNS_HPP
