// See fusion.hpp.
#include "fusion.hpp"

#include "ops/attention.hpp"

namespace quern::cuda {

Uses::Uses(const Graph& graph, bool invariant) : Patterns(graph, invariant) {
  std::vector<Tensor> storage;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    auto* const fusable = implementation_of(graph.nodes[n]).fusable;
    if (refusals_[n] != nullptr || fusable == nullptr) continue;
    const Call call = graph.describe(graph.nodes[n], storage);
    if (!fusable(call))
      refusals_[n] = all_packed(call) ? "its shape or attributes need the general kernel of its op" : "it reads or writes a strided view";
  }
}

bool Uses::head_norms_serve(const Tensor& k, const Tensor& v, const Tensor& table, bool rows) const {
  return cuda::head_norms_serve(k, v, table, rows);
}

HeadNorms Uses::head_norms(const Attention& what, const Graph& graph, const StepContext& context) {
  if (what.norm_q == none) return {};
  const Node &q = graph.nodes[what.norm_q], &k = graph.nodes[what.norm_k];
  return {context.address(q.inputs[1]),
          context.address(k.inputs[1]),
          real_of(q, QUERN_KEY_WEIGHT_OFFSET),
          real_of(k, QUERN_KEY_WEIGHT_OFFSET),
          real_of(q, QUERN_KEY_EPSILON),
          real_of(k, QUERN_KEY_EPSILON),
          what.norm_rows ? 1 : 0};
}

int Uses::activation_of(std::uint32_t n) const {
  const Node& node = graph_.nodes[n];
  if (node.op == QUERN_OP_SILU) return act_silu;
  if (node.op == QUERN_OP_RELU) return act_relu;
  static constexpr int gates[] = {act_silu, act_gelu_erf, act_gelu_tanh, act_relu, act_sigmoid},
                       gelus[] = {act_gelu_erf, act_gelu_tanh, act_gelu_quick};
  return (node.op == QUERN_OP_GLU ? gates : gelus)[node.attributes->integer(QUERN_KEY_KIND)];
}

}  // namespace quern::cuda
