// A block of threads of a card in plain C++, for tests of kernels without one: prelude.cuh includes this in place of the instructions
// (QUERN_EMULATED_CARD). A thread of the card is a thread of the host, so that a missing barrier is a race here too.
//
// Source: the PTX manual, "Warp-level matrix instructions": which element each lane holds of ldmatrix, m16n8k16 and m16n8k8.
#pragma once

#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#ifdef EMULATED_BULK_COPIES
#define __CUDA_ARCH__ 900
#else
#define __CUDA_ARCH__ 800
#endif
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __noinline__
#define __grid_constant__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define SHARED_MEMORY(type, name) type* const name = reinterpret_cast<type*>(emulated_memory)

alignas(16) inline std::byte emulated_memory[48 << 10];  // what the host gives a block

struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline float __uint_as_float(u32 bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline u32 __float_as_uint(float x) { return std::bit_cast<u32>(x); }

struct Index3 {
  u32 x, y, z;
};
inline thread_local Index3 threadIdx;
inline Index3 blockIdx, blockDim, gridDim;

inline std::optional<std::barrier<>> emulated_block;  // all threads of the block that runs
inline void __syncthreads() { emulated_block->arrive_and_wait(); }
inline int __syncthreads_count(bool v) {
  static std::atomic<int> count{0};
  count += v ? 1 : 0;
  __syncthreads();
  const int all = count;
  __syncthreads();
  count -= v ? 1 : 0;
  return all;
}
inline bool __syncthreads_or(bool v) { return __syncthreads_count(v) != 0; }

/// What the lanes of a warp show each other.
struct EmulatedWarp {
  std::barrier<> lanes{32};
  u64 values[32][8];

  static EmulatedWarp& own() {
    static EmulatedWarp warps[32];
    return warps[threadIdx.x / 32];
  }
  /// `use` reads what every lane has shown in `count` values.
  template <class T, class Use>
  void exchange(const T* shown, int count, const Use& use) {
    for (int i = 0; i < count; ++i) values[threadIdx.x % 32][i] = shown[i];
    lanes.arrive_and_wait();
    use();
    lanes.arrive_and_wait();
  }
};
/// Each lane gets what lane `from` of its warp has.
template <class T>
T emulated_shuffle(T v, int from) {
  const u64 bits = std::bit_cast<u32>(v);
  EmulatedWarp& warp = EmulatedWarp::own();
  warp.exchange(&bits, 1, [&] { v = std::bit_cast<T>(static_cast<u32>(warp.values[from][0])); });
  return v;
}
template <class T>
T __shfl_sync(u32, T v, int from) {
  return emulated_shuffle(v, from & 31);
}
template <class T>
T __shfl_xor_sync(u32, T v, int other) {
  return emulated_shuffle(v, static_cast<int>(threadIdx.x % 32) ^ other);
}
template <class T>
T __shfl_down_sync(u32, T v, int above) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return emulated_shuffle(v, lane + above < 32 ? lane + above : lane);
}
inline u32 __ballot_sync(u32, bool v) {
  const u64 bits = v ? 1 : 0;
  u32 all = 0;
  EmulatedWarp& warp = EmulatedWarp::own();
  warp.exchange(&bits, 1, [&] {
    for (int lane = 0; lane < 32; ++lane) all |= static_cast<u32>(warp.values[lane][0]) << lane;
  });
  return all;
}
inline bool __any_sync(u32 lanes, bool v) { return __ballot_sync(lanes, v) != 0; }
inline void __syncwarp() { EmulatedWarp::own().lanes.arrive_and_wait(); }
template <class T>
T __shfl_up_sync(u32, T v, int below) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return emulated_shuffle(v, lane >= below ? lane - below : lane);
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline int __popc(u32 v) { return std::popcount(v); }
inline float __expf(float x) { return std::exp(x); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }
inline int __ffs(u32 v) { return v == 0 ? 0 : std::countr_zero(v) + 1; }
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }

inline float from_half(u16 h) { return static_cast<float>(std::bit_cast<_Float16>(h)); }
inline u16 to_half(float f) { return std::bit_cast<u16>(static_cast<_Float16>(f)); }
template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline void store_word(u64* p, u64 v) { std::atomic_ref(*p).store(v); }
inline u64 load_word(const u64* p) { return std::atomic_ref(*const_cast<u64*>(p)).load(); }
inline u32 atomicAdd(u32* p, u32 v) { return std::atomic_ref(*p).fetch_add(v); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
/// Counts to `last` and begins anew.
inline u32 atomicInc(u32* p, u32 last) {
  std::atomic_ref count(*p);
  u32 before = count;
  while (!count.compare_exchange_weak(before, before >= last ? 0 : before + 1)) {}
  return before;
}
inline uint4 load_stream(const void* p) { return *static_cast<const uint4*>(p); }

inline u64 smem(const void* p) { return reinterpret_cast<u64>(p); }
/// Matrix q has its rows at the addresses of lanes 8 q to 8 q + 7.
inline void emulated_load(u32* r, u64 address, bool turned) {
  if (address % 16 != 0) {
    std::fprintf(stderr, "a row of a matrix load starts at no multiple of 16 bytes\n");
    std::abort();
  }
  EmulatedWarp& warp = EmulatedWarp::own();
  warp.exchange(&address, 1, [&] {
    const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, pair = lane % 4 * 2;
    for (int q = 0; q < 4; ++q) {
      const auto element = [&](int row, int column) { return reinterpret_cast<const u16*>(warp.values[8 * q + row][0])[column]; };
      const u32 low = turned ? element(pair, group) : element(group, pair);
      r[q] = low | static_cast<u32>(turned ? element(pair + 1, group) : element(group, pair + 1)) << 16;
    }
  });
}
inline void load_matrices(u32* r, u64 address) { emulated_load(r, address, false); }
inline void load_transposed(u32* r, u64 address) { emulated_load(r, address, true); }

/// c += a b for 16 x `depth` and `depth` x 8 numbers; a register has `apart` of them, which `number` takes out.
template <class Number>
void emulated_product(float* c, const u32* a, u32 b0, u32 b1, int apart, const Number& number) {
  const u32 shown[] = {a[0], a[1], a[2], a[3], b0, b1};
  EmulatedWarp& warp = EmulatedWarp::own();
  warp.exchange(shown, 6, [&] {
    const int lane = static_cast<int>(threadIdx.x % 32), half = 4 * apart;
    const auto of = [&](int group, int k, int i) {
      return number(static_cast<u32>(warp.values[group * 4 + k % half / apart][i]), k % apart);
    };
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      for (int k = 0; k < 2 * half; ++k) c[e] += of(row % 8, k, row / 8 + k / half * 2) * of(column, k, 4 + k / half);
    }
  });
}
template <bool HALF>
void multiply16(float* c, const u32* a, u32 b0, u32 b1) {
  emulated_product(c, a, b0, b1, 2, [](u32 pair, int i) {
    const u32 bits = i == 0 ? pair & 0xffffu : pair >> 16;
    return HALF ? from_half(static_cast<u16>(bits)) : __uint_as_float(bits << 16);
  });
}
inline u32 to_tf32(float x) {
  const u32 bits = __float_as_uint(x);
  return ((bits & 0x7f800000u) == 0x7f800000u ? bits : bits + 0x1000u) & ~0x1fffu;
}
inline void multiply_tf32(float* c, const u32* a, u32 b0, u32 b1) {
  emulated_product(c, a, b0, b1, 1, [](u32 bits, int) { return __uint_as_float(bits); });
}

/// Pairs of f16 (half_pairs.cuh). A result is rounded once: a product of two has 22 bits, and a sum with a third fits the 53 of f64 here.
template <class Use>
u32 emulated_pairs(u32 a, u32 b, u32 c, const Use& use) {
  u32 result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto of = [&](u32 word) { return static_cast<double>(from_half(static_cast<u16>(word >> shift))); };
    result |= static_cast<u32>(std::bit_cast<u16>(static_cast<_Float16>(use(of(a), of(b), of(c))))) << shift;
  }
  return result;
}
inline u32 fma2(u32 a, u32 b, u32 c) {
  return emulated_pairs(a, b, c, [](double x, double y, double z) { return x * y + z; });
}
inline u32 mul2(u32 a, u32 b) {
  return emulated_pairs(a, b, 0, [](double x, double y, double) { return x * y; });
}
inline u32 add2(u32 a, u32 b) {
  return emulated_pairs(a, b, 0, [](double x, double y, double) { return x + y; });
}
inline u32 sub2(u32 a, u32 b) {
  return emulated_pairs(a, b, 0, [](double x, double y, double) { return x - y; });
}
inline u32 merged(u32 a, u32 mask, u32 b) { return (a & mask) | b; }
inline void e4m3_pairs(u32 word, u32* pairs) {
  for (int i = 0; i < 4; ++i) {
    const u32 code = word >> 8 * i & 255, size = code & 127;
    // As an f16 with the same mantissa it lies 2^8 lower.
    const u16 number = to_half(256.0f * from_half(static_cast<u16>((code & 128) << 8 | size << 7 | (size == 127 ? 0x7c00 : 0))));
    if (i % 2 == 0) pairs[i / 2] = number;
    else pairs[i / 2] |= static_cast<u32>(number) << 16;
  }
}
inline u32 turned_right(u32 word, int bits) { return std::rotr(word, bits); }
inline u32 __byte_perm(u32 low, u32 high, u32 which) {
  const u64 bytes = low | static_cast<u64>(high) << 32;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<u32>(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
/// What 32-bit addresses of shared memory count from.
inline std::byte* emulated_shared = nullptr;
template <class T>
T emulated_load(u32 from) {
  if (from % sizeof(T) != 0) {
    std::fprintf(stderr, "a load of %zu bytes from an address that is no multiple of them\n", sizeof(T));
    std::abort();
  }
  return *reinterpret_cast<const T*>(emulated_shared + from);
}
inline uint4 load_16(u32 from) { return emulated_load<uint4>(from); }
inline uint2 load_8(u32 from) { return emulated_load<uint2>(from); }
inline u32 load_4(u32 from) { return emulated_load<u32>(from); }
inline u32 load_2(u32 from) { return emulated_load<u16>(from); }
template <class T>
void emulated_copy(u32 to, const char* from) {
  if (to % sizeof(T) != 0 || reinterpret_cast<u64>(from) % sizeof(T) != 0) {
    std::fprintf(stderr, "a copy of %zu bytes between addresses that are no multiples of them\n", sizeof(T));
    std::abort();
  }
  *reinterpret_cast<T*>(emulated_shared + to) = *reinterpret_cast<const T*>(from);
}
inline void copy_16(u32 to, const char* from) { emulated_copy<uint4>(to, from); }
inline void copy_8(u32 to, const char* from) { emulated_copy<uint2>(to, from); }
inline void copy_4(u32 to, const char* from) { emulated_copy<u32>(to, from); }

/// Four products of signed bytes, and c.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<int>(static_cast<i8>(a >> i)) * static_cast<i8>(b >> i);
  return c;
}
inline int dp4a_unsigned(u32 a, u32 b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<int>(a >> i & 255u) * static_cast<i8>(b >> i);
  return c;
}
inline u32 picked(u32 low, u32 high, u32 which) {
  const u32 bytes = __byte_perm(low, high, which & 0x7777u);
  u32 result = 0;
  for (int i = 0; i < 32; i += 8) {
    const u32 byte = bytes >> i & 255u;
    result |= (which >> i / 2 & 8u ? (byte & 128u ? 255u : 0u) : byte) << i;
  }
  return result;
}
/// d = a b + c for 16 x `depth` and `depth` x 8 codes; a register has four of them.
template <bool UNSIGNED>
void emulated_codes(int* d, const u32* a, const u32* b, int depth, int c) {
  const u32 shown[] = {a[0], a[1], depth == 32 ? a[2] : 0, depth == 32 ? a[3] : 0, b[0], depth == 32 ? b[1] : 0};
  EmulatedWarp& warp = EmulatedWarp::own();
  warp.exchange(shown, 6, [&] {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const auto of = [&](int group, int k, int i) { return static_cast<u32>(warp.values[group * 4 + k % 16 / 4][i]) >> k % 4 * 8 & 0xffu; };
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      d[e] = c;
      for (int k = 0; k < depth; ++k) {
        const u32 code = of(row % 8, k, row / 8 + k / 16 * 2);
        d[e] += (UNSIGNED ? static_cast<int>(code) : static_cast<i8>(code)) * static_cast<i8>(of(column, k, 4 + k / 16));
      }
    }
  });
}
template <bool UNSIGNED>
void multiply_codes32(int* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, int c) {
  const u32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
  emulated_codes<UNSIGNED>(d, a, b, 32, c);
}
inline void multiply_codes16(int* d, u32 a0, u32 a1, u32 b0) {
  const u32 a[] = {a0, a1};
  emulated_codes<false>(d, a, &b0, 16, 0);
}

#ifdef EMULATED_BULK_COPIES
/// A block's shared memory, all that a card gives one.
alignas(128) inline char emulated_block_memory[232448];
#define SHARED_BYTES(name) char* const name = emulated_block_memory
/// A barrier that counts arrivals and bytes: 16 bits of arrivals to come and of those of a phase, 31 of bytes to come, and the phase's parity.
enum { WARP_ARRIVALS = 1 };
inline void barrier_init(u64* b, u32 arrivals) { *b = arrivals | static_cast<u64>(arrivals) << 16; }
inline void fence_barriers() {}
inline void emulated_arrival(u64* b, u64 arrivals, i64 bytes) {
  std::atomic_ref<u64> state(*b);
  u64 old = state.load(), now = 0;
  do {
    now = old - arrivals + (static_cast<u64>(bytes) << 32);
    if ((now & 0xffff) == 0 && (now >> 32 & 0x7fffffff) == 0) now = (now & u64{1} << 63) ^ u64 { 1 } << 63 | (now >> 16 & 0xffff) * 0x10001;
  } while (!state.compare_exchange_weak(old, now));
  state.notify_all();
}
inline void barrier_expect(u64* b, u32 bytes) { emulated_arrival(b, 1, bytes); }
inline void warp_arrive(u64* b, int lane) {
  if (lane == 0) emulated_arrival(b, 1, 0);
}
inline void barrier_wait(u64* b, u32 parity) {
  std::atomic_ref<u64> state(*b);
  for (u64 now = state.load(); (now >> 63 & 1) == parity; now = state.load()) state.wait(now);
}
inline void bulk_copy(void* to, const void* from, u32 bytes, u64* barrier) {
  if ((reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from) | bytes) % 16 != 0) {
    std::fprintf(stderr, "a bulk copy of %u bytes between addresses of which not all are multiples of 16\n", bytes);
    std::abort();
  }
  for (u32 i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  emulated_arrival(barrier, 0, -static_cast<i64>(bytes));
}
inline void bulk_copy_once(void* to, const void* from, u32 bytes, u64* barrier) { bulk_copy(to, from, bytes, barrier); }

/// Products of warpgroups (groups.cuh): done at once, warp by warp, since a warp has 16 of the rows. B is swizzled, eight of its rows 1,024 bytes apart; its
/// address has 18 bits, so the block's memory starts at a multiple of 2^18.
inline void group_fence() {}
inline void group_commit() {}
template <int N>
void group_wait() {}
inline void fence_for_groups() {}
/// Copies are made at once.
inline void commit_copies() {}
template <int N>
void wait_copies() {}
template <int N>
void less_registers() {}
template <int N>
void more_registers() {}
template <int N, bool HALF, bool TURNED>
struct GroupProduct {
  static_assert(HALF && !TURNED);
  static void add(float* d, const u32* a, u64 b, int more) {
    if (more == 0) std::fill(d, d + N / 2, 0.0f);
    const u64 low = (b & 0x3fff) << 4;
    EmulatedWarp::own().exchange(a, 4, [&] {
      const int lane = static_cast<int>(threadIdx.x % 32);
      for (int e = 0; e < N / 2; ++e) {
        const int row = lane / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + lane % 4 * 2 + e % 2;
        for (int k = 0; k < 16; ++k) {
          const u32 pair = static_cast<u32>(EmulatedWarp::own().values[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2]);
          u64 at = low + static_cast<u64>(column * 128 + k * 2);
          at ^= at >> 3 & 0x70;  // chunks of 16 bytes go by the row among eight
          d[e] += from_half(static_cast<u16>(pair >> k % 2 * 16)) * from_half(*reinterpret_cast<const u16*>(emulated_group_memory + at));
        }
      }
    });
  }
  static inline char* emulated_group_memory = nullptr;
};
/// Clusters of one block.
inline void cluster_barrier() { __syncthreads(); }
inline float4 load_of_cluster(u64 p, int) { return *reinterpret_cast<const float4*>(p); }

/// So many threads of a block.
template <int COUNT>
void meet() {
  static std::barrier<> all(COUNT);
  all.arrive_and_wait();
}
inline void meet_at(int barrier, int count) {
  static std::barrier<> teams[] = {std::barrier<>(256), std::barrier<>(256)};
  if (count != 256 || barrier < 2 || barrier > 3) std::abort();
  teams[barrier - 2].arrive_and_wait();
}
#endif

/// Runs a kernel block by block.
template <class Params>
void run_emulated(void (*kernel)(Params), u32 columns, u32 rows, const Params& params, u32 block_threads = 256, u32 layers = 1) {
  blockDim = {block_threads, 1, 1};
  emulated_block.emplace(block_threads);
  gridDim = {columns, rows, layers};
  for (u32 block = 0; block < columns * rows * layers; ++block) {
    blockIdx = {block % columns, block / columns % rows, block / columns / rows};
    std::vector<std::thread> threads;
    for (u32 t = 0; t < block_threads; ++t)
      threads.emplace_back([&, t] {
        threadIdx = {t, 0, 0};
        kernel(params);
      });
    for (std::thread& thread : threads) thread.join();
  }
}
