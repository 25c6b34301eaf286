#version 460
// Causal attention of many rows over paged keys of f16 by cooperative matrices. A workgroup has a head and a tile of neighbouring rows, of
// which each subgroup has `size_m`; 64 keys at a time lie in shared memory, then their values in the same place.
//
//   sums      scores and weighted values in f32; queries f16, each row times a power of two that its score undoes; weights of keys f16,
//             times 2^14 so that those down to 2^-28 of the largest keep their bits
//   shared    64 * (d + 8) * 2 bytes of keys or values, 64 scores of each row and their weights (d = 128, 64 rows: 46 KiB)
//   sequences rows of a tile may be of several; each is gone through in turn, the other rows seeing none of its keys
//
// Constants 1, 2, 3: a matrix; 4: elements of a head.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#pragma use_vulkan_memory_model
#include "memory.glsl"
#include "params_matrices.h"
#include "math.glsl"
layout(constant_id = 1) const uint size_m = 16;
layout(constant_id = 2) const uint size_n = 16;
layout(constant_id = 3) const uint size_k = 16;
layout(constant_id = 4) const uint d = 128;
STORED(AttentionParams)
#define p (ParamsAt(stored).params)
const uint threads = gl_WorkGroupSize.x;
const uint subgroups = 4;
const uint tile = subgroups * size_m;      // rows
const uint keys = 64;                      // at a time
const uint row_units = d / 8 + 1;          // of 16 bytes, between rows of keys
const uint score_units = keys / 4 + 2;     // and between rows of scores: those of eight lanes share no bank
const uint weight_units = keys / 8 + 1;
const uint loads = keys * (d / 8) / threads;
const uint lanes = threads / subgroups;
const uint lanes_a_row = lanes / size_m;
const uint fours = keys / 4 / lanes_a_row;  // scores of a lane
const float weight_scale = 16384.0;

shared uvec4 cached[keys * row_units];
shared uvec4 scores[tile * score_units];
shared uvec4 weights[tile * weight_units];
shared float factors[tile];
shared int row_end[tile], row_begin[tile], row_slot[tile];
shared int next_slot, slot_begin, slot_end, first_missing;
shared uint64_t key_at[keys], value_at[keys];  // where the rows of keys and of values lie

/// Of the keys from `first` on; those behind the last are the last, whose weights are 0 there.
void find_keys(uint64_t table, uint kv_head, int first, int end) {
  const uint t = gl_LocalInvocationID.x;
  for (uint i = t; i < keys; i += threads) {
    const int key = min(first + int(i), end - 1), in_page = key % p.page;
    const int64_t page = int64_t(Int(table + uint64_t(key / p.page) * 4ul).v);
    key_at[i] = p.k_cache + uint64_t(page * p.k_page + int64_t(kv_head) * p.k_head + int64_t(in_page) * p.k_position);
    value_at[i] = p.v_cache + uint64_t(page * p.v_page + int64_t(kv_head) * p.v_head + int64_t(in_page) * p.v_position);
  }
}

float row_max(float x) {
  for (uint m = 1u; m < lanes_a_row; m *= 2u) {
    const float y = subgroupShuffleXor(x, m);
    x = is_nan(x) || !(y <= x) ? (is_nan(x) ? x : y) : x;
  }
  return x;
}
float row_sum(float x) {
  for (uint m = 1u; m < lanes_a_row; m *= 2u) x += subgroupShuffleXor(x, m);
  return x;
}

void main() {
  const uint t = gl_LocalInvocationID.x, part = gl_SubgroupID, lane = gl_SubgroupInvocationID;
  const uint head = gl_WorkGroupID.x, kv_head = head / (p.heads / p.kv_heads), first_row = (gl_NumWorkGroups.y - 1u - gl_WorkGroupID.y) * tile;  // long ones first
  const uint own = part * size_m + lane / lanes_a_row, turn = lane % lanes_a_row;  // the row whose scores this lane weighs, and which of them
  const int room = p.pages_a_sequence * p.page;
  for (uint r = t; r < tile; r += threads) {
    int end = 0, begin = 0, slot = -1;
    if (first_row + r < p.rows) {
      const int position = Int(p.position + uint64_t(first_row + r) * 4ul).v;
      slot = Int(p.row_slot + uint64_t(first_row + r) * 4ul).v;
      const bool known = slot >= 0 && slot < p.sequences;
      if (position < -1 || (position != -1 && (!known || position >= room))) {
        if (head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
      } else if (position >= 0) {
        end = position + 1;
        if (p.window > 0l) begin = int(max(0l, int64_t(position) - p.window + 1l));
      }
      if (end == 0) slot = -1;
    }
    row_end[r] = end;
    row_begin[r] = begin;
    row_slot[r] = slot;
  }
  // Queries as f16, through the place of the keys: a row's largest element goes between 2^14 and 2^15.
  float scale = 0.0;
  {
    const uint row = min(first_row + own, p.rows - 1u);
    const uint64_t q = p.q + uint64_t(int64_t(row) * p.q_row + int64_t(head) * p.q_head);
    float most = 0.0;
    bool finite = true;
    for (uint c = turn * 4u; c < d; c += lanes_a_row * 4u) {
      const vec4 v = abs(Float4(q + uint64_t(c) * 4ul).v);
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        finite = finite && is_finite(v[i]);
        most = max(most, v[i]);
      }
    }
    most = row_max(finite ? most : NOT_A_NUMBER);
    finite = is_finite(most);
    const int exponent = clamp(int(floatBitsToUint(most) >> 23), 24, 254);
    const float up = finite ? uintBitsToFloat(uint(268 - exponent) << 23) : 0.0;
    scale = finite ? p.scale * uintBitsToFloat(uint(exponent - 14) << 23) : NOT_A_NUMBER;
    for (uint c = turn * 8u; c < d; c += lanes_a_row * 8u) {
      const vec4 a = Float4(q + uint64_t(c) * 4ul).v * up, b = Float4(q + uint64_t(c) * 4ul + 16ul).v * up;
      uvec4 h = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
      if (!finite) h = uvec4(0u);
      cached[own * row_units + c / 8u] = h;
    }
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> query[d / size_k];
  [[unroll]] for (uint i = 0; i < d / size_k; ++i)
    coopMatLoad(query[i], cached, part * size_m * row_units + i * (size_k / 8u), row_units, gl_CooperativeMatrixLayoutRowMajor);
  coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> total[d / size_n];
  [[unroll]] for (uint i = 0; i < d / size_n; ++i) total[i] = coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(0.0);
  const float softcap = p.softcap;
  float most = -INFINITY, sum = 0.0;
  bool wrong = false;

  for (int slot = -1;;) {
    barrier();
    if (t == 0u) {
      next_slot = slot_begin = first_missing = 0x7fffffff;
      slot_end = 0;
    }
    barrier();
    for (uint r = t; r < tile; r += threads)
      if (row_slot[r] > slot) atomicMin(next_slot, row_slot[r]);
    barrier();
    slot = next_slot;
    if (slot == 0x7fffffff) break;
    for (uint r = t; r < tile; r += threads) {
      if (row_slot[r] != slot) continue;
      atomicMin(slot_begin, row_begin[r]);
      atomicMax(slot_end, row_end[r]);
    }
    barrier();
    const int begin = slot_begin;
    const uint64_t table = p.block_table + uint64_t(slot) * uint64_t(p.pages_a_sequence) * 4ul;
    for (int page = begin / p.page + int(t); page * p.page < slot_end; page += int(threads)) {
      const int at = Int(table + uint64_t(page) * 4ul).v;
      if (at < 0 || at >= p.pages) atomicMin(first_missing, page);
    }
    barrier();
    // What is missing is not read: rows that would need it are wrong, and the others do not come so far.
    const int end = first_missing == 0x7fffffff ? slot_end : min(slot_end, first_missing * p.page);
    const bool mine = row_slot[own] == slot;
    const int own_begin = row_begin[own], own_end = mine ? row_end[own] : 0;
    const bool misses = mine && first_missing != 0x7fffffff && own_end > first_missing * p.page;
    wrong = wrong || misses;
    if (misses && head == 0u && turn == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    const int seen = subgroupMax(own_end);

    uvec4 ahead[loads];
#define LOAD(place)                                                                                                            \
  [[unroll]] for (uint i = 0; i < loads; ++i) {                                                                                \
    const uint unit_ = t + i * threads;                                                                                        \
    ahead[i] = Uint4(place[unit_ / (d / 8u)] + uint64_t(unit_ % (d / 8u) * 16u)).v;                                            \
  }
#define STORE                                                                                                                  \
  [[unroll]] for (uint i = 0; i < loads; ++i) {                                                                                \
    const uint unit_ = t + i * threads;                                                                                        \
    cached[unit_ / (d / 8u) * row_units + unit_ % (d / 8u)] = ahead[i];                                                        \
  }
    if (begin < end) find_keys(table, kv_head, begin, end);
    barrier();
    if (begin < end) LOAD(key_at)
    for (int first = begin; first < end; first += int(keys)) {
      STORE
      barrier();
      LOAD(value_at)
      const bool at_work = first < seen;
      bool rescales = false;
      if (at_work) {
        [[unroll]] for (uint j = 0; j < keys / size_n; ++j) {
          coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> score =
              coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(0.0);
          [[unroll]] for (uint i = 0; i < d / size_k; ++i) {
            coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> key;
            coopMatLoad(key, cached, j * size_n * row_units + i * (size_k / 8u), row_units, gl_CooperativeMatrixLayoutColumnMajor);
            score = coopMatMulAdd(query[i], key, score);
          }
          coopMatStore(score, scores, part * size_m * score_units + j * (size_n / 4u), score_units, gl_CooperativeMatrixLayoutRowMajor);
        }
      }
      barrier();
      STORE
      const bool more = first + int(keys) < end;
      if (more) find_keys(table, kv_head, first + int(keys), end);
      if (at_work) {
        vec4 v[fours];
        float now = most;
        [[unroll]] for (uint i = 0; i < fours; ++i) {
          const uint c = i * lanes_a_row + turn;
          v[i] = uintBitsToFloat(scores[own * score_units + c]) * scale;
          [[unroll]] for (uint e = 0; e < 4u; ++e) {
            const int key = first + int(c * 4u + e);
            if (softcap > 0.0) v[i][e] = softcap * tanh_of(v[i][e] / softcap);
            if (key < own_begin || key >= own_end) v[i][e] = -INFINITY;
            now = is_nan(now) || v[i][e] <= now ? now : v[i][e];
          }
        }
        now = row_max(now);
        const float shift = now == -INFINITY ? 0.0 : now, kept = most == -INFINITY ? (now == -INFINITY ? 1.0 : 0.0) : exp2((most - shift) * 1.44269504);
        float added = 0.0;
        [[unroll]] for (uint i = 0; i < fours; ++i) {
          v[i] = exp2((v[i] - shift) * 1.44269504);  // of -inf 0
          added += (v[i].x + v[i].y) + (v[i].z + v[i].w);
        }
        sum = sum * kept + row_sum(added);
        [[unroll]] for (uint i = 0; i < fours; ++i) {
          const uint c = i * lanes_a_row + turn;
          const vec4 w = v[i] * weight_scale;
          const uvec2 halves = uvec2(packHalf2x16(w.xy), packHalf2x16(w.zw));
          if (c % 2u == 0u) weights[own * weight_units + c / 2u].xy = halves;
          else weights[own * weight_units + c / 2u].zw = halves;
        }
        if (turn == 0u) factors[own] = kept;
        rescales = subgroupAny(kept != 1.0);
        most = now;
      }
      barrier();
      if (more) LOAD(key_at)
      if (at_work) {
        if (rescales) {
          coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> factor;
          coopMatLoad(factor, factors, part * size_m, 0, gl_CooperativeMatrixLayoutColumnMajor);  // each column the same
          [[unroll]] for (uint i = 0; i < d / size_n; ++i) total[i] = total[i] * factor;
        }
        [[unroll]] for (uint k = 0; k < keys / size_k; ++k) {
          coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> weight;
          coopMatLoad(weight, weights, part * size_m * weight_units + k * (size_k / 8u), weight_units, gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (uint i = 0; i < d / size_n; ++i) {
            coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> value;
            coopMatLoad(value, cached, k * size_k * row_units + i * (size_n / 8u), row_units, gl_CooperativeMatrixLayoutRowMajor);
            total[i] = coopMatMulAdd(weight, value, total[i]);
          }
        }
      }
      barrier();
    }
  }

  const uint row = first_row + own;
  const uint64_t y = p.y + uint64_t(int64_t(min(row, p.rows - 1u)) * p.y_row + int64_t(head) * p.y_head);
  const float share = wrong || sum == 0.0 ? 0.0 : 1.0 / (sum * weight_scale);
  [[unroll]] for (uint piece = 0; piece < d; piece += keys) {
    [[unroll]] for (uint i = 0; i < min(keys, d - piece) / size_n; ++i)
      coopMatStore(total[piece / size_n + i], scores, part * size_m * score_units + i * (size_n / 4u), score_units, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint c = turn; c < min(keys, d - piece) / 4u; c += lanes_a_row) {
      const vec4 v = uintBitsToFloat(scores[own * score_units + c]) * share;
      if (row < p.rows) Float4(y + uint64_t(piece + c * 4u) * 4ul).v = share == 0.0 ? vec4(0.0) : v;
    }
    barrier();
  }
}
