// Patterns of nodes that fused kernels of most backends stand for, each in one place. They are:
//
//   attention with its norms, rotations and cache writes (attention.hpp)
//   gated activations of two products, or of the halves of one
//   residual sums, and norms with a sum behind
//   products of chosen experts
//
// A recogniser finds the nodes and asks whatever makes them one step: who else reads what lies between, views, what is written in place. Each
// says in words why it finds nothing. What kernels a backend has, it asks itself of what was found; two questions that a recogniser needs
// answered in between are virtual.
//
//   struct Rules : sdk::fusion::Patterns<Graph> { ... };
//   if (const auto found = rules.attention_at(n, &why)) ...
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_PATTERNS_HPP
#define QUERN_SDK_FUSION_PATTERNS_HPP

#include "quern/sdk/fusion/attention.hpp"

#include <limits>

namespace quern {
namespace sdk {
namespace fusion {

/// `G`: as of Uses, with `values[].tensor`, `offset` and `bytes`, and `nodes[].attributes` to ask for numbers by key.
template <class G>
class Patterns : public AttentionPattern<G> {
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
  using AttentionPattern<G>::tensor;
  using AttentionPattern<G>::joins;
  using AttentionPattern<G>::why_alone;

  explicit Patterns(const G& graph, bool invariant = false) : AttentionPattern<G>(graph, invariant) {}

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
  std::uint32_t activation_behind(std::uint32_t product, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (kept(y) || readers(y).size() != 1) return no("the product is read by another node too");
    const std::uint32_t n = readers(y)[0];
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_GELU && node.op != QUERN_OP_SILU && node.op != QUERN_OP_RELU) return no("it is no activation");
    if (!joins(n)) return no(why_alone(n));
    if (!stable(node.outputs[0])) return no("its result is written in place");
    if (!whole(node.inputs[0])) return no("it reads a part of the product");
    return is_packed_f32(node.outputs[0]) ? n : no("its result is not packed f32");
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
  /// The same where `other` is there before node `from`. `stored`: of each node the one at whose place the step stands that stores its result.
  std::uint32_t add_of(std::uint32_t summand, std::uint32_t from, const std::vector<std::uint32_t>& stored, std::uint32_t& other,
                       Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    std::uint32_t operand = none;
    const std::uint32_t n = sum_of(summand, operand, why);
    if (n == none) return none;
    const std::uint32_t made_by = maker(root(operand));
    if (made_by != none && stored[made_by] > from) return no("its other operand is made behind the product");
    // The sum is stored where the product stands.
    if (!stable(operand) || !stable(graph_.nodes[n].outputs[0])) return no("its other operand or its result is written in place");
    other = operand;
    return n;
  }

  /// Why no kernel makes this norm, rms or layer, from a packed row of f32 at another place than the node's.
  Refusal why_no_row_norm(std::uint32_t n) const {
    const auto& node = graph_.nodes[n];
    if (node.op != QUERN_OP_RMS_NORM && node.op != QUERN_OP_LAYER_NORM) return "it is no norm of rows";
    if (!joins(n)) return why_alone(n);
    if (!has_input(node, 1)) return "the norm has no weight";
    const bool has_bias = node.op == QUERN_OP_LAYER_NORM && has_input(node, 2);
    if (!given(node.inputs[1]) || (has_bias && !given(node.inputs[2]))) return "the norm's weight or bias is made in the graph";
    const Tensor& x = tensor(node.inputs[0]);
    if (x.rank != 2) return "what the norm reads is no matrix";
    if (!is_packed_f32(node.inputs[0]) || !is_packed_f32(node.outputs[0])) return "the norm reads or writes what is no packed f32";
    if (!stable(node.inputs[0]) || !stable(node.outputs[0])) return "what the norm reads or its result is written in place";
    return row_norm_serves(x) ? nullptr : "no kernel norms rows of this size";
  }
  /// An add node that sums a value with the rms norm of another, which nothing else reads.
  struct NormedSum {
    std::uint32_t norm, input, other;  // the norm's node and input; what is added to it
  };
  std::optional<NormedSum> normed_sum_at(std::uint32_t add, Refusal* why = nullptr) const {
    const auto& node = graph_.nodes[add];
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return std::nullopt;
    };
    if (node.op != QUERN_OP_ADD) return no("it is no sum");
    if (!joins(add)) return no(why_alone(add));
    if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0) return no("an operand has a factor");
    if (!is_packed_f32(node.outputs[0])) return no("its result is not packed f32");
    if (!stable(node.outputs[0])) return no("its result is written in place");
    Refusal nearest = "no operand is an rms norm's result";
    for (const std::size_t i : {0u, 1u}) {
      const std::uint32_t norm = maker(root(node.inputs[i]));
      if (norm == none || graph_.nodes[norm].op != QUERN_OP_RMS_NORM) continue;
      nearest = why_no_summand(norm, node.inputs[i], node.inputs[1 - i], add);
      if (nearest == nullptr) return NormedSum{norm, graph_.nodes[norm].inputs[0], node.inputs[1 - i]};
    }
    return no(nearest);
  }

  /// A glu without limits of two products of chosen experts, of one operand and the same experts; nothing else reads them.
  struct ExpertGlu {
    std::uint32_t gate, up;  // nodes
  };
  std::optional<ExpertGlu> expert_glu_at(std::uint32_t n, Refusal* why = nullptr) const {
    const auto& node = graph_.nodes[n];
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return std::nullopt;
    };
    if (node.op != QUERN_OP_GLU) return no("it is no gated activation");
    if (!joins(n)) return no(why_alone(n));
    if (!is_plain_glu(node)) return no("its activation has a limit or a factor");
    if (!has_input(node, 1)) return no("gate and up are halves of one value");
    if (!stable(node.outputs[0])) return no("its result is written in place");
    for (const std::uint32_t value : {node.inputs[0], node.inputs[1]})
      if (const Refusal reason = why_no_expert_product(value, n); reason != nullptr) return no(reason);
    const std::uint32_t gate = maker(root(node.inputs[0])), up = maker(root(node.inputs[1]));
    if (gate == up) return no("gate and up are one product");
    const auto &a = graph_.nodes[gate], &b = graph_.nodes[up];
    if (a.inputs[0] != b.inputs[0]) return no("gate and up are products of different operands");
    if (a.inputs[2] != b.inputs[2]) return no("gate and up are products of different experts");
    return ExpertGlu{gate, up};
  }
  /// The product of chosen experts whose weighted sum this node is, and nothing else reads it; or none.
  std::uint32_t expert_product_of(std::uint32_t n, Refusal* why = nullptr) const {
    const auto& node = graph_.nodes[n];
    const auto no = [&](Refusal reason) {
      tell(why, reason);
      return none;
    };
    if (node.op != QUERN_OP_MOE_COMBINE) return no("it is no weighted sum of experts");
    if (!joins(n)) return no(why_alone(n));
    if (!stable(node.outputs[0]) || !stable(node.inputs[1])) return no("its weights or its result are written in place");
    if (!is_packed_f32(node.outputs[0])) return no("its result is not packed f32");
    if (const Refusal reason = why_no_expert_product(node.inputs[0], n); reason != nullptr) return no(reason);
    return maker(root(node.inputs[0]));
  }

 protected:
  using AttentionPattern<G>::graph_;
  using AttentionPattern<G>::tell;

  /// Whether a kernel norms rows like these beside its own work.
  virtual bool row_norm_serves(const Tensor&) const { return true; }

 private:
  bool is_packed_f32(std::uint32_t v) const { return whole(v) && tensor(v).dtype == QUERN_F32; }
  /// Why a norm's result and another value are no operands of a sum that makes the norm too.
  Refusal why_no_summand(std::uint32_t norm, std::uint32_t normed, std::uint32_t other, std::uint32_t add) const {
    if (const Refusal reason = why_no_row_norm(norm); reason != nullptr) return reason;
    if (!only_reader(root(normed), add) || readers(root(normed)).size() != 1) return "the norm is read by another node too";
    const Tensor& sum = tensor(graph_.nodes[add].outputs[0]);
    if (!is_packed_f32(normed) || !is_packed_f32(other) || !same_shape(tensor(other), sum) || !same_shape(tensor(normed), sum))
      return "its operands are not packed f32 of one shape";
    return stable(other) ? nullptr : "what is added to the norm is written in place";
  }
  /// Why a value is no product of chosen experts, of weights and choices that stay, for one node alone.
  Refusal why_no_expert_product(std::uint32_t value, std::uint32_t user) const {
    const std::uint32_t made_by = maker(root(value));
    if (made_by == none || graph_.nodes[made_by].op != QUERN_OP_MATMUL_ID) return "what it reads is no product of chosen experts";
    if (!joins(made_by)) return why_alone(made_by);
    if (!only_reader(root(value), user)) return "a product of experts is read by another node too";
    if (!whole(value)) return "it reads a part of a product of experts or a strided view";
    const auto& product = graph_.nodes[made_by];
    if (!given(product.inputs[1])) return "weights of experts are made in the graph";
    const bool stays = stable(value) && stable(product.inputs[0]) && stable(product.inputs[2]);
    return stays ? nullptr : "a product of experts, its operand or its choices are written in place";
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
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_PATTERNS_HPP
