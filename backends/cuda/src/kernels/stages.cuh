// How tiles.cu and stream.cu get weights: stages of 16 rows x a chunk of k in shared memory, filled by one warp's bulk copies, emptied by
// eight warps that compute.
#pragma once
#include "bulk.cuh"
#include "row_pieces.hpp"

#if __CUDA_ARCH__ >= 900
enum { WARPS = tiles_warps, THREADS = WARPS * 32, ROWS = tiles_rows };

/// Row `r` of the 16 that start at output `first` of a part.
DEV const Blocks& rows_of(const TilesParams& p, int part, int first, int r, i64& row) {
  const bool up = p.g.glu && r >= 8;
  row = min(first + (p.g.glu ? r & 7 : r), p.g.part[part].rows - 1);
  return p.g.part[up ? 1 : part].w;
}

/// The part of the 16 rows number `index`, and its first output there.
DEV int part_of(const GemvParams& g, int index, int& first) {
  int part = 0;
  first = index * (g.glu ? 8 : ROWS);
  if (!g.glu)
    while (part < g.parts - 1 && first >= g.part[part].rows) first -= g.part[part++].rows;
  return part;
}

/// A lane asks for one chunk of k of row `lane` of 16.
DEV void ask(const TilesParams& p, int part, int first, int chunk, char* stage, u64* barrier) {
  const int lane = threadIdx.x & 31;
  const TilesParams::Pieces& q = p.pieces[part];
  const int chunk_units = p.chunk / q.elements, all = p.g.k / q.elements, units = min(chunk_units, all - chunk * chunk_units);
  i64 row;
  const Blocks& w = rows_of(p, part, first, lane, row);
  const i64 block = row * all + chunk * chunk_units;
  u32 total = 0;
#pragma unroll 1
  for (int i = 0; i < q.count; ++i) {
    const i64 from = block * q.bytes[i];
    total += (u32)(((from + (i64)units * q.bytes[i] + 15) & ~15ll) - (from & ~15ll));
  }
  barrier_expect(barrier, total);
#pragma unroll 1
  for (int i = 0; i < q.count; ++i) {
    const i64 from = block * q.bytes[i], start = from & ~15ll;
    bulk_copy_once(stage + lane * q.pitch[i], at<const char>(w.plane[i]) + start,
                   (u32)(((from + (i64)units * q.bytes[i] + 15) & ~15ll) - start), barrier);
    stage += ROWS * q.pitch[i];
  }
}

/// The same of p.rows whole rows, from row `first` of a part on: a lane asks for a piece, or under glu for a piece of gate's or of up's half.
DEV void ask_whole(const TilesParams& p, int part, int first, char* stage, u64* barrier) {
  const int lane = threadIdx.x & 31, piece = lane >> 1, half = lane & 1;
  const TilesParams::Pieces& q = p.pieces[part];
  const int of = p.g.glu && half ? 1 : part, rows = p.g.glu ? p.rows / 2 : half ? 0 : p.rows;
  const int there = piece < q.count ? max(0, min(rows, p.g.part[of].rows - first)) : 0;
  const i64 from = (i64)first * q.pitch[piece & 3], start = from & ~15ll;
  const u32 bytes = there ? ((u32)(from - start) + (u32)there * q.pitch[piece] + 15) & ~15u : 0;
  barrier_expect(barrier, bytes);
  if (bytes)
    bulk_copy_once(stage + q.base[piece] + half * q.half[piece], at<const char>(p.g.part[of].w.plane[piece]) + start, bytes, barrier);
}

/// All threads of the block; `count` stages.
DEV void init_stages(int count, u64* full, u64* empty) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      barrier_init(&full[i], ROWS);
      barrier_init(&empty[i], WARPS * WARP_ARRIVALS);
    }
    fence_barriers();
  }
  __syncthreads();
}

/// The ninth warp: asks for all stages of `tiles` tiles, each when it is empty: runs of `run` tiles, their starts `apart`. Weights are
/// written by no kernel: it need not wait before.
DEV void ask_all(const TilesParams& p, int first_tile, int tiles, int run, int apart, char* stages, u64* full, u64* empty) {
  if ((threadIdx.x & 31) < ROWS)
    for (int step = 0; step < tiles * p.chunks; ++step) {
      const int slot = step % p.stages, turn = step / p.stages, chunk = step % p.chunks;
      if (turn > 0) barrier_wait(&empty[slot], (u32)(turn - 1) & 1u);
      int first;
      const int part = part_of(p.g, first_tile + step / p.chunks / run * apart + step / p.chunks % run, first);
      if (p.rows) ask_whole(p, part, first + chunk * (p.g.glu ? p.rows / 2 : p.rows), stages + slot * p.stage_bytes, &full[slot]);
      else ask(p, part, first, chunk, stages + slot * p.stage_bytes, &full[slot]);
    }
  wait_previous();
}

#ifndef QUERN_EMULATED_CARD
/// The warps that compute, all of them: so many threads.
template <int COUNT> DEV void meet() { asm volatile("bar.sync 1, %0;" ::"n"(COUNT) : "memory"); }
/// The same of one of the block's other barriers.
DEV void meet_at(int barrier, int count) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory"); }
#endif
#endif
