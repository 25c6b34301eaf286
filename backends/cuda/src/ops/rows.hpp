// What ops over rows of a table, chosen by an index, share.
#pragma once

#include "../kernels/index.hpp"
#include "arrange.hpp"
#include "strided.hpp"

namespace quern::cuda {

inline IndexParams index_params(const Tensor& table, const Tensor& index, const Tensor& x, Launcher& launcher) {
  IndexParams p{};
  p.table = rows_of(table);
  p.index = rows_of(index);
  p.x = rows_of(x);
  if (is_block(table.dtype)) {
    Tensor start = table;
    if (!table.packed_layout) start.data = 0;
    p.pieces = blocks_of(start);
    p.plane_rows = table.packed_layout;
  }
  p.h = table.last();
  p.rows = table.dims[0];
  p.count = index.dims[0];
  p.faults = launcher.faults();
  return p;
}

/// x added to the rows of the table; `accumulate`: to what is there, else to zeros. `skips`: an index of -1 is no fault.
inline void launch_add_rows(const Call& call, bool skips, bool accumulate, Launcher& launcher) {
  IndexParams p = index_params(call.output(0), call.input(1), call.input(0), launcher);
  p.live = live_of(call);
  p.skips = skips;
  p.accumulate = accumulate;
  if (!p.accumulate) launcher.launch(kernels::clear_rows, launcher.spread(p.rows * p.h), 256, p);
  launcher.launch(kernels::add_rows, {p.count, 1, 1}, 256, p);
}

}  // namespace quern::cuda
