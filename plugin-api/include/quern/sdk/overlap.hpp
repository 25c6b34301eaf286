// Memory that the operands of a node share: what OPS.md allows in place, and nothing else [C26].
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_OVERLAP_HPP
#define QUERN_SDK_OVERLAP_HPP

#include "quern/sdk/graph.hpp"
#include "quern/sdk/ops.hpp"

#include <string>
#include <vector>

namespace quern {
namespace sdk {

// A Value has its `root`, `offset` and `bytes` in it, and a `tensor` with dtype, rank, dims and byte strides.

/// Are two views of one root the same elements?
template <class Value>
bool same_place(const Value& a, const Value& b) noexcept {
  bool same = a.offset == b.offset && a.tensor.dtype == b.tensor.dtype && a.tensor.rank == b.tensor.rank;
  for (std::uint32_t d = 0; same && d < a.tensor.rank; ++d)
    same = a.tensor.dims[d] == b.tensor.dims[d] && a.tensor.strides[d] == b.tensor.strides[d];
  return same;
}

/// Do two values share a byte? Exact for views that are columns of the same rows, else by their whole ranges.
template <class Value>
bool share_bytes(const Value& a, const Value& b) noexcept {
  if (a.root != b.root || a.bytes == 0 || b.bytes == 0) return false;
  if (a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) return false;
  const auto &x = a.tensor, &y = b.tensor;
  if (x.rank < 2 || y.rank < 2 || x.strides[0] != y.strides[0] || x.strides[0] <= 0) return true;
  const auto step = static_cast<std::uint64_t>(x.strides[0]);
  const auto row_bytes = [step](const Value& v) { return v.bytes - static_cast<std::uint64_t>(v.tensor.dims[0] - 1) * step; };
  const std::uint64_t from_a = a.offset % step, from_b = b.offset % step;
  if (from_a + row_bytes(a) > step || from_b + row_bytes(b) > step) return true;
  return from_a < from_b + row_bytes(b) && from_b < from_a + row_bytes(a);
}

/// The one input of an op outside these groups that its output may lie over: c of matmul and logits of cross_entropy_backward.
inline bool writes_over(std::uint32_t op, std::size_t input) noexcept {
  return op == QUERN_OP_MATMUL ? input == 3 : op == QUERN_OP_CROSS_ENTROPY_BACKWARD && input == 0;
}

/// Elementwise, activation, norm and rope ops; and those whose input is the cache that they write.
inline bool runs_in_place(std::uint32_t op) noexcept {
  struct Group {
    std::uint32_t op;
    std::string_view group;
  };
  static constexpr Group groups[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, #group},
#include "quern/ops.def"
#undef QUERN_OP
  };
  if (op == QUERN_OP_KV_COPY || op == QUERN_OP_KV_MOVE) return true;
  for (const Group& row : groups)
    if (row.op == op) return row.group == "elementwise" || row.group == "activation" || row.group == "norm" || row.group == "rope";
  return false;
}

/// Why a node cannot run over memory that its outputs share with its inputs or with each other; empty: it can. `over`: whether the plugin
/// has kernels for what writes_over() allows.
template <class Values>
std::string judge_overlap(const Graph& source, const Values& values, std::uint32_t op_id, const std::vector<std::uint32_t>& inputs,
                          const std::vector<std::uint32_t>& outputs, bool over) {
  const OpRow& op = *find_op(op_id);
  if (const std::size_t i = written_input(op_id); i != no_written_input && source.values[values[inputs[i]].root].kind != QUERN_VALUE_STATE)
    return "token_publish: sequence_number is counted up in place, so it is of kind state";
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] == QUERN_NONE) continue;
    const auto& output = values[outputs[o]];
    for (std::size_t other = 0; other < o; ++other)
      if (outputs[other] != QUERN_NONE && share_bytes(values[outputs[other]], output))
        return concat(op.name, ": outputs ", other, " and ", o, " share memory");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == QUERN_NONE || !share_bytes(values[inputs[i]], output)) continue;
      const bool in_place = runs_in_place(op_id) || (over && writes_over(op_id, i));
      if (in_place && same_place(values[inputs[i]], output)) continue;
      return concat(op.name, ": output ", o, " shares memory with input ", i,
                    in_place ? " but is not the same view of it" : "; this op does not run in place");
    }
  }
  return {};
}

}  // namespace sdk
}  // namespace quern

#endif
