// What backward reads of the forward graph: values that are kept, and values that are made again (checkpointing).
#pragma once

#include "memory.hpp"
#include "quern/graph/differentiate.hpp"

#include <map>
#include <vector>

namespace quern::graph {

/// Who writes each piece of memory, and when. Nodes that are added later count from the next question on.
class Writes {
 public:
  explicit Writes(const Graph& graph);
  /// The first node from `from` on that writes memory of `value`; nodes().size() where there is none.
  std::uint32_t next(ValueId value, std::uint32_t from);

 private:
  struct Write {
    std::uint32_t node;
    Range range;
  };
  const Graph& graph_;
  std::uint32_t seen_ = 0;
  std::vector<std::vector<Write>> of_root_;
};

class SavedValues {
 public:
  /// `last` is the node where backward begins; its segment is kept.
  SavedValues(Graph& graph, const DifferentiateOptions& options, std::uint32_t last);

  /// The value as `node` read it, for nodes that are added now. Throws Error(QUERN_INVALID_ARGUMENT) where it is overwritten.
  ValueId input(std::uint32_t node, ValueId value) { return read(node, value, node); }
  /// The value as `node` wrote it.
  ValueId output(std::uint32_t node, ValueId value) { return read(node, value, node + 1); }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  std::uint32_t segment(std::uint32_t node) const;
  void choose_kept(const DifferentiateOptions& options, std::uint32_t last);
  bool can_be_made_again(const Node& node, std::uint32_t index);
  ValueId read(std::uint32_t node, ValueId value, std::uint32_t from);
  void check_unchanged(std::uint32_t reader, ValueId value, std::uint32_t from);
  void make_again(ValueId root);
  ValueId again(ValueId value);

  Graph& graph_;
  std::vector<std::uint32_t> segments_;
  Writes writes_;
  std::vector<bool> kept_;               // by root of the forward graph
  std::vector<std::uint32_t> producer_;  // by root: the node that writes all of it
  std::uint32_t segment_ = none;         // whose values again_ holds
  std::map<ValueId, ValueId> again_;     // roots and views, of one segment
};

}  // namespace quern::graph
