// Products of the schedule of many rows as its steps launch them: in 16 bits by copies of the weights, or by kernels/mixed.cu.
#pragma once

#include "adapted_graph.hpp"
#include "kernels/lora.hpp"
#include "ops/mixed.hpp"
#include "schedule.hpp"

namespace quern::cuda {

/// The columns of an operand of mixed.cu, else 0.
inline int room_of(bool mixed, std::int64_t rows) { return mixed ? static_cast<int>(operand_columns(rows)) : 0; }

/// Rows of a matrix that are one part of a step. `order`: the value whose index its columns are in and the operand's are not, or none. `slot`: of its operand.
struct Part {
  std::uint32_t weight;
  std::int64_t first, rows;
  std::uint32_t order, slot;
};
/// A 16-bit operand in a slot.
struct OperandAt {
  std::uint32_t slot;
  std::int64_t k;
  float scale;  // of what is stored
  bool half;    // f16, else bf16
};
/// The norm of an operand, for products that make it themselves.
struct FrontNorm {
  std::uint32_t value = QUERN_NONE, weight = QUERN_NONE;
  float offset = 0, epsilon = 0;
  bool settles = false;
};

/// The adapters of products of one operand, whose results lie side by side or are one value: what A makes, before the products, and what B adds
/// to their results, in place. See kernels/lora_rows.cu.
struct AdaptedProducts {
  struct Product {
    std::uint32_t weight;
    const Adapter* adapter;  // or null
  };
  std::vector<Product> products;
  OperandAt in;
  std::uint32_t rows_of, low;          // low: a slot
  std::uint32_t buffer, stored, rank;  // buffer: a slot, or none: `stored` has the results. No adapter has a higher rank
  bool mixed;
  float smaller;  // as of SideBySide
  bool any() const;
  std::vector<std::uint32_t> reads() const;
  void launch_down(const StepContext& context, Launcher& launcher) const;
  void launch_up(const StepContext& context, Launcher& launcher) const;

 private:
  AdaptedRows params(const StepContext& context, Launcher& launcher) const;
};

/// Products of one operand, by mixed.cu perhaps in several orders, into a buffer, side by side: one product where their 16-bit weights follow one another.
struct SideBySide {
  std::vector<Part> parts;
  std::int64_t row;
  OperandAt in;
  FrontNorm norm;
  std::uint32_t rows_of, buffer, workspace;
  bool mixed;
  float smaller;  // not 0: the buffer has f16, so many times smaller
  void operator()(const StepContext& context, Launcher& launcher) const;
};

/// One product with the residuals behind it.
struct OneProduct {
  Part part;
  OperandAt in;
  FrontNorm norm;
  std::uint32_t bias, residual, residual2, stored, workspace;
  bool mixed;
  void operator()(const StepContext& context, Launcher& launcher) const;
};

/// Gate and up by kernels/mixed.cu, with the gated activation, whose result is an operand.
struct GluProducts {
  std::vector<Part> parts;
  OperandAt in;
  FrontNorm norm;
  std::uint32_t rows_of;
  int activation;
  std::uint32_t to;
  float scale;
  bool half;
  std::uint32_t order;  // of the result, or none
  void operator()(const StepContext& context, Launcher& launcher) const;
};

}  // namespace quern::cuda
