// Gradients of views: from the elements of a view to those of the memory under it, and back.
//
// All gradients here are contiguous. A view and its base are values of one root; the base is contiguous.
#pragma once

#include "quern/graph/graph.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace quern::graph {

/// A view as a box of a contiguous base: dimension i of the box takes [start, start + part) of `whole`. `order` has the
/// dimensions of the view by falling stride, those of size 1 left out.
struct Box {
  struct Side {
    Dim whole = 1, part = 1;
    std::int64_t start = 0;
    bool is_whole() const { return whole == part; }
  };
  std::vector<Side> sides;
  std::vector<std::size_t> order;
};

/// Nothing where elements of the view lie over each other or between the rows of a box.
std::optional<Box> box_of(const Graph& graph, ValueId view, ValueId base);

/// The gradient of `view` with its elements in the order of memory: the shape of the parts of its box.
ValueId in_memory_order(Graph& graph, ValueId gradient, ValueId view, const Box& box, const NodeOptions& how);

/// The gradient of `base` where that of `view` is `gradient`: zeros outside the view. Throws Error(QUERN_UNSUPPORTED) naming the view
/// where there is no box.
ValueId embed(Graph& graph, ValueId gradient, ValueId view, ValueId base, const NodeOptions& how);

/// The part of the gradient of `base` that lies at `view`, made contiguous.
ValueId extract(Graph& graph, ValueId gradient, ValueId base, ValueId view, const NodeOptions& how);

/// What `like` is of `base`, of another value of the shape of `base`.
ValueId same_part(Graph& graph, ValueId of, ValueId base, ValueId like);

ValueId make_contiguous(Graph& graph, ValueId value, const NodeOptions& how);
/// The value under another shape; itself where it has that shape.
ValueId reshaped(Graph& graph, ValueId value, const Shape& shape);
/// A cast; the value itself where it has that dtype.
ValueId as_dtype(Graph& graph, ValueId value, quern_dtype dtype, const NodeOptions& how);

}  // namespace quern::graph
