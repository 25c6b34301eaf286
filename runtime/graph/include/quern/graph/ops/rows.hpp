// Rows of tables by index. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// y[i] = table[index[i]], decoded.
///
///   table  [n, h]  f32, f16, bf16, i32 or a block format
///   index  [t]     i32 or i64; outside 0 .. n - 1: the row is zeros and the run has the fault INDEX_RANGE
///   y      [t, h]  f32, f16 or bf16 by options.output_dtype; else that of a float table, and f32 for the others
ValueId get_rows(Graph& graph, ValueId table, ValueId index, NodeOptions options = {});

/// dtable [rows, h] = the sum of dy[i] at row index[i], in f32, in the order of i; rows of no index are 0. rows may be ranged.
/// dy [t, h] f32, f16 or bf16, index [t] i32 or i64; dtable f32, f16 or bf16, that of dy unless options.output_dtype says.
ValueId get_rows_backward(Graph& graph, ValueId dy, ValueId index, Dim rows, NodeOptions options = {});
/// The same, added to the state dtable.
ValueId get_rows_backward_accumulate(Graph& graph, ValueId dy, ValueId index, ValueId dtable, NodeOptions options = {});

/// table[index[i]] = x[i], encoded, in place on a state; index -1 skips, of duplicates the last wins, other rows keep their
/// bits. x [t, h] f32, f16 or bf16; index [t] i32 or i64; table [n, h] f32, f16, bf16, q8_0 or q4_0. Returns table.
ValueId set_rows(Graph& graph, ValueId x, ValueId index, ValueId table, NodeOptions options = {});

/// table[index[i]] += x[i], in the order of i, in place on a state; index -1 skips. x [t, h] and table [n, h] f32, f16 or
/// bf16; index [t] i32 or i64. Returns table.
ValueId index_add(Graph& graph, ValueId x, ValueId index, ValueId table, NodeOptions options = {});

/// y[i][j] = x[i][index[j]]: of each row the elements that index names. It has no gradient.
///
///   x      [t, n]  f32, f16 or bf16
///   index  [k]     i32 or i64; outside 0 .. n - 1: the element is 0 and the run has the fault INDEX_RANGE
///   y      [t, k]  f32, f16 or bf16 by options.output_dtype; else that of x
ValueId take(Graph& graph, ValueId x, ValueId index, NodeOptions options = {});

}  // namespace quern::graph::ops
