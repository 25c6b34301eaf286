// Mixture of experts. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// y[t][u] = a[t][u, or 0] b[id[t][u]]^T.
///
///   a   [t, used or 1, k]   f32, f16 or bf16
///   b   [experts, n, k]     f32, f16, bf16 or a block format
///   id  [t, used]           i32; -1 gives zeros, another id out of range zeros and INDEX_RANGE
///   y   [t, used, n]        f32, f16 or bf16 by options.output_dtype; else that of a
ValueId matmul_id(Graph& graph, ValueId a, ValueId b, ValueId id, NodeOptions options = {});

/// no_value for one that is skipped; da is skipped without b.
struct MatmulIdGradients {
  ValueId da, db;
};
/// Gradients of matmul_id, all f32, f16 or bf16: da like a, db like b. Without b only db is made, its shape given by
/// options.output_shape or by the output. With accumulate db is added to a state.
MatmulIdGradients matmul_id_backward(Graph& graph, ValueId dy, ValueId a, ValueId b, ValueId id, bool accumulate = false,
                                     NodeOptions options = {});

struct MoeRouterAttributes {
  std::int64_t used;      // experts a row, 1 to all
  std::int64_t kind = 0;  // score: 0 softmax over the experts, 1 sigmoid of each
  bool renormalise = true;
  double scale = 1;
};

struct MoeRouter {
  ValueId id, weight;
};
/// id i32 and weight f32 [t, used]: the best experts of each row of logits f32 [t, experts], best first, ties to the lowest
/// id. bias f32 [experts] counts for the choice only. Weights are the scores, made to sum to 1 if asked, times scale.
MoeRouter moe_router(Graph& graph, ValueId logits, ValueId bias, const MoeRouterAttributes& how, NodeOptions options = {});

/// y[t] = sum over u of weight[t][u] * x[t][u], in the order of u; x [t, used, n] f32, f16 or bf16, weight f32 [t, used],
/// y [t, n] in the dtype of x.
ValueId moe_combine(Graph& graph, ValueId x, ValueId weight, NodeOptions options = {});

/// dlogits f32 like logits, for the experts that moe_router chose; dweight f32 [t, used].
ValueId moe_router_backward(Graph& graph, ValueId logits, ValueId bias, ValueId id, ValueId dweight, const MoeRouterAttributes& how,
                            NodeOptions options = {});

}  // namespace quern::graph::ops
