// What schedules that fuse ask of a graph: who makes and who reads a value, and where attention stands with its rotations and writes.
#pragma once

#include "graph.hpp"
#include "quern/sdk/fusion/uses.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <functional>
#include <map>
#include <optional>

namespace quern::cuda {

constexpr std::int64_t most_row = 8192;  // elements of a row that norm_row of kernels/wide.cu keeps in shared memory
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

  /// Where a value of f32 lies in each row of its root: `count` elements from `first` on, of `of`; or nothing, where it does not lie so.
  struct Columns {
    std::int64_t first, count, of;
  };
  std::optional<Columns> columns_of(std::uint32_t v) const;

  /// An attention node whose queries and keys are rotated for it alone, by one table, and whose keys and values are written to the cache
  /// just before it: it and these four nodes can run as one or two kernels. Norms of queries and keys, of each head by one weight for
  /// all or of all heads together, are part of them too. Queries, keys and values may be columns of one product.
  struct Attention {
    std::uint32_t q, k, v, table, mode;  // f32 values before norm and rotation
    std::uint32_t norm_q, norm_k;        // nodes, or none
    bool norm_rows;                      // the norms are of all heads together
    std::vector<std::uint32_t> nodes;    // the norms, the rotations and the writes
    Refusal why_no_norms = nullptr;      // why norms before the rotations are not part of it
  };
  /// `why`: of none, what was in the way.
  std::optional<Attention> attention_at(std::uint32_t node, Refusal* why = nullptr) const;
  /// The attention node, and the norms, rotations and writes that lead to it, whether or not they can run as one.
  std::vector<std::uint32_t> around_attention(std::uint32_t node) const;
  /// A glu node without limits that can be part of its products.
  struct Glu {
    std::uint32_t node;
    int activation;         // Activation, of gate
    std::int64_t gate, up;  // of columns of one product: where they begin
  };
  /// That whose gate and up are these two products, and nothing else reads them.
  std::optional<Glu> glu_of(std::uint32_t gate, std::uint32_t up, Refusal* why = nullptr) const;
  /// That whose gate and up are the two halves of this product's columns, and nothing else reads it.
  std::optional<Glu> glu_of_columns(std::uint32_t product, Refusal* why = nullptr) const;
  /// The activation node that reads this product, and nothing else does; or none.
  std::uint32_t activation_behind(std::uint32_t product, int& activation) const;
  /// The add node that sums the result of a product, or of such a sum, with a value `other` that is there before node `from`, or that a step
  /// before it has stored: `made` of its node. Or none.
  std::uint32_t add_of(std::uint32_t node, std::uint32_t from, const std::vector<bool>& made, std::uint32_t& other,
                       Refusal* why = nullptr) const;

  /// An add node that sums a value with the rms norm of another, which nothing else reads.
  struct NormedSum {
    std::uint32_t norm, input, other;  // the norm's node and input; what is added to it
  };
  std::optional<NormedSum> normed_sum_at(std::uint32_t add) const;
  /// A glu without limits of two products of chosen experts, of one operand and the same experts; nothing else reads them.
  struct ExpertGlu {
    std::uint32_t gate, up;  // nodes
    int activation;
  };
  std::optional<ExpertGlu> expert_glu_at(std::uint32_t glu) const;
  /// The product of chosen experts whose weighted sum this node is, and nothing else reads it; or none.
  std::uint32_t expert_product_of(std::uint32_t combine) const;
  /// Whether a kernel makes this norm, rms or layer, from a packed row of f32 at another place than the node's.
  bool row_norm(std::uint32_t node) const;
  /// What each schedule has rules of its own for: why they do not take a product, a norm, or the GLU of two products (of one, where gate is up).
  /// `other_kernel`: why a sum is not part of the product that it could be part of.
  struct Rules {
    std::function<Refusal(std::uint32_t)> product, norm;
    std::function<Refusal(std::uint32_t gate, std::uint32_t up)> glu;
    Refusal other_kernel;
  };
  /// Why no rule took a node: the rule for its op has the reason. `around`: refusals of attention, by the nodes that they leave alone.
  sdk::Alone why_left(std::uint32_t node, const std::map<std::uint32_t, Refusal>& around, const std::vector<bool>& made,
                      const Rules& rules) const;
  /// What norms of queries and keys a fused kernel makes; all 0 where there are none.
  static HeadNorms head_norms(const Attention& what, const Graph& graph, const std::function<Address(std::uint32_t)>& address);

 private:
  std::vector<Refusal> refusals_;  // one a node: why it is a step of its own whatever stands beside it
};

}  // namespace quern::cuda
