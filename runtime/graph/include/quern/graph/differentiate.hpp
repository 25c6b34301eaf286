// Reverse-mode differentiation, graph to graph: appends the nodes that compute gradients.
//
// Backward goes over the nodes that lie between a wanted value and a seed, and over no other. A frozen weight costs nothing, and
// nothing is computed below the first wanted value. The gradient of each op is in the op's own file, src/ops/.
#pragma once

#include "quern/graph/graph.hpp"

#include <cstdint>
#include <vector>

namespace quern::graph {

/// d(loss) / d(value): where backward begins.
struct GradientSeed {
  ValueId value;     // f32, f16 or bf16
  ValueId gradient;  // the shape of value; f32, f16 or bf16
};

/// A value whose gradient is asked for; messages call it a parameter.
struct GradientWanted {
  ValueId value;            // f32, f16 or bf16; a constant, state, input, internal value, or a contiguous view of one
  ValueId into = no_value;  // f32 state of the shape of value, or a contiguous view of one: the gradient is ADDED to it
};

/// Which forward values live until backward reads them. All three give the same bits.
enum class Checkpointing {
  none,       // all that backward reads
  selective,  // products, attention and what crosses a segment; norms, rope, glu, casts and sums are made again
  full        // only what crosses a segment
};

/// What backward may ask of devices beyond op set 1.
struct OpSet2 {
  bool turned_blocks = false;    // matmul with transpose_b of block formats; else weights are decoded
  bool sums_in_place = false;    // matmul adds to `into`; else its product is a value that `add` adds
  bool logits_in_place = false;  // cross_entropy_backward writes over logits that nothing else reads
};

struct DifferentiateOptions {
  Checkpointing checkpointing = Checkpointing::none;
  /// Nodes at which a new segment (a layer) begins, ascending; needed unless checkpointing is none. What a segment makes again it
  /// makes once, where its backward first needs it. The last segment is kept: its backward follows at once.
  std::vector<std::uint32_t> segments = {};
  /// A weight of a block format that takes more than this when it is decoded is decoded in even parts, one behind the other.
  std::uint64_t decoded_bytes = std::uint64_t{96} << 20;
  OpSet2 may_use = {};
};

/// Appends the backward nodes and returns the gradient of each wanted value: its `into`, or else a value of the wanted value's
/// shape and dtype. Where a gradient passes unchanged that may be a view, a seed's gradient or another result: copy it before you
/// mark it as an output.
///
///   sums       Several uses of a value add up by `add`. Three and more of a 16-bit value add up in f32 and are rounded once.
///   into       The op's `accumulate` adds to it. With sums_in_place c of matmul does, and else `add` in place. The caller sets it
///              to 0 before.
///   views      A reshape is undone, a slice is padded, a transposition is turned back. A view of a wanted flat state adds to
///              the same slice of `into`.
///   weights    A block format is multiplied as it is, with turned_blocks. Else it is cast to the dtype of the gradient (f32:
///              exact), once a use, and then multiplied. One of more than decoded_bytes is cast a part of its rows at a time.
///              The products of the parts add up in f32.
///   nodes      They inherit conversions and determinism of their forward node, and its name with ".gradient" or ".again".
///
/// Integers (indices, labels, positions) and what only chooses (the bias of moe_router) have no gradient. set_rows and index_add
/// need indices that differ from each other and skip nothing.
///
/// Throws, and leaves the graph as it was:
///   Error(QUERN_UNSUPPORTED)       An op on the way, or one of its inputs, has no gradient; or there is a predicate, or a view
///                                  whose gradient cannot be expressed. The error names op and node.
///   Error(QUERN_INVALID_ARGUMENT)  A wanted value does not influence the seeds, or a value is overwritten before backward
///                                  reads it; or seeds, wanted values or segments break what is said above.
std::vector<ValueId> differentiate(Graph& graph, const std::vector<GradientSeed>& seeds, const std::vector<GradientWanted>& wanted,
                                   const DifferentiateOptions& options = {});

}  // namespace quern::graph
