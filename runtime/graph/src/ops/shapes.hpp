// Rules that families of ops share.
#pragma once

#include "../op_call.hpp"

namespace quern::graph {

/// y = f(x): a float of the shape and dtype of x.
inline void unary_rule(OpCall& call) {
  call.dtype(0, floats);
  call.out(0, call.in(0).dtype, call.shape(0));
}

/// dx = f(x, dy): three floats of one shape and dtype.
inline void unary_backward_rule(OpCall& call) {
  call.dtype(0, floats);
  call.dtype_as(1, 0);
  call.same_shape(1, 0);
  call.out(0, call.in(0).dtype, call.shape(0));
}

/// y = f(a, b): b broadcasts to a, y is like a.
inline void broadcast_rule(OpCall& call) {
  call.dtype(0, floats);
  call.dtype_as(1, 0);
  call.broadcasts(1, call.shape(0));
  call.out(0, call.in(0).dtype, call.shape(0));
}

/// Rows of input 0 are normed with epsilon; the inputs `vectors` (weight, bias) are f32, as long as a row.
inline void norm_rows_rule(OpCall& call, std::initializer_list<std::size_t> vectors) {
  call.dtype(0, floats);
  call.rank_at_least(0, 1);
  call.positive(QUERN_KEY_EPSILON);
  for (const std::size_t i : vectors) {
    if (!call.has(i)) continue;
    call.dtype(i, f32_only);
    if (call.shape(i) != Shape{call.last(0)})
      call.fail(call.text(i), " but the last dimension of ", call.input_name(0), " is ", call.last(0).size, " (", call.text(0), ")");
  }
}

/// Writes rows x [t, h] at index [t] into the state table [n, h].
inline void write_rows_rule(OpCall& call, Dtypes table_types) {
  call.dtype(0, floats);
  call.rank_is(0, 2);
  call.dtype(1, index_types);
  call.rank_is(1, 1);
  call.same_dim(1, 0, 0, 0);
  const Value& table = call.state(0);
  const quern_dtype dtype = call.out_dtype(QUERN_DTYPE_NONE, table_types);
  if (table.shape.size() != 2 || table.shape[1] != call.dim(0, 1))
    call.fail("table is ", call.text(table.shape), " but ", call.text(0), "; table needs rows as long as those of x");
  call.out(0, dtype, table.shape);
}

/// The shape of input i without its last dimension.
inline Shape without_last(const OpCall& call, std::size_t i) {
  call.rank_at_least(i, 1);
  return Shape(call.shape(i).begin(), call.shape(i).end() - 1);
}

}  // namespace quern::graph
