// Parameters of ops that address the rows of a table by index.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

/// Rows of `table` by index. An operand's first stride is that between rows; `step` between elements. A table of a block format: blocks
/// of a row lie behind each other, `pieces` says where a block's parts are; a packed one has its planes there, and `plane_rows` is 1.
struct IndexParams {
  Operand table, index, x;  // x: what is read or written by index
  Blocks pieces;
  int plane_rows;
  long long h, rows, count;  // elements of a row, rows of the table, indices
  int accumulate, skips;     // skips: -1 is no fault
  Live live;                 // of the indices
  Address faults;
};

}  // namespace quern::cuda
