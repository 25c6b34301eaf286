// The patterns that fused kernels stand for (quern/sdk/fusion/patterns.hpp), as far as this plugin's kernels take them.
#pragma once

#include "quern/sdk/fusion/patterns.hpp"
#include "schedule.hpp"

namespace quern::cuda {

constexpr std::int64_t most_row = 8192;  // elements of a row that norm_row of kernels/wide.cu keeps in shared memory
using sdk::fusion::Refusal;

/// Its recognisers pass by nodes whose op has a kernel of its own for their shapes or attributes.
class Uses : public sdk::fusion::Patterns<Graph> {
 public:
  explicit Uses(const Graph& graph, bool invariant = false);

  /// What norms of queries and keys a fused kernel makes; all 0 where there are none.
  static HeadNorms head_norms(const Attention& what, const Graph& graph, const StepContext& context);
  /// Fills what a kernel of attention has of the rotations.
  template <class Params>
  static void set_rotation(Params& p, const Attention& what, const Tensor& table) {
    p.rope = table.data;
    p.rope_positions = table.dims[0];
    p.rope_pairs = table.dims[1];
    p.rope_mode = static_cast<int>(what.mode);
  }
  /// What a glu node applies to gate, or an activation node to its input: Activation.
  int activation_of(std::uint32_t node) const;

 protected:
  bool row_norm_serves(const Tensor& x) const override { return x.last() % 32 == 0 && x.last() <= most_row; }
  bool head_norms_serve(const Tensor& k, const Tensor& v, const Tensor& table, bool rows) const override;
};

}  // namespace quern::cuda
