// What host and kernels of attention of many rows agree on.
#pragma once

namespace quern::cuda {

constexpr int rows_lines = 128;  // lines of a block: rows times heads
constexpr int rows_keys = 64;    // keys of a tile
constexpr int rows_stages = 3;   // tiles under way in attention_rows.cu
constexpr int rows_most_head =
    128;  // elements of a head: with more there are too few registers for queries and sums, and other kernels are faster
constexpr int groups_stages = 5;     // tiles under way, on 9.0
constexpr int rows_least_tiles = 4;  // of a share of the keys: with fewer, joining costs more than it saves

/// Of heads of d elements: the bytes of a row in shared memory, and those of all tiles under way.
constexpr int rows_pitch(int d) { return (d + 63) / 64 * 128; }
constexpr int rows_tiles_bytes(int d) { return rows_stages * 2 * rows_keys * rows_pitch(d); }

}  // namespace quern::cuda
