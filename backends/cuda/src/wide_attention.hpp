// Attention of the schedule of many rows as its two steps launch it: rotations and writes of the cache, then attention itself, or both in one.
#pragma once

#include "fusion.hpp"
#include "ops/attention_batch.hpp"

#include <array>
#include <utility>

namespace quern::cuda {

/// The bias of a value that is columns of a product, and its first element that counts.
struct BiasAt {
  std::uint32_t value = QUERN_NONE;
  std::int64_t first = 0;
  Address in(const StepContext& context) const {
    return value == QUERN_NONE ? 0 : context.tensor(value).data + static_cast<Address>(first) * 4;
  }
};

class WideAttention {
 public:
  WideAttention(const Graph& graph, const Node& node, const Uses::Attention& of);

  std::uint32_t buffer = QUERN_NONE, queries = QUERN_NONE;  // slots: what products made side by side; rotated queries in 16 bits
  std::uint32_t to = QUERN_NONE;                            // the slot of the operand that the result is, or none: it is stored in f32
  std::uint32_t order = QUERN_NONE;                         // of that operand
  std::uint32_t outputs = QUERN_NONE;                       // the value whose rows are those that the step gives outputs of
  std::array<BiasAt, 3> biases;                             // of queries, keys and values
  bool x16 = false;                                         // the buffer has f16
  bool half = false;                                        // the operand is f16, else bf16
  bool mixed = false;
  bool alone = false;     // of one row attention itself rotates and writes
  bool matrices = false;  // attention_rows.cu reads the cache
  bool early = false, batch_early = false;

  /// Why no kernel takes an attention of many rows.
  static Refusal why_no_kernel(const Graph& graph, const Node& node, const Uses::Attention& what);
  /// Rotations and writes, and attention; of node n. All members are filled.
  std::pair<Step, Step> steps(std::uint32_t n, const std::vector<std::uint32_t>& weights_of_norms, const CardFacts& card) const;

 private:
  void write(const StepContext& context, Launcher& launcher) const;
  void attend(const StepContext& context, Launcher& launcher);
  const Tensor& input(const StepContext& context, std::size_t i) const { return context.tensor(call_.node().inputs[i]); }
  Pages pages(const StepContext& context, std::size_t cache) const;
  /// Whether each row has its own blocks: of few rows all that are likely of as many sequences, since their outputs are many.
  bool rows_apart(const StepContext& context, std::int64_t m) const;
  /// Whether kernels/attention_batch.cu does all of it.
  bool is_batch(const StepContext& context, const CardFacts& card) const;
  /// Where queries, keys and values lie in the buffer, and what else the kernels that read it there take.
  template <class Params>
  void set_buffer(Params& p, const StepContext& context) const;
  /// What kernels have of the cache and of the node itself.
  template <class Params>
  void set_node(Params& p, const StepContext& context) const;
  void attend_in_batch(const StepContext& context, Launcher& launcher) const;
  Address result(const StepContext& context) const;

  const Graph* graph_;
  NodeCall call_;
  Uses::Attention of_;
};

}  // namespace quern::cuda
