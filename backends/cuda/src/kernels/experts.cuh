// Pairs of a token and an expert: which they are, where their rows lie, and the tiles of one expert's pairs.
#pragma once
#include "experts.hpp"
#include "strided.cuh"

enum { TILE_PAIRS = expert_pairs };
enum { DROPPED = -1, STRAY = -2 };
/// Pairs are fewer than 2^31: a division of 32 bits takes a fifth of one of 64.
DEV u32 token_of(const ExpertParams& p, i64 pair) { return (u32)pair / (u32)p.used; }
DEV int expert_of(const ExpertParams& p, i64 pair) {
  const u32 token = token_of(p, pair), u = (u32)pair - token * (u32)p.used;
  const int e = *reinterpret_cast<const int*>(at<const char>(p.id.data) + token * p.id.strides[0] + u * p.id.step);
  return e == -1 ? DROPPED : e >= 0 && e < p.experts ? e : STRAY;
}
/// That of a pair whose token the predicate lets through.
DEV int live_expert_of(const ExpertParams& p, i64 pair) { return is_live(p.live, token_of(p, pair)) ? expert_of(p, pair) : DROPPED; }
DEV const char* pair_row(const ExpertParams& p, const Operand& o, i64 pair) {
  const u32 token = token_of(p, pair), u = (u32)pair - token * (u32)p.used;
  return at<const char>(o.data) + token * o.strides[0] + u * o.strides[1];
}

/// A row of an expert's weights: where it begins, and how many sixteens of planes lie before it.
struct WeightRow {
  const char* from;  // null: no row
  i64 before;

  DEV WeightRow() : from(nullptr), before(0) {}
  DEV WeightRow(const Operand& b, i64 row_sixteens, i64 expert, i64 row, i64 rows)
      : from(at<const char>(b.data) + expert * b.strides[0] + row * b.strides[1]), before((expert * rows + row) * row_sixteens) {}
  /// Its blocks, if it is in a block format.
  DEV Blocks blocks(const Blocks& pieces) const {
    Blocks own = pieces;
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) own.plane[piece] += (Address)from;
    return own;
  }
};

/// Sixteen elements of a row, by vectors where it has floats one behind the other.
DEV void load_sixteen(const Operand& o, const char* row, i64 sixteen, float* out) {
  const char* from = row + sixteen * 16 * o.step;
  if (o.dtype == F32 && o.step == 4 && ((Address)from & 15) == 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 v = reinterpret_cast<const float4*>(from)[i];
      out[4 * i] = v.x;
      out[4 * i + 1] = v.y;
      out[4 * i + 2] = v.z;
      out[4 * i + 3] = v.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) out[i] = load_at(o, from, i);
}

/// The expert of a tile, and its first pair and count in the order; false: there is no such tile.
DEV bool pairs_of_tile(const ExpertParams& p, int tile, int& expert, int& first, int& count) {
  const int* tiles = at<const int>(p.tiles);
  if (tile >= tiles[p.experts]) return false;
  int low = 0, high = (int)p.experts - 1;  // the last expert whose tiles start at or before this one
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tiles[middle] <= tile) low = middle;
    else high = middle - 1;
  }
  expert = low;
  first = at<const int>(p.start)[low] + (tile - tiles[low]) * p.tile_pairs;
  count = min(p.tile_pairs, at<const int>(p.start)[low + 1] - first);
  return true;
}
