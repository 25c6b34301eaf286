// Columns of an operand in another order, which whatever makes the operand can store so.
//
// take with an index of as many elements as a row has, in front of products: as files have it whose weights are quantised in the order of activations.
// Such a take needs no kernel. A backend may plan its products as products of what take reads. Then it stores their operand in that order, or reads
// copies of their weights whose columns it has put back. Both are right only where the index names each element once, which is known when constants
// are bound.
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_ORDERS_HPP
#define QUERN_SDK_FUSION_ORDERS_HPP

#include "quern/sdk/fusion/attention.hpp"

namespace quern {
namespace sdk {
namespace fusion {

/// `G`: as of Uses, with `values[].tensor`, `offset` and `bytes`.
template <class G>
class OrderPattern : public Uses<G> {
 public:
  using Uses<G>::none;
  using Uses<G>::root;
  using Uses<G>::readers;
  using Uses<G>::kept;
  using Uses<G>::given;
  using Uses<G>::stable;
  using Uses<G>::whole;

  explicit OrderPattern(const G& graph) : Uses<G>(graph) {}

  /// Why `take` n is no order of the operand of all that read its result; null: each is a product of it.
  Refusal why_no_order(std::uint32_t n) const {
    const auto& node = graph_.nodes[n];
    if (const Refusal alone = this->alone_because(n); alone != nullptr) return alone;
    const std::uint32_t x = node.inputs[0], index = node.inputs[1], y = node.outputs[0];
    for (const std::uint32_t v : {x, y}) {
      if (!whole(v)) return "what it reads or its result is a part of a value or a strided view";
      if (tensor(v).dtype != QUERN_F32) return "what it reads or its result is not f32";
    }
    if (tensor(index).dtype != QUERN_I32 || !whole(index)) return "its index is a strided view or not i32";
    if (!given(index)) return "its index is made in the graph";
    if (tensor(index).elements() != tensor(x).last()) return "its index has not as many elements as a row";
    if (!stable(x) || !stable(y)) return "what it reads or its result is written in place";
    if (kept(root(y)) || readers(root(y)).empty()) return "the host reads its result";
    for (const std::uint32_t user : readers(root(y))) {
      const auto& product = graph_.nodes[user];
      if (product.op != QUERN_OP_MATMUL) return "its result is read by a node that is no product";
      if (const Refusal alone = this->alone_because(user); alone != nullptr) return alone;
      for (std::size_t i = 1; i < product.inputs.size(); ++i)
        if (product.inputs[i] != none && root(product.inputs[i]) == root(y)) return "its result is more than the operand of a product";
      if (!whole(product.inputs[0])) return "a product reads a part of its result or a strided view";
    }
    return nullptr;
  }

 protected:
  using Uses<G>::graph_;
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_ORDERS_HPP
