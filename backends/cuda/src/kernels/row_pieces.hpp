// In which pieces a row's blocks come to kernels that copy whole rows (tiles.cu, stream.cu, rings.cu), and what these kernels and the host
// agree on besides.
#pragma once
#include "dtypes.hpp"

namespace quern::cuda {

/// `elements` in pieces of `bytes`, each in a plane of its own; 0: there is no such piece. Formats whose blocks start at multiples of 16 bytes
/// come as they are, floats as 32 of them.
struct RowPieces {
  int elements, bytes[4];
};
constexpr RowPieces row_pieces(int dtype) {
  switch (dtype) {
    case Q4_0: return {32, {2, 16, 0, 0}};
    case Q4_1: return {32, {4, 16, 0, 0}};
    case Q5_0: return {32, {2, 16, 4, 0}};
    case Q5_1: return {32, {4, 16, 4, 0}};
    case Q8_0: return {32, {2, 32, 0, 0}};
    case Q4_K: return {256, {144, 0, 0, 0}};
    case Q5_K: return {256, {176, 0, 0, 0}};
    case Q6_K: return {256, {2, 128, 64, 16}};
    default: return {32, {64, 0, 0, 0}};
  }
}

constexpr int tiles_rows = 16;  // of a tile of tiles.cu and stream.cu
constexpr int tiles_warps = 8;  // that compute: of a block, of stream.cu of a team
constexpr int tiles_most_stages = 8;
constexpr int tiles_fixed_bytes = 9984;  // of shared memory before activations: room for TilesShared and StreamShared
/// The class of the distance of rows of tiles.cu in shared memory.
constexpr int tiles_apart(int dtype) {
  switch (dtype) {
    case Q8_0:
    case Q4_K:
    case Q5_K: return 32;
    case F16:
    case BF16: return 64;
    default: return 16;
  }
}
/// That distance for `bytes` of each row: room for 15 bytes on either side where a row does not start at a multiple of 16.
template <class Bytes>
constexpr Bytes tiles_pitch(Bytes bytes, Bytes apart, bool shifted) {
  return (bytes + (shifted ? 30 : 0) + 127 - apart) / 128 * 128 + apart;
}

constexpr int rings_warps = 16;                                                                                  // of a block of rings.cu
constexpr int rings_most_slots = 8;                                                                              // of a warp
constexpr int rings_fixed_bytes = (rings_warps * rings_most_slots * 8 + 3 * rings_warps * 4 + 127) / 128 * 128;  // of RingShared

}  // namespace quern::cuda
