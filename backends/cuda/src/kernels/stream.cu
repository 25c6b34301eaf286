// y = W x for one row of int8 activations by dp4a, for cards with bulk copies (9.0 and newer).
//
//   block    two teams of 8 warps that compute and one that asks for weights; a team takes 16 rows of W at a time, two a warp (under glu
//            one of gate and one of up). One block fills a multiprocessor, also where there are no more blocks than these
//   input    int8 activations that a kernel made, or f32 that every block quantises itself (most_raw at most): then outputs need not meet in
//            blocks of 32, so that tiles spread over all multiprocessors
//   memory   stages of 16 whole rows, or 8, 4 or 2 where they are long: warps then share a row, and meet to add their sums. A piece of a stage is
//            one bulk copy, which takes 60 cycles of the multiprocessor, whatever its length. The first come before the kernel before has ended
//   lanes    those of dot.cuh: 64 weights of a K format or a block of 32; one read of the activations serves both rows
//   banks    chunk t (16 bytes) of the activations lies at t ^ bit 3 of t ^ 6 x bit 4 of t: lanes 16, 32 or 64 elements apart share none
//   adapters kernels of their own, too: see adapters.cuh
//   groups   kernels of their own for the formats of quantised directories: see group_dot.cuh
//   general  kernels of their own for what few models have: fronts (front.cuh), activations other than SwiGLU, two residuals. Their code would
//            lie between the products of all others
//   why not  the matrix units: with one row of activations seven of eight sums are thrown away and still scaled: 4 instructions a weight
//            against 1 (H200, ncu: 11.4 M instructions for gate and up of a 7B Q4_K, 35 us)
#include "activation.cuh"
#include "adapters.cuh"
#include "dot.cuh"
#include "front.cuh"
#include "group_dot.cuh"
#include "quantise.cuh"
#include "stages.cuh"

#if __CUDA_ARCH__ >= 900
enum { TEAMS = 2, TEAM = (WARPS + 1) * 32, COMPUTING = TEAMS * THREADS, RAW_TURNS = 4 };  // 4 x COMPUTING x 4 values of raw activations

struct StreamShared {
  u64 full[TEAMS][4], empty[TEAMS][4];
  float sums[2][TEAMS][2][ROWS][WARPS];  // of even and odd turns, a team's tiles: each row, in the parts of the warps that share it
  float partial[TEAMS * WARPS];  // each warp's part of the sum of squares
  float factor[TEAMS * (WARPS + 1)];  // of each warp's results: registers are scarce
  FrontSums<TEAMS * WARPS> front;
  AdaptersShared adapters;
};
static_assert(sizeof(StreamShared) <= tiles_fixed_bytes, "the host leaves less room");

DEV int swizzled(int t) { return (t ^ (t >> 3 & 1) ^ (t >> 4 & 1) * 6) * 16; }

/// Where a lane's items of a row are in a stage: of row `own`, under glu of gate or of up. `block` is the first block of the stage's rows,
/// counted in the matrix: pieces that are no sixteens start in the sixteen of their first byte.
template <int F> DEV Place staged(const TilesParams::Pieces& q, const char* stage, int own, bool up, u32 block) {
  typedef Item<F> S;
  const int lane = threadIdx.x & 31, c = lane & 3, b = S::k ? lane >> 2 : lane;
  const auto piece = [&](int i) { return stage + q.base[i] + own * q.pitch[i] + (up ? q.half[i] : 0); };
  Place l;
  if (F == Q4_K || F == Q5_K) {
    const char* first = piece(0);
    l.scales = first + b * S::scales;
    l.codes = first + (F == Q4_K ? 16 : 48) + b * S::codes + c * 32;
    if (F == Q5_K) l.high = first + 16 + b * S::high;
    return l;
  }
  l.scales = piece(0) + (block * S::scales & 15) + b / S::with_scale * (S::with_scale * S::scales);
  l.codes = piece(1) + b * S::codes + (S::k ? c * 32 : 0);
  if (F == Q6_K) {
    l.high = piece(2) + b * S::high + c / 2 * 32;
    l.sub = piece(3) + b * 16 + c / 2 * 8 + (c & 1) * 2;
  }
  if (F == Q5_0 || F == Q5_1) l.high = piece(2) + (block * 4 & 15) + b * S::high;
  return l;
}

/// Adds the dot products of two rows of a stage whose first row is `row` of its matrix: those of the `share`-th
/// p.share elements of k, in turns of the warp.
template <int F>
DEV void stage_dots(const TilesParams& p, const TilesParams::Pieces& q, int share, int r, u32 row, const char* stage,
                    const char* codes, const char* meta, float (*acc)[1]) {
  typedef Item<F> S;
  const int lane = threadIdx.x & 31, c = lane & 3;
  const int all = p.g.k / (S::k ? 256 : 32), items = all * (S::k ? 4 : 1);
  const Place place[2] = {staged<F>(q, stage, r, false, row * all), staged<F>(q, stage, p.g.glu ? r : r + 1, p.g.glu != 0, row * all)};
  const int element = !S::k ? lane * 32 : (lane >> 2) * 256 + (F == Q6_K ? c / 2 * 128 + (c & 1) * 32 : c * 64);
  const int t = element / 16, apart = F == Q6_K ? 4 : 2;
  // A turn of the warp is 64 or 128 chunks on: that changes no bit that decides the order of banks.
  const char *q0 = codes + swizzled(t), *q1 = codes + swizzled(t + 1), *q2 = codes + swizzled(t + apart),
             *q3 = codes + swizzled(t + apart + 1);
  const char* m = meta + t / 2 * 8;
  const GroupDot<F> dot((u32)p.g.t - 1);
  const int first = share * p.share / S::elements, last = min(items, first + p.share / S::elements);
#pragma unroll 1
  for (int item = first + lane; item < last; item += 32) {
    const int s = item >> 5, on = s * 32 * S::elements;
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
    for (int j = 0; j < 2; ++j) {
      const Raw raw = load<F, true>(place[j], s);
      if constexpr (S::grouped) acc[j][0] = dot.add(raw, x[0], acc[j][0]);
      else item_dot<F, 1>(raw, x, lane, acc[j]);
    }
  }
}

/// GROUPS: of quantised directories.
#define GROUP_CASE(name, FORMAT) FORMAT_CASE(FORMAT)
#define FOR_FORMAT(dtype) \
  if constexpr (GROUPS) switch (dtype) { QUERN_CUDA_GROUP_FORMATS(GROUP_CASE) } \
  else switch (dtype) { FAST_FORMAT_CASES }

/// Activations of a block, from memory or made here, as codes and meta in shared memory; their part in s.partial. All that compute.
template <bool GENERAL> DEV void take_input(const TilesParams& p, StreamShared& s, char* codes, char* meta, int thread) {
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
  if (GENERAL && p.front.kind) make_front<COMPUTING>(p.front, x, g.k, thread, s.front, [] { meet<COMPUTING>(); });
  const float offset = p.raw_weight ? p.raw_offset : 0.0f;
  float squares = 0.0f;
#pragma unroll
  for (int n = 0; n < RAW_TURNS; ++n) {
    const int i = thread + n * COMPUTING;
    if (n > 0 && n * COMPUTING >= quads) break;
    const float4 w = weights[n];
    squares = fmaf(x[n].x, x[n].x, fmaf(x[n].y, x[n].y, fmaf(x[n].z, x[n].z, fmaf(x[n].w, x[n].w, squares))));
    const float a = x[n].x * (w.x + offset), b = x[n].y * (w.y + offset), c = x[n].z * (w.z + offset), d = x[n].w * (w.w + offset);
    u32 bits = max(max(size_bits(a), size_bits(b)), max(size_bits(c), size_bits(d)));
#pragma unroll
    for (int o = 4; o; o >>= 1) bits = max(bits, __shfl_xor_sync(~0u, bits, o));
    const float most = __uint_as_float(bits), scale = most / 127.0f, inverse = most > LEAST_CODED ? 127.0f / most : 0.0f;
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

/// What is added to an output: bias and residual.
template <bool GENERAL> DEV float addend_of(const GemvParams& g, const GemvPart& q, int output) {
  const float bias = q.bias ? at<const float>(q.bias)[output] : 0.0f, one = g.residual ? bias + at<const float>(g.residual)[output] : bias;
  return GENERAL && g.residual2 ? one + at<const float>(g.residual2)[output] : one;
}
/// Gate and up, or one result, as they are stored.
template <bool GENERAL> DEV float made_of(const GemvParams& g, float a, float b, float addend) {
  if (!GENERAL) return (g.glu ? __fmul_rn(SILU(a), b) : a) + addend;
  const float y = other_gate(g.glu ? a : a + addend, g.activation);
  return g.glu ? __fmul_rn(y, b) + addend : y;
}
DEV float shared_sum(const float* parts, int count) {
  float v = parts[0];
  for (int i = 1; i < count; ++i) v += parts[i];
  return v;
}

/// 32 outputs of a block at a time, which are quantised for the next product; or tiles of 16 rows, spread over all teams of the grid.
/// SHARES: several warps may have a row between them, p.rows is any; else it is 16. ADAPTED: some part has adapters; then there is no front.
template <bool QUANTISES, bool SHARES, bool GENERAL = false, bool ADAPTED = false, bool GROUPS = false> DEV void stream(const TilesParams& p, char* memory) {
  StreamShared& s = *reinterpret_cast<StreamShared*>(memory);
  const GemvParams& g = p.g;
  const int team = threadIdx.x / TEAM, warp = threadIdx.x % TEAM >> 5, lane = threadIdx.x & 31, thread = (team * WARPS + warp) * 32 + lane;
  char* codes = memory + (sizeof(StreamShared) + 127) / 128 * 128;
  char* meta = codes + (g.k + 127) / 128 * 128;
  char* stages = memory + p.stage_offset + team * p.stages * p.stage_bytes;
  // Blocks go through memory side by side, and share parts of dear formats. Spread, a team takes one tile of a turn.
  const int tiles = QUANTISES ? p.subtiles >> 1 : 1;  // of each team
  const int first_tile = QUANTISES ? blockIdx.x * p.subtiles + team * tiles : blockIdx.x + team * gridDim.x;
  const int apart = gridDim.x * (QUANTISES ? p.subtiles : TEAMS);
  u64 *full = s.full[team], *empty = s.empty[team];
  if (!p.settles) start_next();
  init_stages(TEAMS * 4, s.full[0], s.empty[0]);
  if (warp == WARPS) {
    const int turns = QUANTISES ? p.groups : max(0, (p.subtiles - first_tile + apart - 1) / apart);
    return ask_all(p, first_tile, turns * tiles, tiles, apart, stages, full, empty);
  }
  // So many warps share a pair of rows as a tile has stages: the turns of the row go round among them.
  const int rows = SHARES ? p.rows : ROWS, shares = SHARES ? p.chunks : 1, pair = warp & (rows / 2 - 1);
  const int r = g.glu ? pair : 2 * pair, outputs = g.glu ? rows / 2 : rows;
  float acc[2][1] = {};
  int slot = 0;
  u32 parity = 0;
  const Adapters& adapters = p.adapters;
  FirstRank<COMPUTING> first_rank;
  const auto find = [&] {
    find_adapters(adapters, s.adapters, g.k, thread);
    meet<COMPUTING>();
    first_rank.ask(adapters, s.adapters, g.k, thread);
  };
  if (ADAPTED && adapters.early) find();
  take_input<GENERAL>(p, s, codes, meta, thread);
  if (ADAPTED) {
    if (!adapters.early) find();
    make_low(adapters, s.adapters, first_rank, g.k, thread, [] { meet<COMPUTING>(); });
  }
  meet<COMPUTING>();
  float square_sum = 0.0f;
#pragma unroll
  for (int i = 0; i < TEAMS * WARPS; ++i) square_sum += s.partial[i];
  const bool normalises = p.raw ? p.raw_norm != 0 : g.x.sums != 0;
  const float own_factor = normalises ? 1.0f / sqrtf(square_sum / (float)g.k + g.x.epsilon) : 1.0f;
  if (SHARES && lane == 0) s.factor[threadIdx.x >> 5] = own_factor;
  __syncwarp();
  const auto factor = [&] { return SHARES ? s.factor[threadIdx.x >> 5] : own_factor; };
  // Two buffers of sums: a warp comes to the next turn's end when all have left this one's.
#pragma unroll 1
  for (int from = first_tile, turn = 0; QUANTISES ? turn < p.groups : from < p.subtiles; from += apart, ++turn) {
    const int odd = turn & 1;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      int first;
      const int part = part_of(g, from + tile, first);
      const GemvPart& q = g.part[part];
      // The lane that makes an output: of rows of one warp there, else one of the team's first warp.
      const int output = first + (shares == 1 ? r + (g.glu ? 0 : lane) : lane);
      const bool makes =
          !QUANTISES && output < q.rows && (shares == 1 ? lane <= (g.glu ? 0 : 1) : warp == 0 && lane < (g.glu ? ROWS / 2 : ROWS));
      float addend = makes ? addend_of<GENERAL>(g, q, output) : 0.0f, a = 0.0f, b = 0.0f;
#pragma unroll 1
      for (int chunk = 0; chunk < shares; ++chunk) {
        const int share = ((warp >> __popc(rows / 2 - 1)) + chunk) & (shares - 1);
        const u32 row = first + chunk * outputs;
        const int other = g.glu ? 1 : 0;  // part and row of the second, from the first on
        float of_own = 0.0f, of_other = 0.0f;
        if (ADAPTED && share == 0) {
          of_own = row_of_b(adapters, s.adapters, part, row + r, lane);
          of_other = row_of_b(adapters, s.adapters, part + other, row + r + 1 - other, lane);
        }
        barrier_wait(&full[slot], parity);
#define CALL(F) stage_dots<F>(p, p.pieces[part], share, r, row, stages + slot * p.stage_bytes, codes, meta, acc)
        FOR_FORMAT(q.w.dtype)
#undef CALL
        __syncwarp();
        warp_arrive(&empty[slot], lane);
        if (++slot == p.stages) {
          slot = 0;
          parity ^= 1;
        }
        if (ADAPTED && threadIdx.x < 32) take_low(adapters, s.adapters, lane);
        if (ADAPTED && share == 0) {
          wait_for_low(s.adapters);
          acc[0][0] += times_low(adapters, s.adapters, part, row + r, lane, of_own);
          acc[1][0] += times_low(adapters, s.adapters, part + other, row + r + 1 - other, lane, of_other);
        }
        a = sum_of_lanes(acc[0][0]);
        b = sum_of_lanes(acc[1][0]);
        acc[0][0] = acc[1][0] = 0.0f;
        if ((QUANTISES || shares > 1) && lane == 0) {
          float(*sums)[WARPS] = s.sums[odd][team][tile] + chunk * outputs + r;
          sums[0][share] = a;
          sums[g.glu ? ROWS / 2 : 1][share] = b;
        }
      }
      if (QUANTISES) continue;
      if (shares > 1) {
        meet_at(2 + team, THREADS);
        if (makes) {
          a = shared_sum(s.sums[odd][team][0][lane], shares);
          b = g.glu ? shared_sum(s.sums[odd][team][0][lane + ROWS / 2], shares) : a;
        }
      }
      if (!makes) continue;
      a = __fmul_rn(a, factor());  // rounded here, as in tiles.cu: a row has the same bits in both
      b = __fmul_rn(b, factor());
      const float y = made_of<GENERAL>(g, g.glu || lane == 0 || shares > 1 ? a : b, b, addend);
      if (q.y) at<float>(q.y)[output] = y;
    }
    if (!QUANTISES) continue;
    meet<COMPUTING>();
    const int out_group = from >> (g.glu ? 2 : 1), output = out_group * 32 + lane;
    if (threadIdx.x >= 32 || out_group >= g.part[0].rows / 32) continue;
    // The group's outputs are those of its tiles, 16 or, under glu, 8 each.
    float(*sums)[WARPS] = g.glu ? s.sums[odd][lane >> 4][lane >> 3 & 1] + (lane & 7) : s.sums[odd][lane >> 4][0] + (lane & 15);
    const float a = __fmul_rn(shared_sum(sums[0], shares), factor()), b = g.glu ? __fmul_rn(shared_sum(sums[ROWS / 2], shares), factor()) : 0.0f;
    const float v = made_of<GENERAL>(g, a, b, addend_of<GENERAL>(g, g.part[0], output));
    if (g.part[0].y) at<float>(g.part[0].y)[output] = v;
    const float weight = g.out_weight ? at<const float>(g.out_weight)[output] + g.out_offset : 1.0f;
    quantise32(v * weight, g.out, out_group, lane);
    if (g.out.sums) {
      const float squares = warp_sum_of_squares(v);
      if (lane == 0) at<float>(g.out.sums)[out_group] = squares;
    }
  }
  if (ADAPTED) leave_words(adapters, s.adapters, TEAMS * WARPS, lane);
}
#endif

#if __CUDA_ARCH__ >= 900
#define STREAM(...) \
  SHARED_BYTES(memory);   \
  stream<__VA_ARGS__>(p, memory);
#else
#define STREAM(...)
#endif
#define STREAM_KERNEL(name, ...) \
  extern "C" __global__ void __launch_bounds__(576, 1) name(const __grid_constant__ TilesParams p) { STREAM(__VA_ARGS__) }
STREAM_KERNEL(stream_1, false, true)
STREAM_KERNEL(stream_short_1, false, false)
STREAM_KERNEL(stream_quantise_1, true, true)
STREAM_KERNEL(stream_general_1, false, true, true)
STREAM_KERNEL(stream_general_quantise_1, true, true, true)
STREAM_KERNEL(stream_adapted_1, false, true, false, true)
STREAM_KERNEL(stream_adapted_quantise_1, true, true, false, true)
STREAM_KERNEL(stream_adapted_general_1, false, true, true, true)
STREAM_KERNEL(stream_adapted_general_quantise_1, true, true, true, true)
STREAM_KERNEL(stream_groups_1, false, true, false, false, true)
STREAM_KERNEL(stream_groups_quantise_1, true, true, false, false, true)
STREAM_KERNEL(stream_groups_general_1, false, true, true, false, true)
STREAM_KERNEL(stream_groups_general_quantise_1, true, true, true, false, true)
STREAM_KERNEL(stream_groups_adapted_1, false, true, false, true, true)
STREAM_KERNEL(stream_groups_adapted_quantise_1, true, true, false, true, true)
STREAM_KERNEL(stream_groups_adapted_general_1, false, true, true, true, true)
STREAM_KERNEL(stream_groups_adapted_general_quantise_1, true, true, true, true, true)
