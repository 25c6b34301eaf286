// The gradients of values while backward goes on: what the uses of each value have given so far.
#pragma once

#include "memory.hpp"
#include "quern/graph/differentiate.hpp"

#include <vector>

namespace quern::graph {

class Contributions {
 public:
  Contributions(Graph& graph, const std::vector<GradientWanted>& wanted);

  // Before backward begins: first what is produced, then what is expected.
  /// Backward passes through this value, which an active node writes.
  void produced(ValueId value);
  /// One more use of the value will give its gradient.
  void expect(ValueId value);

  /// The name, conversions and determinism of nodes that are added from here on.
  void as_of(NodeOptions how) { how_ = std::move(how); }

  /// The value is a rounded copy of a wanted one, whose gradient is to be f32: so is what is summed and taken for the copy.
  void is_copy(ValueId value) { copies_[graph_.root(value)] = true; }

  /// Whether a wanted value shares memory with this one.
  bool is_wanted(ValueId value) const;
  /// The dtype in which a gradient of the value is summed.
  quern_dtype sum_dtype(ValueId value);
  /// Where an op with `accumulate` adds the gradient of the value, or no_value: a view of the wanted value's `into`.
  ValueId into(ValueId value);
  /// What uses of a value that a node writes have given so far, for an op that adds its own gradient to it; no_value where that is nothing yet.
  ValueId partial(ValueId value);
  /// partial() with a gradient added, or the first gradient.
  void give_sum(ValueId value, ValueId sum);
  /// A gradient of the shape of the value; one that is the value's own into() is there already.
  void give(ValueId value, ValueId gradient);

  /// The sum of all that was given for a value that a node writes, in its dtype; no_value where nothing was. A wanted value in
  /// its memory gets its share.
  ValueId take(ValueId value);

  /// The gradients of the wanted values, in their order. Throws Error(QUERN_INVALID_ARGUMENT) for one that got none.
  std::vector<ValueId> results();

 private:
  /// The sum for one stretch of memory; `value` is the first value seen there.
  struct Stretch {
    ValueId value;
    Range range;
    std::uint32_t uses = 0;
    ValueId sum = no_value;
  };
  struct Wanted {
    GradientWanted asked;
    Stretch own;  // its sum, unless it has an `into`
    bool reached = false;
  };

  Stretch& stretch(ValueId value);
  bool is_produced(ValueId value) const { return produced_[graph_.root(value)]; }
  quern_dtype dtype_of(ValueId value, std::size_t uses) const;
  ValueId plus(ValueId a, ValueId b);
  void add_to(Stretch& stretch, ValueId gradient);
  void deliver(ValueId value, ValueId gradient);
  void deliver_to(Wanted& wanted, ValueId value, ValueId gradient);
  ValueId joined(const std::vector<Stretch>& parts, ValueId value);

  Graph& graph_;
  NodeOptions how_;
  std::vector<std::vector<Stretch>> stretches_;  // by root
  std::vector<bool> produced_, copies_;          // by root
  std::vector<Wanted> wanted_;
  std::vector<std::vector<std::size_t>> wanted_of_root_;
};

}  // namespace quern::graph
