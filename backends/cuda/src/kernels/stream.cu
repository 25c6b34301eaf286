// y = W x for one row of int8 activations by dp4a, for cards with bulk copies (9.0 and newer).
//
//   block    two teams of 8 warps that compute and one that asks for weights; a team takes 16 rows of W at a time, two a warp (under glu
//            one of gate and one of up). One block fills a multiprocessor, also where there are no more blocks than these
//   input    int8 activations that a kernel made, or f32 that every block quantises itself (most_raw at most): then outputs need not meet in
//            blocks of 32, so that tiles spread over all multiprocessors
//   memory   as tiles.cu: stages of 16 rows x a chunk of k, filled by bulk copies, the first before the kernel before has ended. Warps
//            meet at the barriers of stages alone
//   lanes    those of dot.cuh: 64 weights of a K format or a block of 32; one read of the activations serves both rows
//   banks    chunk t (16 bytes) of the activations lies at t ^ bit 3 of t ^ 6 x bit 4 of t: lanes 16, 32 or 64 elements apart share none
//   why not  the matrix units: with one row of activations seven of eight sums are thrown away and still scaled: 4 instructions a weight
//            against 1 (H200, ncu: 11.4 M instructions for gate and up of a 7B Q4_K, 35 us)
#include "dot.cuh"
#include "quantise.cuh"
#include "stages.cuh"

#if __CUDA_ARCH__ >= 900
enum { TEAMS = 2, TEAM = (WARPS + 1) * 32, COMPUTING = TEAMS * THREADS, RAW_TURNS = 4 };  // 4 x COMPUTING x 4 values of raw activations

struct StreamShared {
  u64 full[TEAMS][4], empty[TEAMS][4];
  float made[2][32];  // of even and odd groups: one barrier a group keeps them apart
  float partial[TEAMS * WARPS];  // each warp's part of the sum of squares
};

DEV int swizzled(int t) { return (t ^ (t >> 3 & 1) ^ (t >> 4 & 1) * 6) * 16; }

/// Where a lane's items of a row are in a stage. `block` is the row's first block of the chunk, counted in the matrix: rows of pieces
/// that are no sixteens start in the sixteen of their first byte.
template <int F> DEV Place staged(const TilesParams::Pieces& q, const char* stage, int own, u32 block) {
  typedef Item<F> S;
  const int lane = threadIdx.x & 31, c = lane & 3, b = S::k ? lane >> 2 : lane;
  const char* first = stage + own * q.pitch[0];
  Place l;
  if (F == Q4_K || F == Q5_K) {
    l.scales = first + b * S::scales;
    l.codes = first + (F == Q4_K ? 16 : 48) + b * S::codes + c * 32;
    if (F == Q5_K) l.high = first + 16 + b * S::high;
    return l;
  }
  l.scales = first + (block * S::scales & 15) + b * S::scales;
  l.codes = stage + q.base[1] + own * q.pitch[1] + b * S::codes + (S::k ? c * 32 : 0);
  if (F == Q6_K) {
    l.high = stage + q.base[2] + own * q.pitch[2] + b * S::high + c / 2 * 32;
    l.sub = stage + q.base[3] + own * q.pitch[3] + b * 16 + c / 2 * 8 + (c & 1) * 2;
  }
  if (F == Q5_0 || F == Q5_1) l.high = stage + q.base[2] + own * q.pitch[2] + (block * 4 & 15) + b * S::high;
  return l;
}

/// Adds a chunk's dot products of rows r and r2 of a stage, which are rows `row` and `row2` of their matrices.
template <int F>
DEV void stage_dots(const TilesParams& p, const TilesParams::Pieces& q, int chunk, int r, int r2, u32 row, u32 row2, const char* stage,
                    const char* codes, const char* meta, float (*acc)[1]) {
  typedef Item<F> S;
  const int lane = threadIdx.x & 31, c = lane & 3;
  const int chunk_units = p.chunk / (S::k ? 256 : 32), all = p.g.k / (S::k ? 256 : 32), unit0 = chunk * chunk_units;
  const int items = min(chunk_units, all - unit0) * (S::k ? 4 : 1);
  const Place place[2] = {staged<F>(q, stage, r, p.whole ? 0 : row * all + unit0), staged<F>(q, stage, r2, p.whole ? 0 : row2 * all + unit0)};
  const int element = !S::k ? lane * 32 : (lane >> 2) * 256 + (F == Q6_K ? c / 2 * 128 + (c & 1) * 32 : c * 64);
  const int t = unit0 * (S::k ? 16 : 2) + element / 16, apart = F == Q6_K ? 4 : 2;
  // A turn of the warp is 64 or 128 chunks on: that changes no bit that decides the order of banks.
  const char *q0 = codes + swizzled(t), *q1 = codes + swizzled(t + 1), *q2 = codes + swizzled(t + apart),
             *q3 = codes + swizzled(t + apart + 1);
  const char* m = meta + t / 2 * 8;
#pragma unroll 1
  for (int s = 0, item = lane; item < items; ++s, item += 32) {
    const int on = s * 32 * S::elements;
    Input x[1];
    x[0].q[0] = *reinterpret_cast<const uint4*>(q0 + on);
    x[0].q[1] = *reinterpret_cast<const uint4*>(q1 + on);
    x[0].m[0] = *reinterpret_cast<const float2*>(m + on / 4);
    if (S::k) {
      x[0].q[2] = *reinterpret_cast<const uint4*>(q2 + on);
      x[0].q[3] = *reinterpret_cast<const uint4*>(q3 + on);
      x[0].m[1] = *reinterpret_cast<const float2*>(m + apart * 4 + on / 4);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) item_dot<F, 1>(load<F, true>(place[j], s), x, lane, acc[j]);
  }
}

#define FOR_FORMAT(dtype, CALL) \
  switch (dtype) { \
    case Q4_0: CALL(Q4_0); break; \
    case Q4_1: CALL(Q4_1); break; \
    case Q5_0: CALL(Q5_0); break; \
    case Q5_1: CALL(Q5_1); break; \
    case Q8_0: CALL(Q8_0); break; \
    case Q4_K: CALL(Q4_K); break; \
    case Q5_K: CALL(Q5_K); break; \
    default: CALL(Q6_K); break; \
  }

/// Activations of a block, from memory or made here, as codes and meta in shared memory; their part in s.partial. All that compute.
DEV void take_input(const TilesParams& p, StreamShared& s, char* codes, char* meta, int thread) {
  const GemvParams& g = p.g;
  const int lane = thread & 31;
  if (!p.raw) {
    wait_previous();
    if (p.settles) start_next();
    float square_sum = 0.0f;
    if (thread < 32 && g.x.sums) {
#pragma unroll 4
      for (int i = lane; i < g.x.sum_count; i += 32) square_sum += at<const float>(g.x.sums)[i];
    }
    const int code_chunks = g.k / 16, meta_chunks = g.k / 64;
#pragma unroll 2
    for (int i = thread; i < code_chunks + meta_chunks; i += COMPUTING) {
      const bool of_codes = i < code_chunks;
      const uint4 v = of_codes ? at<const uint4>(g.x.codes)[i] : at<const uint4>(g.x.meta)[i - code_chunks];
      *reinterpret_cast<uint4*>(of_codes ? codes + swizzled(i) : meta + (i - code_chunks) * 16) = v;
    }
    if (thread < 32) square_sum = warp_sum(square_sum);
    if (lane == 0) s.partial[thread >> 5] = thread == 0 ? square_sum : 0.0f;
    return;
  }
  // Eight lanes share 32 values. The weights of the norm come before the wait.
  const int quads = g.k / 4;
  const auto weight = [&](int i) { return p.raw_weight && i < quads ? at<const float4>(p.raw_weight)[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f); };
  float4 weights[RAW_TURNS];
#pragma unroll
  for (int n = 0; n < RAW_TURNS; ++n) weights[n] = weight(thread + n * COMPUTING);
  wait_previous();
  if (p.settles) start_next();
  float4 x[RAW_TURNS];
#pragma unroll
  for (int n = 0; n < RAW_TURNS; ++n) {
    const int i = thread + n * COMPUTING;
    x[n] = i < quads ? __ldcg(at<const float4>(p.raw) + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  const float offset = p.raw_weight ? p.raw_offset : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int n = 0; n < RAW_TURNS; ++n) {
    const int i = thread + n * COMPUTING;
    if (n > 0 && n * COMPUTING >= quads) break;
    const float4 w = weights[n];
    squares = fmaf(x[n].x, x[n].x, fmaf(x[n].y, x[n].y, fmaf(x[n].z, x[n].z, fmaf(x[n].w, x[n].w, squares))));
    const float a = x[n].x * (w.x + offset), b = x[n].y * (w.y + offset), c = x[n].z * (w.z + offset), d = x[n].w * (w.w + offset);
    float most = fmaxf(fmaxf(fabsf(a), fabsf(b)), fmaxf(fabsf(c), fabsf(d)));
#pragma unroll
    for (int o = 4; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    const float scale = most / 127.0f, inverse = most > 0.0f ? 127.0f / most : 0.0f;
    const u32 four = (u32)(__float2int_rn(a * inverse) & 0xff) | (u32)(__float2int_rn(b * inverse) & 0xff) << 8 |
                     (u32)(__float2int_rn(c * inverse) & 0xff) << 16 | (u32)__float2int_rn(d * inverse) << 24;
    int sum = __dp4a((int)four, 0x01010101, 0);
#pragma unroll
    for (int o = 4; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (i < quads) {
      *reinterpret_cast<u32*>(codes + swizzled(i >> 2) + (i & 3) * 4) = four;
      if ((lane & 7) == 0) *reinterpret_cast<float2*>(meta + (i >> 3) * 8) = make_float2(scale, (float)sum);
    }
  }
  squares = warp_sum(squares);
  if (lane == 0) s.partial[thread >> 5] = squares;
}

/// 32 outputs of a block at a time, which are quantised for the next product; or tiles of 16 rows, spread over all teams of the grid.
template <bool QUANTISES> DEV void stream(const TilesParams& p, char* memory) {
  StreamShared& s = *reinterpret_cast<StreamShared*>(memory);
  const GemvParams& g = p.g;
  const int team = threadIdx.x / TEAM, warp = threadIdx.x % TEAM >> 5, lane = threadIdx.x & 31, thread = (team * WARPS + warp) * 32 + lane;
  char* codes = memory + (sizeof(StreamShared) + 127) / 128 * 128;
  char* meta = codes + (g.k + 127) / 128 * 128;
  char* stages = memory + p.stage_offset + team * p.stages * p.stage_bytes;
  // Blocks go through memory side by side, and share parts of dear formats. Spread, a team takes one tile of a turn.
  const int tiles = QUANTISES ? p.subtiles / TEAMS : 1;
  const int first_tile = QUANTISES ? blockIdx.x * p.subtiles + team * tiles : blockIdx.x + team * gridDim.x;
  const int apart = gridDim.x * (QUANTISES ? p.subtiles : TEAMS);
  const int end = QUANTISES ? first_tile + p.groups * apart : p.subtiles;
  u64 *full = s.full[team], *empty = s.empty[team];
  if (!p.settles) start_next();
  init_stages(TEAMS * 4, s.full[0], s.empty[0]);
  if (warp == WARPS) return ask_all(p, first_tile, max(0, (end - first_tile + apart - 1) / apart) * tiles, tiles, apart, stages, full, empty);
  const int r = g.glu ? warp : 2 * warp, r2 = g.glu ? warp + 8 : 2 * warp + 1;
  float acc[2][1] = {};
  int slot = 0;
  u32 parity = 0;
  take_input(p, s, codes, meta, thread);
  meet<COMPUTING>();
  float square_sum = 0.0f;
#pragma unroll
  for (int i = 0; i < TEAMS * WARPS; ++i) square_sum += s.partial[i];
  const bool normalises = p.raw ? p.raw_norm != 0 : g.x.sums != 0;
  const float factor = normalises ? 1.0f / sqrtf(square_sum / (float)g.k + g.x.epsilon) : 1.0f;
#pragma unroll 1
  for (int from = first_tile; from < end; from += apart) {
    const int odd = from / apart & 1;  // where QUANTISES
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      int first;
      const int part = part_of(g, from + tile, first);
      const GemvPart& q = g.part[part];
      const int output = first + r + (g.glu ? 0 : lane), last = q.rows - 1;
      const u32 row = min(first + r, last), row2 = min(first + (g.glu ? r : r2), last);
      const bool makes = lane <= (g.glu ? 0 : 1) && output < q.rows;
      float addend = 0.0f;
      if (makes && q.bias) addend = at<const float>(q.bias)[output];
      if (makes && g.residual) addend += at<const float>(g.residual)[output];
#pragma unroll 1
      for (int chunk = 0; chunk < p.chunks; ++chunk) {
        barrier_wait(&full[slot], parity);
#define DOTS(F) stage_dots<F>(p, p.pieces[part], chunk, r, r2, row, row2, stages + slot * p.stage_bytes, codes, meta, acc)
        FOR_FORMAT(q.w.dtype, DOTS)
        __syncwarp();
        if (lane == 0) barrier_arrive(&empty[slot]);
        if (++slot == p.stages) {
          slot = 0;
          parity ^= 1;
        }
      }
      const float a = warp_sum(acc[0][0]) * factor, b = warp_sum(acc[1][0]) * factor;
      acc[0][0] = acc[1][0] = 0.0f;
      if (!makes) continue;
      const float y = (g.glu ? SILU(a) * b : lane == 0 ? a : b) + addend;
      if (QUANTISES) s.made[odd][output % 32] = y;
      if (q.y) at<float>(q.y)[output] = y;
    }
    if (!QUANTISES) continue;
    meet<COMPUTING>();
    const int out_group = from / p.subtiles;
    if (thread >= 32 || out_group >= g.part[0].rows / 32) continue;
    const float v = s.made[odd][lane], weight = g.out_weight ? at<const float>(g.out_weight)[out_group * 32 + lane] + g.out_offset : 1.0f;
    quantise32(v * weight, g.out, out_group, lane);
    if (g.out.sums) {
      const float squares = warp_sum(v * v);
      if (lane == 0) at<float>(g.out.sums)[out_group] = squares;
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(576, 1) stream_1(const __grid_constant__ TilesParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  stream<false>(p, memory);
#endif
}
extern "C" __global__ void __launch_bounds__(576, 1) stream_quantise_1(const __grid_constant__ TilesParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  stream<true>(p, memory);
#endif
}
