// Steps of several sequences: rows that few neighbours share a sequence with are attention_fused.comp's, a workgroup each; the others are
// attention_matrix.comp's, which goes through the keys of a tile's sequences in turn. Both ask here, so that each row has one kernel. How many are
// enough is in params_matrices.h.

/// How many rows of this row's tile are of its sequence, of every `step`-th of them from `first` on.
uint rows_of_its_sequence(uint64_t row_slot, uint row, uint rows, uint tile, uint first, uint step) {
  const uint begin = row / tile * tile, end = min(begin + tile, rows);
  const int slot = Int(row_slot + uint64_t(row) * 4ul).v;
  uint same = 0u;
  for (uint r = begin + first; r < end; r += step) same += uint(Int(row_slot + uint64_t(r) * 4ul).v == slot);
  return same;
}
