// What every kernel may use: number types without headers, programmatic launch, reductions, loads and stores of any dtype.
#pragma once
#include "dtypes.hpp"
#include "params.hpp"

using namespace quern::cuda;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef signed char i8;
#ifdef QUERN_EMULATED_CARD
#include "emulated_card.hpp"  // of tests/backends/cuda: the instructions in plain C++
#else
/// What the host gives a block of shared memory.
#define SHARED_MEMORY(type, name) extern __shared__ __align__(16) type name[]
#endif

#define INFINITY_F __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)
#define LEAST_CODED 1e-30f  // 32 activations that are all smaller have codes of 0: the reciprocal of their scale may be infinite
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define DEV __device__ __forceinline__

/// Lets the next kernel of the stream start, then waits for all memory of the one before. Every thread calls it before it touches
/// what another kernel of the step writes, and before it leaves: the next kernel's wait covers only this one.
DEV void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900 && !defined(QUERN_EMULATED_CARD)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEV void start_next() {
#if __CUDA_ARCH__ >= 900 && !defined(QUERN_EMULATED_CARD)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEV void wait_previous() {
#if __CUDA_ARCH__ >= 900 && !defined(QUERN_EMULATED_CARD)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#ifndef QUERN_EMULATED_CARD
DEV float from_half(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
DEV u16 to_half(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
DEV uint4 load_stream(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
#endif
/// x cut to the range of f16; what is not finite stays as it is.
DEV float cut_to_half(float x) { return fabsf(x) < INFINITY_F ? fminf(fmaxf(x, -65504.0f), 65504.0f) : x; }
DEV float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float from_bf16(u16 h) { return __uint_as_float((u32)h << 16); }
DEV u16 to_bf16(float f) {
  u32 x = __float_as_uint(f);
  if ((x & 0x7fffffffu) > 0x7f800000u) return (u16)((x >> 16) | 0x40u);  // NaN stays NaN
  return (u16)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}
DEV u32 pack_bf16(float lo, float hi) {
#if __CUDA_ARCH__ >= 800 && !defined(QUERN_EMULATED_CARD)
  u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r;
#else
  return (u32)to_bf16(lo) | (u32)to_bf16(hi) << 16;
#endif
}

template <class T> DEV T* at(Address a) { return reinterpret_cast<T*>(a); }

DEV u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
DEV float load_float(const void* p, int dtype, i64 i) {
  if (dtype == F32) return static_cast<const float*>(p)[i];
  if (dtype == F16) return from_half(static_cast<const u16*>(p)[i]);
  return from_bf16(static_cast<const u16*>(p)[i]);
}
DEV void store_float(void* p, int dtype, i64 i, float v) {
  if (dtype == F32) static_cast<float*>(p)[i] = v;
  else if (dtype == F16) static_cast<u16*>(p)[i] = to_half(v);
  else static_cast<u16*>(p)[i] = to_bf16(v);
}
/// One integer of an index tensor.
DEV i64 load_integer(const void* p, int dtype) {
  if (dtype == I64) return *static_cast<const i64*>(p);
  if (dtype == U32) return *static_cast<const u32*>(p);
  if (dtype == U8) return *static_cast<const u8*>(p);
  return *static_cast<const int*>(p);
}

/// Address of element `i`, counted in row-major order over the dims of `shape`, in `v`, whose dims are those of `shape` or 1,
/// aligned at the last.
DEV char* element(const View& v, const View& shape, i64 i) {
  char* p = at<char>(v.data);
  for (int d = 0; d < shape.rank; ++d) {
    const int s = shape.rank - 1 - d, e = v.rank - 1 - d;
    const i64 n = shape.dims[s], c = i % n;
    i /= n;
    if (e >= 0 && v.dims[e] != 1) p += c * v.strides[e];
  }
  return p;
}

DEV float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
/// That of squares, each rounded: kernels that share a norm's sum may not differ in what the compiler joins to one instruction.
DEV float warp_sum_of_squares(float v) { return warp_sum(__fmul_rn(v, v)); }
/// The bits of the size of x: they are in the order of sizes, and NaN is the largest.
DEV u32 size_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }
DEV float warp_max(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
/// The sum over a block of up to 1024 threads, in every thread.
DEV float block_sum(float v) {
  __shared__ float part[33];
  v = warp_sum(v);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  const int warps = (blockDim.x + 31) >> 5;
  if (threadIdx.x < 32) {
    const float s = warp_sum(threadIdx.x < warps ? part[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) part[32] = s;
  }
  __syncthreads();
  return part[32];
}
DEV float block_max(float v) {
  __shared__ float part[33];
  v = warp_max(v);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  const int warps = (blockDim.x + 31) >> 5;
  if (threadIdx.x < 32) {
    const float s = warp_max(threadIdx.x < warps ? part[threadIdx.x] : -INFINITY_F);
    if (threadIdx.x == 0) part[32] = s;
  }
  __syncthreads();
  return part[32];
}

/// One word of host memory a kind of fault.
DEV void raise_fault(Address faults) { if (faults) *at<volatile u32>(faults) = 1; }
DEV void raise_fault_non_finite(Address faults) { if (faults) at<volatile u32>(faults)[1] = 1; }

/// One thread's share of `count` items, striding through all of them.
#define FOR_EACH(i, count) for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (i64)gridDim.x * blockDim.x)

/// 16 bytes at any multiple of 2.
DEV uint4 load_pairs(const void* p) {
  const u16* h = static_cast<const u16*>(p);
  return make_uint4(h[0] | (u32)h[1] << 16, h[2] | (u32)h[3] << 16, h[4] | (u32)h[5] << 16, h[6] | (u32)h[7] << 16);
}

#define SILU(x) ((x) / (1.0f + __expf(-(x))))
