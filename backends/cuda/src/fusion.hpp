// What schedules that fuse ask of a graph: who makes and who reads a value, and where attention stands with its rotations and writes.
#pragma once

#include "graph.hpp"
#include "quern/sdk/fusion/uses.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <functional>
#include <map>
#include <optional>

namespace quern::cuda {

/// In words, why a rule does not take a node: what plan_info tells of a node that stands alone. Null: the rule takes it.
using Refusal = const char*;

/// Its recognisers ask whether memory that a step reads elsewhere stays as it is (sdk/fusion/uses.hpp), and pass by nodes that stand alone.
class Uses : public sdk::fusion::Uses<Graph> {
 public:
  explicit Uses(const Graph& graph);

  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// A view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const;
  /// Whether a node may be part of a step with others. Others run by themselves within the same schedule.
  bool joins(std::uint32_t n) const { return refusals_[n] == nullptr; }
  /// Why not.
  Refusal why_alone(std::uint32_t n) const { return refusals_[n]; }

  /// An attention node whose queries and keys are rotated for it alone, by one table, and whose keys and values are written to the cache
  /// just before it: it and these four nodes can run as one or two kernels. Norms of queries and keys, one weight for all heads, are part
  /// of them too.
  struct Attention {
    std::uint32_t q, k, v, table, mode;  // f32 values before norm and rotation
    std::uint32_t norm_q, norm_k;        // nodes, or none
    std::vector<std::uint32_t> nodes;    // the norms, the rotations and the writes
    Refusal why_no_norms = nullptr;      // why norms before the rotations are not part of it
  };
  /// `why`: of none, what was in the way.
  std::optional<Attention> attention_at(std::uint32_t node, Refusal* why = nullptr) const;
  /// The attention node, and the norms, rotations and writes that lead to it, whether or not they can run as one.
  std::vector<std::uint32_t> around_attention(std::uint32_t node) const;
  /// The glu node (SwiGLU without limits) whose gate and up are these two products, and nothing else reads them; or none.
  std::uint32_t glu_of(std::uint32_t gate, std::uint32_t up, Refusal* why = nullptr) const;
  /// The add node that sums the product with a value `other` that is there already; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other, Refusal* why = nullptr) const;
  /// The rules of a schedule, as far as each schedule has its own: why each does not take its nodes. `other_kernel`: why a sum is not part of the
  /// product that it could be part of.
  struct Rules {
    std::function<Refusal(std::uint32_t)> product, norm;
    std::function<Refusal(std::uint32_t, std::uint32_t)> glu;
    Refusal other_kernel;
  };
  /// Why no rule took a node: the rule for its op says so itself. `around`: refusals of attention, by the nodes that they leave alone.
  sdk::Alone why_left(std::uint32_t node, const std::map<std::uint32_t, Refusal>& around, const Rules& rules) const;
  /// What norms of queries and keys a fused kernel makes; all 0 where there are none.
  static HeadNorms head_norms(const Attention& what, const Graph& graph, const std::function<Address(std::uint32_t)>& address);

 private:
  std::vector<Refusal> refusals_;  // one a node: why it is a step of its own whatever stands beside it
};

}  // namespace quern::cuda
