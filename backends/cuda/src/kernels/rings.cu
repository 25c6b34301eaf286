// y = W x for one row of activations, for cards with bulk copies (9.0 and newer): Q5_0, Q5_1, Q5_K and Q6_K by dp4a, f16 and bf16 in f32. What
// stream.cu does for other formats, with fewer instructions a weight and more of them between two products.
//
//   warp     pairs of rows (under glu one of gate and one of up), spread over all warps of the grid: neighbours in memory are read at the
//            same time. It asks for its own weights by bulk copies, a slot of two rows x a chunk of k at a time, and waits for no other
//            warp
//   block    16 warps, all of a multiprocessor
//   input    int8 activations that a kernel made, or f32 that every block quantises itself; of f16 and bf16 weights f32 as they are
//   lanes    64 weights of a K format or 8 of 16 bits. One read of the activations serves both rows
//   banks    chunk t (16 bytes) of the activations lies at t ^ bit 3 of t ^ 6 x bit 4 of t: lanes 16, 32 or 64 elements apart share none
//   measured one H200, 7B of f16, `quern bench`: 288 tokens/s, 239 by mixed.cu. Q4_K_M 557 where stream.cu has 560, TinyLlama 1,738 for
//            1,888, SmolLM2 2,107 for 2,251: between two products it takes 1 us more, most of it cold code and parameters (clocks in the
//            kernel: 1,400 of 4,000 cycles between two barriers side by side)
//   tried    blocks of 8 warps in half a multiprocessor, so that the next kernel's are there early: 491, 1,513, 2,036. Going through all
//            code once before the wait: 457, 1,414, 1,815
#include "activation.cuh"
#include "bulk.cuh"
#include "front.cuh"
#include "ring_dot.cuh"
#include "row_pieces.hpp"

#if __CUDA_ARCH__ >= 900
enum { WARPS = rings_warps, THREADS = WARPS * 32, SLOTS = rings_most_slots, RAW_TURNS = 4, ASKERS = 8 };

struct RingShared {
  u64 full[WARPS][SLOTS];
  float partial[WARPS];  // each warp's part of the sum of squares
  FrontSums<WARPS> front;
};
static_assert((sizeof(RingShared) + 127) / 128 * 128 == rings_fixed_bytes, "the host counts with other bytes");

/// A warp's requests, in the order of its pairs. Lane 4 r + i of the first eight asks for piece i of row r.
struct Asker {
  int pair, chunk, part, end, slot;  // what is asked for next
  u32 row_bytes, chunk_bytes;        // of a row; of it in a slot
  i64 at;                            // of the row's first byte, in its plane
  const char* plane;
  u32 to;                            // shared address in slot 0
  u64 policy;

  /// The part that holds `pair`.
  DEV void settle(const RingParams& p, char* slots) {
    const GemvParams& g = p.g;
    while (pair >= p.pieces[part].end) ++part;
    end = p.pieces[part].end;
    const int lane = threadIdx.x & 31, second = lane >> 2 & 1, i = lane & 3, of = g.glu ? second : part;
    const int row = g.glu ? pair : 2 * (pair - p.pieces[part].first) + second;
    const RingParams::Pieces& q = p.pieces[of];
    const bool asks = lane < ASKERS && i < q.count;
    row_bytes = asks ? (u32)q.blocks * q.bytes[i] : 0;
    chunk_bytes = asks ? (u32)q.here * q.bytes[i] : 0;
    plane = asks ? at_plane(g.part[of].w.plane[i]) : nullptr;
    at = (i64)row * row_bytes;
    if (!g.glu && second && row >= g.part[part].rows) at -= row_bytes;  // an odd last row twice
    to = shared_address(slots) + (asks ? q.base[i] + second * q.pitch[i] : 0);
  }
  static DEV const char* at_plane(Address a) { return reinterpret_cast<const char*>(a); }
  DEV void start(const RingParams& p, char* slots) {
    pair = (int)((threadIdx.x >> 5) * gridDim.x + blockIdx.x);
    chunk = part = slot = 0;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    if (pair < p.pairs) settle(p, slots);
  }
  DEV void ask(const RingParams& p, char* slots, u64* full) {
    if ((threadIdx.x & 31) < ASKERS) {
      const u32 in = chunk * chunk_bytes, length = min(chunk_bytes, row_bytes - in);
      const i64 from = at + in, start = from & ~15ll;
      const u32 bytes = row_bytes ? ((u32)(from - start) + length + 15) & ~15u : 0;
      barrier_expect(&full[slot], bytes);
      if (bytes)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                     ::"r"(to + slot * p.slot_bytes), "l"(plane + start), "r"(bytes), "r"(shared_address(&full[slot])), "l"(policy)
                     : "memory");
    }
    if (++slot == p.slots) slot = 0;
    if (++chunk < p.chunks) return;
    chunk = 0;
    const int apart = WARPS * gridDim.x, next = pair + apart;
    pair = next;
    if (next >= p.pairs) return;
    if (next < end && !(p.odd && next + 1 == p.pairs)) at += (i64)(p.g.glu ? apart : 2 * apart) * row_bytes;
    else settle(p, slots);
  }
};

/// What a warp goes through: its slots, and where it is in them.
struct Ring {
  char* slots;
  u64* full;
  int slot;
  u32 parity;
};

DEV Places places_of(const RingParams& p, int part, const char* codes, const char* meta) {
  const RingParams::Pieces& q = p.pieces[part];
#define PLACES(F) \
  case F: return Lane<F>::places(q, codes, meta);
  switch (p.g.part[part].w.dtype) {
    PLACES(Q5_0) PLACES(Q5_1) PLACES(Q5_K) PLACES(Q6_K)
    default: return Lane<F16>::places(q, codes, meta);
  }
}

/// The output that a lane makes of a pair of `part`, or -1: lane 0 that of the first row, lane 16 that of the second.
DEV int output_of(const RingParams& p, int part, int pair) {
  const int lane = threadIdx.x & 31;
  if (p.g.glu) return lane == 0 ? pair : -1;
  const int output = 2 * (pair - p.pieces[part].first) + (lane >> 4);
  return (lane & 15) == 0 && output < p.g.part[part].rows ? output : -1;
}
/// What is added to it: bias and residual.
template <bool GENERAL> DEV float addend_of(const RingParams& p, int part, int output) {
  float v = 0.0f;
  if (output < 0) return v;
  if (p.g.part[part].bias) v = at<const float>(p.g.part[part].bias)[output];
  if (p.g.residual) v += __ldcg(at<const float>(p.g.residual) + output);
  if (GENERAL && p.g.residual2) v += __ldcg(at<const float>(p.g.residual2) + output);
  return v;
}

/// All pairs of a warp in one part, from `pair` on, whose addend is there. Returns the first behind it.
template <int F, bool GENERAL>
DEV int part_pairs(const RingParams& p, int part, int pair, float& addend, Asker& asker, Ring& ring, const Places& own, float factor) {
  const GemvParams& g = p.g;
  const GemvPart& q = g.part[part];
  const RingParams::Pieces& pieces = p.pieces[part];
  const int lane = threadIdx.x & 31, end = pieces.end, apart = WARPS * gridDim.x;
  const int second = lane >> 4;  // the row whose sum the lane ends with
#pragma unroll 1
  for (; pair < end; pair += apart) {
    const int row = g.glu ? pair : 2 * (pair - pieces.first), output = output_of(p, part, pair);
    const float next = pair + apart < end ? addend_of<GENERAL>(p, part, output_of(p, part, pair + apart)) : 0.0f;
    float acc[2] = {};
    int first = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      const char* here = ring.slots + ring.slot * p.slot_bytes;
      barrier_wait(&ring.full[ring.slot], ring.parity);
      Lane<F>::add(own, pieces, here, row, g.glu ? row : min(row + 1, q.rows - 1), first, acc);
      first += pieces.here;
      __syncwarp();
      if (asker.pair < p.pairs) asker.ask(p, ring.slots, ring.full);
      if (++ring.slot == p.slots) ring.slot = 0, ring.parity ^= 1;
    }
    // Sixteen lanes go on with each sum.
    float y = (second ? acc[1] : acc[0]) + __shfl_xor_sync(~0u, second ? acc[0] : acc[1], 16);
#pragma unroll
    for (int o = 8; o; o >>= 1) y += __shfl_xor_sync(~0u, y, o);
    y *= factor;
    const float up = g.glu ? __shfl_xor_sync(~0u, y, 16) : 1.0f;
    if (GENERAL) y = other_gate(g.glu ? y : y + addend, g.activation) * up + (g.glu ? addend : 0.0f);
    else y = (g.glu ? __fdividef(y, 1.0f + __expf(-y)) * up : y) + addend;
    if (output >= 0) at<float>(q.y)[output] = y;
    addend = next;
  }
  return pair;
}

/// Activations of a block, from memory or made here, as codes and meta in shared memory; their part in s.partial.
template <bool GENERAL, class After> DEV void take_input(const RingParams& p, RingShared& s, char* codes, char* meta, After after_wait) {
  const GemvParams& g = p.g;
  const int thread = threadIdx.x, lane = thread & 31;
  if (!p.raw) {
    wait_previous();
    if (p.settles) start_next();
    after_wait();
    float square_sum = 0.0f;
    if (thread < 32 && g.x.sums) {
#pragma unroll 4
      for (int i = lane; i < g.x.sum_count; i += 32) square_sum += __ldcg(at<const float>(g.x.sums) + i);
    }
    const int code_chunks = g.k / 16, all = code_chunks + g.k / 64;
    const auto from = [&](int i) {
      return i < code_chunks ? at<const uint4>(g.x.codes) + i : at<const uint4>(g.x.meta) + (i - code_chunks);
    };
#pragma unroll 1
    for (int i0 = thread; i0 < all; i0 += RAW_TURNS * THREADS) {
      uint4 v[RAW_TURNS];
#pragma unroll
      for (int n = 0; n < RAW_TURNS; ++n) v[n] = __ldcg(from(min(i0 + n * THREADS, all - 1)));
#pragma unroll
      for (int n = 0; n < RAW_TURNS; ++n) {
        const int i = i0 + n * THREADS;
        if (i < all) *reinterpret_cast<uint4*>(i < code_chunks ? codes + swizzled(i) : meta + (i - code_chunks) * 16) = v[n];
      }
    }
    if (thread < 32) square_sum = warp_sum(square_sum);
    if (lane == 0) s.partial[thread >> 5] = thread == 0 ? square_sum : 0.0f;
    return;
  }
  // Eight lanes share 32 values. The weights of the norm come before the wait.
  const int quads = g.k / 4;
  const bool floats = g.part[0].w.dtype == F16 || g.part[0].w.dtype == BF16;
  const float offset = p.raw_weight ? p.raw_offset : 0.0f;
  float squares = 0.0f;
#pragma unroll 1
  for (int from = thread; from == thread || from - lane < quads; from += RAW_TURNS * THREADS) {
    float4 weights[RAW_TURNS], x[RAW_TURNS];
#pragma unroll
    for (int n = 0; n < RAW_TURNS; ++n) {
      const int i = from + n * THREADS;
      weights[n] = p.raw_weight && i < quads ? at<const float4>(p.raw_weight)[i] : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    }
    if (from == thread) {
      wait_previous();
      if (p.settles) start_next();
      after_wait();
    }
#pragma unroll
    for (int n = 0; n < RAW_TURNS; ++n) {
      const int i = from + n * THREADS;
      x[n] = i < quads ? __ldcg(at<const float4>(p.raw) + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    if (GENERAL && p.front.kind) make_front<THREADS>(p.front, x, g.k, thread, s.front, [] { __syncthreads(); });  // all of the row is here
#pragma unroll
    for (int n = 0; n < RAW_TURNS; ++n) {
      const int i = from + n * THREADS;
      if (i - lane >= quads) break;
      const float4 w = weights[n];
      squares = fmaf(x[n].x, x[n].x, fmaf(x[n].y, x[n].y, fmaf(x[n].z, x[n].z, fmaf(x[n].w, x[n].w, squares))));
      const float a = x[n].x * (w.x + offset), b = x[n].y * (w.y + offset), c = x[n].z * (w.z + offset), d = x[n].w * (w.w + offset);
      if (floats) {
        if (i < quads) *reinterpret_cast<float4*>(codes + swizzled(i)) = make_float4(a, b, c, d);
        continue;
      }
      u32 bits = max(max(size_bits(a), size_bits(b)), max(size_bits(c), size_bits(d)));
#pragma unroll
      for (int o = 4; o; o >>= 1) bits = max(bits, __shfl_xor_sync(~0u, bits, o));
      const float most = __uint_as_float(bits), scale = most * (1.0f / 127.0f), inverse = most > LEAST_CODED ? __fdividef(127.0f, most) : 0.0f;
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
  }
  squares = warp_sum(squares);
  if (lane == 0) s.partial[thread >> 5] = squares;
}

template <bool GENERAL> DEV void ring_rows(const RingParams& p, char* memory) {
  RingShared& s = *reinterpret_cast<RingShared*>(memory);
  const GemvParams& g = p.g;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  char *codes = memory + (sizeof(RingShared) + 127) / 128 * 128, *meta = memory + p.meta_offset;
  Ring ring = {memory + p.ring_offset + warp * p.slots * p.slot_bytes, s.full[warp], 0, 0};
  if (!p.settles) start_next();
  if (lane == 0) {
    for (int i = 0; i < p.slots; ++i) barrier_init(&ring.full[i], ASKERS);
    fence_barriers();
  }
  __syncwarp();
  Asker asker;
  asker.start(p, ring.slots);
  int pair = asker.pair;
#pragma unroll 1
  for (int i = 0; i < p.slots && asker.pair < p.pairs; ++i) asker.ask(p, ring.slots, ring.full);
  // What takes many instructions comes before the wait: after it a warp's latency is the kernel's.
  int part = 0;
  while (part < g.parts - 1 && pair >= p.pieces[part].end) ++part;
  Places own = places_of(p, part, codes, meta);
  const int output = pair < p.pairs ? output_of(p, part, pair) : -1;
  float addend = 0.0f;
  take_input<GENERAL>(p, s, codes, meta, [&] { addend = addend_of<GENERAL>(p, part, output); });
  __syncthreads();
  float square_sum = 0.0f;
#pragma unroll
  for (int i = 0; i < WARPS; ++i) square_sum += s.partial[i];
  const bool normalises = p.raw ? p.raw_norm != 0 : g.x.sums != 0;
  const float factor = normalises ? rsqrtf(square_sum / (float)g.k + g.x.epsilon) : 1.0f;
#define PAIRS(F) \
  case F: pair = part_pairs<F, GENERAL>(p, part, pair, addend, asker, ring, own, factor); break;
#pragma unroll 1
  while (pair < p.pairs) {
    switch (g.part[part].w.dtype) {
      PAIRS(Q5_0) PAIRS(Q5_1) PAIRS(Q5_K) PAIRS(Q6_K) PAIRS(F16)
      default: pair = part_pairs<BF16, GENERAL>(p, part, pair, addend, asker, ring, own, factor); break;
    }
    if (pair >= p.pairs) break;
    while (pair >= p.pieces[part].end) ++part;
    own = places_of(p, part, codes, meta);
    addend = addend_of<GENERAL>(p, part, output_of(p, part, pair));
  }
}
#endif

extern "C" __global__ void __launch_bounds__(512, 1) rings(const __grid_constant__ RingParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  ring_rows<false>(p, memory);
#endif
}
/// With what few models have (stream.cu).
extern "C" __global__ void __launch_bounds__(512, 1) rings_general(const __grid_constant__ RingParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  ring_rows<true>(p, memory);
#endif
}
