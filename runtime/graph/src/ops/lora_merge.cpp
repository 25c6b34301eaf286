// y = w + alpha * b a.
#include "quern/graph/ops/lora.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"
#include "quern/graph/ops/matmul.hpp"

namespace quern::graph {
namespace ops {

ValueId lora_merge(Graph& graph, ValueId w, ValueId a, ValueId b, double alpha, NodeOptions options) {
  return graph.add_node(QUERN_OP_LORA_MERGE, {w, a, b}, Attributes().set(QUERN_KEY_ALPHA, alpha), std::move(options))[0];
}

}  // namespace ops

namespace rules {

void lora_merge(OpCall& call) {
  for (const std::size_t i : {0u, 1u, 2u}) {
    call.dtype(i, floats);
    call.rank_is(i, 2);
  }
  call.same_dim(1, 1, 0, 1);
  call.same_dim(2, 0, 0, 0);
  call.same_dim(2, 1, 1, 0);
  call.finite(QUERN_KEY_ALPHA);
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules

namespace gradients {

/// da = alpha b^T dy, db = alpha dy a^T.
void lora_merge(GradientCall& call) {
  constexpr std::size_t w = 0, a = 1, b = 2;
  const double alpha = call.number(QUERN_KEY_ALPHA);
  if (call.wants(w)) call.give(w, call.dy());
  if (call.wants(a))
    call.give(a, ops::matmul(call.graph(), call.in(b), call.dy(), no_value, no_value,
                             {.transpose_a = true, .transpose_b = true, .alpha = alpha}, call.how(call.sum_dtype(a))));
  if (call.wants(b))
    call.give(b, ops::matmul(call.graph(), call.dy(), call.in(a), no_value, no_value, {.alpha = alpha}, call.how(call.sum_dtype(b))));
}

}  // namespace gradients
}  // namespace quern::graph
