// Losses and their gradients. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

struct CrossEntropyAttributes {
  std::int64_t ignore = -100;  // rows of this label count for nothing
  double smoothing = 0;        // 0 to 1
  double z_loss = 0;           // >= 0
};

struct CrossEntropy {
  ValueId loss, lse;
};
/// loss = lse - (1 - smoothing) x[label] - smoothing mean(x) + z_loss lse^2, exactly 0 for ignored rows.
/// logits [t, n] f32, f16 or bf16; label i32 [t]; loss and lse f32 [t].
CrossEntropy cross_entropy(Graph& graph, ValueId logits, ValueId label, const CrossEntropyAttributes& how = {}, NodeOptions options = {});
/// dlogits like logits, exactly 0 for ignored rows; lse and dloss f32 [t].
ValueId cross_entropy_backward(Graph& graph, ValueId logits, ValueId label, ValueId lse, ValueId dloss,
                               const CrossEntropyAttributes& how = {}, NodeOptions options = {});

struct MaskedMean {
  ValueId y, count;
};
/// y f32 [1]: the mean of x f32 [t] where mask i32 [t] is not 0, and count f32 [1] of them; 0 where there are none.
MaskedMean masked_mean(Graph& graph, ValueId x, ValueId mask, NodeOptions options = {});
/// dx f32 [t] = dy / count where mask is not 0, else 0; count and dy f32 [1].
ValueId masked_mean_backward(Graph& graph, ValueId mask, ValueId count, ValueId dy, NodeOptions options = {});

}  // namespace quern::graph::ops
