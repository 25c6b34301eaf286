// Low-rank adapters behind products, which the kernel of a product can add to its own result.
//
// lora_matmul with a base reads what its product reads and adds to the product's result. Where nothing else reads that result, both are one step,
// which stores what lora_matmul stores. So a backend may plan such a pair as one product, whose epilogue has `adapters` before all that is behind.
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_ADAPTERS_HPP
#define QUERN_SDK_FUSION_ADAPTERS_HPP

#include "quern/sdk/fusion/attention.hpp"

namespace quern {
namespace sdk {
namespace fusion {

/// `G`: as of Uses, with `values[].tensor`, `offset` and `bytes`.
template <class G>
class AdapterPattern : public Uses<G> {
 public:
  using Uses<G>::none;
  using Uses<G>::root;
  using Uses<G>::readers;
  using Uses<G>::maker;
  using Uses<G>::only_reader;
  using Uses<G>::given;
  using Uses<G>::stable;
  using Uses<G>::whole;

  explicit AdapterPattern(const G& graph) : Uses<G>(graph) {}

  /// The product that lora_matmul `n` adds to; or none.
  std::uint32_t adapted_product_of(std::uint32_t n, Refusal* why = nullptr) const {
    const auto no = [&](Refusal reason) {
      if (why != nullptr) *why = reason;
      return none;
    };
    const auto& node = graph_.nodes[n];
    if (const Refusal alone = this->alone_because(n); alone != nullptr) return no(alone);
    if (node.inputs.size() < 5 || node.inputs[4] == none) return no("it adds to nothing");
    const std::uint32_t x = node.inputs[0], base = node.inputs[4], y = node.outputs[0], made_by = maker(root(base));
    if (made_by == none || graph_.nodes[made_by].op != QUERN_OP_MATMUL) return no("what it adds to is the result of no product");
    const auto& product = graph_.nodes[made_by];
    if (const Refusal alone = this->alone_because(made_by); alone != nullptr) return no(alone);
    if (!only_reader(root(base), n) || readers(root(base)).size() != 1) return no("its product is read by another node too");
    if (root(x) != root(product.inputs[0])) return no("it reads another operand than its product");
    for (const std::uint32_t v : {x, product.inputs[0], base, y}) {
      if (!whole(v)) return no("its operands or its result are a part of a value or a strided view");
      if (tensor(v).dtype != QUERN_F32) return no("its operands or its result are not f32");
    }
    if (!stable(x) || !stable(base) || !stable(y)) return no("its operands or its result are written in place");
    for (const std::size_t i : {1u, 2u, 3u})  // adapters, where they lie, and which a row has
      if (!given(node.inputs[i])) return no("its adapters are made in the graph");
    return is_contiguous(tensor(node.inputs[1])) && is_contiguous(tensor(node.inputs[2])) ? made_by : no("its adapters are a strided view");
  }

 protected:
  using Uses<G>::graph_;
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
};

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_ADAPTERS_HPP
