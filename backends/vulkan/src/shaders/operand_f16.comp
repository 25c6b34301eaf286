#version 460
// Rows of floats under any strides as rows of f16 for gemm.comp, with zeros up to a multiple of its step. Each row is multiplied by a power of two that
// puts its largest element between 2^14 and 2^15; what undoes it lies apart. A row that holds what is not finite has NaN there.
//
// A workgroup has 64 rows and a share of k. It goes twice through steps of 32 elements, which pass through shared memory: neighbours read along k,
// or across rows where they lie so, and write along k. Where k has several shares, the first pass is a launch of its own.
//
// Constant 1 is the dtype. Constant 2 is 1 where rows are neighbours. Constant 3 names the passes, as modes.h has them.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "modes.h"
layout(constant_id = 1) const int dtype = F32;
layout(constant_id = 2) const int across = 0;
layout(constant_id = 3) const int pass = 0;
PUSHED(OperandParams)
const uint rows = 64, step = 32, threads = 256, loads = rows * step / threads, pitch = step + 1, shares = 4, share = step / shares;
shared float staged[rows * pitch];
shared uint largest[rows];

/// The step from k on of the rows from `first` on.
void stage(uint first, uint k) {
  const uint t = gl_LocalInvocationID.x;
  float v[loads];
  [[unroll]] for (uint i = 0u; i < loads; ++i) {
    const uint item = t + i * threads, row = first + (across != 0 ? item % rows : item / step), at = k + (across != 0 ? item / rows : item % step);
    v[i] = row < p.rows && at < p.k ? load_float(p.x + uint64_t(int64_t(row) * p.x_row + int64_t(at) * p.x_step), dtype) : 0.0;
  }
  barrier();  // what was staged before has been read
  [[unroll]] for (uint i = 0u; i < loads; ++i) {
    const uint item = t + i * threads, row = across != 0 ? item % rows : item / step, at = across != 0 ? item / rows : item % step;
    staged[row * pitch + at] = v[i];
  }
  barrier();
}

uint64_t largest_of(uint share_of_k, uint row) { return p.largest + (uint64_t(share_of_k) * uint64_t(p.rows) + uint64_t(row)) * 4ul; }

/// Bits without the sign are in the order of sizes, and what is not finite behind them.
void measure(uint first, uint begin, uint end) {
  const uint t = gl_LocalInvocationID.x, own = t / shares, from = own * pitch + t % shares * share;
  barrier();
  if (t < rows) largest[t] = 0u;
  uint most = 0u;
  for (uint k = begin; k < end; k += step) {
    stage(first, k);
    [[unroll]] for (uint i = 0u; i < share; ++i) most = max(most, floatBitsToUint(staged[from + i]) & 0x7fffffffu);
  }
  atomicMax(largest[own], most);
  barrier();
  if (pass == operand_measure && t < rows && first + t < p.rows) Uint(largest_of(gl_WorkGroupID.y, first + t)).v = largest[t];
}

void gather(uint first) {
  const uint t = gl_LocalInvocationID.x;
  barrier();
  if (t < rows) {
    uint most = 0u;
    if (first + t < p.rows)
      for (uint s = 0u; s < p.shares; ++s) most = max(most, Uint(largest_of(s, first + t)).v);
    largest[t] = most;
  }
  barrier();
}

void convert(uint first, uint begin, uint end) {
  const uint t = gl_LocalInvocationID.x, own = t / shares, from = own * pitch + t % shares * share, row = first + own;
  const bool finite = largest[own] < 0x7f800000u;
  const int exponent = clamp(int(largest[own] >> 23), 24, 254);
  const float up = uintBitsToFloat(uint(268 - exponent) << 23);
  for (uint k = begin; k < end; k += step) {
    stage(first, k);
    if (row >= p.rows) continue;
    uvec4 words = uvec4(0u);
    if (finite) {
      [[unroll]] for (uint i = 0u; i < share; i += 2u) words[i / 2u] = packHalf2x16(vec2(staged[from + i], staged[from + i + 1u]) * up);
    }
    const uint part = k / p.part_k, in_part = k - part * p.part_k, length = min(p.part_k, p.padded - part * p.part_k);
    const uint64_t y = p.y + uint64_t(part) * uint64_t(p.part_bytes);
    Uint4(y + (uint64_t(row) * uint64_t(length) + uint64_t(in_part + t % shares * share)) * 2ul).v = words;
    if (in_part == 0u && t % shares == 0u)
      Float(y + uint64_t(p.rows) * uint64_t(length) * 2ul + uint64_t(row) * 4ul).v = finite ? uintBitsToFloat(uint(exponent - 14) << 23) : NOT_A_NUMBER;
  }
}

void main() {
  const uint begin = gl_WorkGroupID.y * p.share, end = min(begin + p.share, p.padded);
  for (uint first = gl_WorkGroupID.x * rows; first < p.rows; first += gl_NumWorkGroups.x * rows) {
    if (pass == operand_convert) gather(first);
    else measure(first, begin, end);
    if (pass != operand_measure) convert(first, begin, end);
  }
}
