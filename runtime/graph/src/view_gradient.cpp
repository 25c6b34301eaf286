// A view of contiguous memory is a box of it, up to the order of its dimensions, or it has no gradient here.
#include "view_gradient.hpp"

#include "memory.hpp"
#include "quern/graph/ops/copy.hpp"

#include <algorithm>

namespace quern::graph {
namespace {

struct Step {
  std::size_t dim;
  Dim size;
  std::int64_t stride;
};

/// The dimensions of a view by falling stride.
std::vector<Step> steps_of(const Graph& graph, ValueId view) {
  const Value& value = graph.value(view);
  const std::vector<std::int64_t> strides = graph.strides(view);
  std::vector<Step> steps;
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (value.shape[d] != Dim(1)) steps.push_back({d, value.shape[d], strides[d]});
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) { return a.stride > b.stride; });
  return steps;
}

/// Joins neighbours that lie in memory as one dimension.
std::vector<Step> joined(const std::vector<Step>& steps) {
  std::vector<Step> result;
  for (const Step& step : steps) {
    const bool fits = !result.empty() && result.back().size.symbol == 0 && step.size.symbol == 0 &&
                      result.back().stride == step.stride * step.size.size;
    if (!fits) result.push_back(step);
    else result.back() = {step.dim, Dim(result.back().size.size * step.size.size), step.stride};
  }
  return result;
}

}  // namespace

std::optional<Box> box_of(const Graph& graph, ValueId view, ValueId base) {
  const std::vector<Step> steps = steps_of(graph, view);
  Box box;
  for (const Step& step : steps) box.order.push_back(step.dim);
  auto left = static_cast<std::int64_t>(byte_size(graph.value(base).dtype, graph.value(base).shape));
  auto offset = static_cast<std::int64_t>(graph.value(view).alias_offset - graph.value(base).alias_offset);
  const auto add_side = [&](Dim part, std::int64_t stride) {
    if (stride <= 0 || left % stride != 0) return false;
    const std::int64_t whole = left / stride, start = offset / stride;
    left = stride;
    offset %= stride;
    if (start > whole - part.size || (part.symbol != 0 && (start != 0 || part.size != whole))) return false;
    box.sides.push_back({part.symbol != 0 ? part : Dim(whole), part, start});
    return true;
  };
  for (const Step& step : joined(steps))
    if (!add_side(step.size, step.stride)) return std::nullopt;
  const std::int64_t element = block_size(graph.value(base).dtype).bytes;
  if ((left != element || box.sides.empty()) && !add_side(Dim(1), element)) return std::nullopt;
  return box;
}

ValueId in_memory_order(Graph& graph, ValueId gradient, ValueId view, const Box& box, const NodeOptions& how) {
  const Shape shape = graph.value(view).shape;
  Shape parts;
  for (const Box::Side& side : box.sides) parts.push_back(side.part);
  ValueId ordered = gradient;
  if (!std::ranges::is_sorted(box.order)) {
    const std::vector<std::int64_t> strides = contiguous_strides(graph.value(gradient).dtype, shape);
    Shape turned;
    std::vector<std::int64_t> turned_strides;
    for (const std::size_t d : box.order) turned.push_back(shape[d]), turned_strides.push_back(strides[d]);
    ordered = ops::copy(graph, graph.view(gradient, turned, turned_strides, 0), how);
  }
  return reshaped(graph, ordered, parts);
}

ValueId embed(Graph& graph, ValueId gradient, ValueId view, ValueId base, const NodeOptions& how) {
  if (is_contiguous(graph, view) && memory_range(graph, view) == memory_range(graph, base))
    return reshaped(graph, gradient, graph.value(base).shape);
  const std::optional<Box> box = box_of(graph, view, base);
  if (!box)
    throw Error(QUERN_UNSUPPORTED,
                concat("differentiate: the view '", graph.value(view).name, "' ", graph.describe(view), " of ", graph.describe(base),
                       " has no gradient, since its strides are not those of a slice or a transposition; copy the value instead"));
  ValueId whole = in_memory_order(graph, gradient, view, *box, how);
  for (std::size_t d = 0; d < box->sides.size(); ++d) {
    const Box::Side& side = box->sides[d];
    if (side.is_whole()) continue;
    whole = ops::pad(
        graph, whole,
        {.axis = static_cast<std::int64_t>(d), .before = side.start, .after = side.whole.size - side.part.size - side.start, .value = 0},
        how);
  }
  return reshaped(graph, whole, graph.value(base).shape);
}

ValueId same_part(Graph& graph, ValueId of, ValueId base, ValueId like) {
  if (same_memory(graph, base, like)) return of;
  // Strides are of the dtype of `like`; `of` may have elements of another size.
  const std::int64_t from = block_size(graph.value(base).dtype).bytes, to = block_size(graph.value(of).dtype).bytes;
  std::vector<std::int64_t> strides = graph.strides(like);
  for (std::int64_t& stride : strides) stride = stride / from * to;
  const std::uint64_t offset = graph.value(like).alias_offset - graph.value(base).alias_offset;
  return graph.view(of, graph.value(like).shape, strides, offset / static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(to));
}

ValueId extract(Graph& graph, ValueId gradient, ValueId base, ValueId view, const NodeOptions& how) {
  return make_contiguous(graph, same_part(graph, gradient, base, view), how);
}

ValueId make_contiguous(Graph& graph, ValueId value, const NodeOptions& how) {
  return is_contiguous(graph, value) ? value : ops::copy(graph, value, how);
}

ValueId reshaped(Graph& graph, ValueId value, const Shape& shape) {
  return graph.value(value).shape == shape ? value : graph.reshape(value, shape);
}

ValueId as_dtype(Graph& graph, ValueId value, quern_dtype dtype, const NodeOptions& how) {
  return graph.value(value).dtype == dtype ? value : ops::cast(graph, value, dtype, how);
}

}  // namespace quern::graph
