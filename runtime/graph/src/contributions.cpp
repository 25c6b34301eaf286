// Sums gradients where a value is used more than once, and hands them to what was asked for.
#include "contributions.hpp"

#include "quern/graph/ops/copy.hpp"
#include "quern/graph/ops/elementwise.hpp"
#include "view_gradient.hpp"

#include <algorithm>

namespace quern::graph {
namespace {

/// Uses of a 16-bit value from which on its gradients add up in f32: two are rounded once by `add` itself.
constexpr std::uint32_t uses_summed_in_f32 = 3;

}  // namespace

Contributions::Contributions(Graph& graph, const std::vector<GradientWanted>& wanted)
    : graph_(graph),
      stretches_(graph.values().size()),
      produced_(graph.values().size()),
      copies_(graph.values().size()),
      wanted_of_root_(graph.values().size()) {
  for (const GradientWanted& one : wanted) {
    wanted_of_root_[graph.root(one.value)].push_back(wanted_.size());
    wanted_.push_back({one, {one.value, memory_range(graph, one.value)}});
  }
}

void Contributions::produced(ValueId value) { produced_[graph_.root(value)] = true; }

void Contributions::expect(ValueId value) {
  ++stretch(value).uses;
  if (is_produced(value)) return;
  const Range range = memory_range(graph_, value);
  for (const std::size_t i : wanted_of_root_[graph_.root(value)])
    if (wanted_[i].own.range.overlaps(range)) ++wanted_[i].own.uses;
}

bool Contributions::is_wanted(ValueId value) const {
  const std::vector<std::size_t>& here = wanted_of_root_[graph_.root(value)];
  if (here.empty()) return false;
  const Range range = memory_range(graph_, value);
  return std::ranges::any_of(here, [&](std::size_t i) { return wanted_[i].own.range.overlaps(range); });
}

quern_dtype Contributions::dtype_of(ValueId value, std::size_t uses) const {
  return copies_[graph_.root(value)] || uses >= uses_summed_in_f32 ? QUERN_F32 : graph_.value(value).dtype;
}

Contributions::Stretch& Contributions::stretch(ValueId value) {
  std::vector<Stretch>& here = stretches_[graph_.root(value)];
  const Range range = memory_range(graph_, value);
  for (Stretch& one : here) {
    if (one.range != range) continue;
    if (is_contiguous(graph_, value) ? is_contiguous(graph_, one.value) : same_memory(graph_, value, one.value)) return one;
  }
  here.push_back({value, range});
  return here.back();
}

quern_dtype Contributions::sum_dtype(ValueId value) {
  const quern_dtype own = graph_.value(value).dtype;
  if (is_produced(value)) return dtype_of(value, stretch(value).uses);
  const Range range = memory_range(graph_, value);
  for (const std::size_t i : wanted_of_root_[graph_.root(value)])
    if (wanted_[i].own.range.overlaps(range) && (wanted_[i].asked.into != no_value || wanted_[i].own.uses >= uses_summed_in_f32))
      return QUERN_F32;
  return own;
}

ValueId Contributions::into(ValueId value) {
  if (is_produced(value)) return no_value;
  const Range range = memory_range(graph_, value);
  const Wanted* only = nullptr;
  for (const std::size_t i : wanted_of_root_[graph_.root(value)]) {
    if (!wanted_[i].own.range.overlaps(range)) continue;
    if (only) return no_value;
    only = &wanted_[i];
  }
  if (!only || only->asked.into == no_value || !only->own.range.holds(range)) return no_value;
  return same_part(graph_, only->asked.into, only->asked.value, value);
}

ValueId Contributions::plus(ValueId a, ValueId b) { return ops::add(graph_, a, b, 1, how_); }

void Contributions::add_to(Stretch& stretch, ValueId gradient) {
  gradient = as_dtype(graph_, gradient, dtype_of(stretch.value, stretch.uses), how_);
  gradient = reshaped(graph_, gradient, graph_.value(stretch.value).shape);
  stretch.sum = stretch.sum == no_value ? gradient : plus(stretch.sum, gradient);
}

ValueId Contributions::partial(ValueId value) {
  if (!is_produced(value) || !is_contiguous(graph_, value)) return no_value;
  const ValueId sum = stretch(value).sum;
  return sum == no_value ? no_value : reshaped(graph_, sum, graph_.value(value).shape);
}

void Contributions::give_sum(ValueId value, ValueId sum) {
  if (!is_produced(value) || !is_contiguous(graph_, value)) return give(value, sum);
  Stretch& one = stretch(value);
  one.sum = reshaped(graph_, as_dtype(graph_, sum, dtype_of(one.value, one.uses), how_), graph_.value(one.value).shape);
}

void Contributions::give(ValueId value, ValueId gradient) {
  if (is_produced(value)) add_to(stretch(value), make_contiguous(graph_, gradient, how_));
  else deliver(value, gradient);
}

void Contributions::deliver(ValueId value, ValueId gradient) {
  const Range range = memory_range(graph_, value);
  for (const std::size_t i : wanted_of_root_[graph_.root(value)])
    if (wanted_[i].own.range.overlaps(range)) deliver_to(wanted_[i], value, gradient);
}

void Contributions::deliver_to(Wanted& wanted, ValueId value, ValueId gradient) {
  const ValueId asked = wanted.asked.value, into = wanted.asked.into;
  const Range range = memory_range(graph_, value);
  wanted.reached = true;
  if (!wanted.own.range.holds(range)) {
    if (!range.holds(wanted.own.range) || !is_contiguous(graph_, value))
      throw Error(QUERN_UNSUPPORTED, concat("differentiate: '", graph_.value(value).name, "' ", graph_.describe(value),
                                            " is read, which holds a part of the parameter '", graph_.value(asked).name, "' ",
                                            graph_.describe(asked), " and more; ask for the gradient of the memory under both"));
    gradient = extract(graph_, make_contiguous(graph_, gradient, how_), value, asked, how_);
    value = asked;
  }
  if (into == no_value) {
    gradient = make_contiguous(graph_, gradient, how_);
    if (memory_range(graph_, value) != wanted.own.range || !is_contiguous(graph_, value))
      gradient = embed(graph_, gradient, value, asked, how_);
    add_to(wanted.own, gradient);
    return;
  }
  const ValueId target = same_part(graph_, into, asked, value);
  if (same_memory(graph_, gradient, target)) return;  // the op has added it
  NodeOptions in_place = how_;
  in_place.outputs = {target};
  ops::add(graph_, target, as_dtype(graph_, gradient, QUERN_F32, how_), 1, in_place);
}

ValueId Contributions::joined(const std::vector<Stretch>& parts, ValueId value) {
  // Slices that tile the value along one axis are laid one after another.
  struct Slice {
    ValueId gradient;
    ValueId view;
    Box box;
  };
  std::vector<Slice> slices;
  std::optional<std::size_t> axis;
  bool tiles = parts.size() > 1;
  for (const Stretch& part : parts) {
    std::optional<Box> box = box_of(graph_, part.value, value);
    tiles = tiles && box && (slices.empty() || box->sides.size() == slices[0].box.sides.size());
    if (!tiles) break;
    for (std::size_t d = 0; d < box->sides.size(); ++d) {
      const Box::Side& side = box->sides[d];
      tiles &= slices.empty() || side.whole == slices[0].box.sides[d].whole;
      if (side.is_whole()) continue;
      tiles &= !axis || *axis == d;
      axis = d;
    }
    slices.push_back({part.sum, part.value, std::move(*box)});
  }
  tiles = tiles && axis;
  if (tiles) {
    std::ranges::sort(slices, {}, [&](const Slice& slice) { return slice.box.sides[*axis].start; });
    std::int64_t next = 0;
    for (const Slice& slice : slices) {
      tiles &= slice.box.sides[*axis].start == next;
      next += slice.box.sides[*axis].part.size;
    }
    tiles &= next == slices[0].box.sides[*axis].whole.size;
  }
  const quern_dtype dtype = dtype_of(value, tiles ? 0 : parts.size());
  if (tiles) {
    std::vector<ValueId> pieces;
    for (const Slice& slice : slices)
      pieces.push_back(in_memory_order(graph_, as_dtype(graph_, slice.gradient, dtype, how_), slice.view, slice.box, how_));
    return reshaped(graph_, ops::concat(graph_, pieces, static_cast<std::int64_t>(*axis), how_), graph_.value(value).shape);
  }
  ValueId sum = no_value;
  for (const Stretch& part : parts) {
    ValueId piece = as_dtype(graph_, part.sum, dtype, how_);
    const Range range = memory_range(graph_, value);
    if (range.holds(part.range) && is_contiguous(graph_, value)) {
      piece = embed(graph_, piece, part.value, value, how_);
    } else if (part.range.holds(range) && is_contiguous(graph_, part.value)) {
      piece = extract(graph_, piece, part.value, value, how_);
    } else {
      throw Error(QUERN_UNSUPPORTED, concat("differentiate: '", graph_.value(part.value).name, "' ", graph_.describe(part.value),
                                            " is read, which is neither a slice of what is written, '", graph_.value(value).name, "' ",
                                            graph_.describe(value), ", nor the whole of it; copy the value instead"));
    }
    sum = sum == no_value ? piece : plus(sum, piece);
  }
  return sum;
}

ValueId Contributions::take(ValueId value) {
  const Range range = memory_range(graph_, value);
  std::vector<Stretch> parts;
  for (const Stretch& one : stretches_[graph_.root(value)])
    if (one.sum != no_value && one.range.overlaps(range)) parts.push_back(one);
  if (parts.empty()) return no_value;
  const ValueId gradient = as_dtype(graph_, joined(parts, value), dtype_of(value, 0), how_);
  deliver(value, gradient);
  return gradient;
}

std::vector<ValueId> Contributions::results() {
  std::vector<ValueId> gradients;
  for (const Wanted& one : wanted_) {
    const ValueId asked = one.asked.value;
    if (!one.reached)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("differentiate: '", graph_.value(asked).name, "' ", graph_.describe(asked),
                         " does not influence what is differentiated, so it has no gradient; do not ask for it, or use it"));
    gradients.push_back(one.asked.into != no_value ? one.asked.into : as_dtype(graph_, one.own.sum, graph_.value(asked).dtype, how_));
  }
  return gradients;
}

}  // namespace quern::graph
