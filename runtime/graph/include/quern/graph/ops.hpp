// One function an op of ops.def: it adds the node to a graph and returns what the node makes.
//
// Each contract says shapes, dtypes and meaning; OPS.md of the plugin API is the same table for authors of backends. What
// holds for all of them:
//   - an absent optional input is no_value;
//   - a dimension is equal to another only if it is fixed to the same size or ranges under the same symbol;
//   - arithmetic is f32 whatever the dtype, with one rounding at the store, unless said otherwise;
//   - outputs are new internal values, unless NodeOptions names existing ones;
//   - "in place" says that the output may be the memory of an input; where nothing is said, it may not;
//   - what breaks a contract throws Error(QUERN_INVALID_ARGUMENT) naming op, node and the shapes found, and adds nothing.
#pragma once

#include "quern/graph/ops/activation.hpp"
#include "quern/graph/ops/attention.hpp"
#include "quern/graph/ops/collective.hpp"
#include "quern/graph/ops/copy.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "quern/graph/ops/lora.hpp"
#include "quern/graph/ops/loss.hpp"
#include "quern/graph/ops/matmul.hpp"
#include "quern/graph/ops/moe.hpp"
#include "quern/graph/ops/norm.hpp"
#include "quern/graph/ops/optimiser.hpp"
#include "quern/graph/ops/reduction.hpp"
#include "quern/graph/ops/rope.hpp"
#include "quern/graph/ops/rows.hpp"
#include "quern/graph/ops/sampling.hpp"
#include "quern/graph/ops/softmax.hpp"
