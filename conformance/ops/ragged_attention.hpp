// What the families of attention_ragged and its gradient share: packed examples, their inputs, and the matrix that both cross.
#pragma once

#include "ops/attention_gradient.hpp"

namespace quern::conformance {

/// Batch, queries, keys, offset, masks, sinks and ALiBi of the dense shape are not used.
struct RaggedShape : DenseShape {
  std::vector<std::int64_t> lengths = {5};  // rows of each example
  std::int64_t tail = 0;                    // rows of no example, behind the last
  std::vector<std::int64_t> bad_start;      // a list that the op refuses, in place of that of `lengths`
  bool nan_example = false;                 // example 1 has a NaN in q, k and v
  RangedRows ranged;

  std::int64_t rows() const;
};

/// q, k, v and start. Rows of no example are NaN and infinities; the values of every other example have 1000 added, where data is gaussian.
void add_ragged_inputs(Case& c, const RaggedShape& s);

/// The reference for some whole examples alone: both ends, and those with a row beside a power of two in rows, elements or bytes.
Reference some_examples(const RaggedShape& s, Reference reference);
/// Likewise what fills inputs; of other examples they are left as they are. Both expect a case whose values have the rows of q or are no rows.
std::function<void(const ReferenceCall&)> derive_some_examples(const RaggedShape& s, void (*derive)(const ReferenceCall&));

/// Examples of 41 rows each, `count` of them.
RaggedShape many_examples(std::int64_t count);

/// Attributes, faults, note and ranged dimension.
void finish_ragged_case(Case& c, const RaggedShape& s);

/// Numbers, lengths and places of examples, sizes beside tiles of 64 and 128, heads, head sizes, windows, softcaps, layouts, ranged
/// dimensions, and starts that are refused. `row_inputs` and `row_outputs`: which values of the op have the rows of q.
void each_ragged_shape(std::uint32_t row_inputs, std::uint32_t row_outputs, const std::function<void(Profile, const RaggedShape&)>& add);

}  // namespace quern::conformance
