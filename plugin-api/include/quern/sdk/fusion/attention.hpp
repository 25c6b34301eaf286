// Attention with its norms, rotations and cache writes, as fused kernels of most backends stand for it; patterns.hpp has the other patterns.
//
// Here is also what every recogniser needs: which nodes may be part of a step with others, and how it says why it finds nothing. Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_ATTENTION_HPP
#define QUERN_SDK_FUSION_ATTENTION_HPP

#include "quern/sdk/calls.hpp"
#include "quern/sdk/fusion/uses.hpp"

#include <map>
#include <vector>

namespace quern {
namespace sdk {
namespace fusion {

/// In words, why a rule does not take a node: what plan_info says of a node that stands alone. Null: the rule takes it.
using Refusal = const char*;

/// `G`: as of Patterns.
template <class G>
class AttentionPattern : public Uses<G> {
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

  explicit AttentionPattern(const G& graph, bool invariant = false) : Uses<G>(graph, invariant) {
    for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) refusals_.push_back(this->alone_because(n));
  }
  virtual ~AttentionPattern() = default;

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

  /// Says of an attention, and of the nodes that lead to it, why they are no one step. The first reason of a node stays.
  void refuse_attention(std::uint32_t n, Refusal why) {
    for (const std::uint32_t around : around_attention(n)) no_attention_.emplace(around, why);
  }
  /// Whether such a reason was said of a node.
  bool is_refused_by_attention(std::uint32_t n) const { return no_attention_.count(n) != 0; }
  /// That reason, or that there is no attention behind the node.
  Refusal why_not_with_attention(std::uint32_t n) const {
    const auto found = no_attention_.find(n);
    return found != no_attention_.end() ? found->second : "no attention that can be fused reads what it makes";
  }

 protected:
  using Uses<G>::graph_;

  /// Whether attention's kernels make norms of queries and keys of such a cache too. `rows`: of all heads together.
  virtual bool head_norms_serve(const Tensor& /*k*/, const Tensor& /*v*/, const Tensor& /*table*/, bool /*rows*/) const { return true; }

  /// Writes down why a recogniser finds nothing, where somebody asks.
  static void tell(Refusal* why, Refusal reason) {
    if (why != nullptr) *why = reason;
  }

  std::vector<Refusal> refusals_;  // one a node: why it is a step of its own whatever stands beside it

 private:
  std::map<std::uint32_t, Refusal> no_attention_;

  template <class List, class Predicate>
  static bool all_of(const List& list, const Predicate& predicate) {
    return std::all_of(list.begin(), list.end(), predicate);
  }
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_ATTENTION_HPP
