#version 460
// Causal attention of many rows over paged keys of f16 by cooperative matrices. A workgroup has a head and a tile of neighbouring rows, of
// which each subgroup has `size_m`; `keys` keys and their values lie in shared memory, the next ones are on their way in registers.
//
//   scores    never leave the registers: which rows a lane's components are of is known (matrix_layout.cpp), so that a row's largest score is
//             found over components and neighbouring lanes; what a key weighs is a component of the left matrix of the second product
//   sums      scores and weighted values in f32; queries f16, each row times a power of two that its score undoes; weights of keys f16,
//             times 2^14 so that those down to 2^-28 of the largest keep their bits
//   shared    2 * keys * (d + 8) * 2 bytes of keys and values; the queries go through the same place
//   sequences rows of a tile may be of several; each is gone through in turn, the other rows seeing none of its keys. Rows that few share a sequence
//             with may be left to another kernel (rows_together.glsl)
//   parts     where there are few tiles, workgroups share the keys of each sequence: as many as the grid has in z. Each leaves its sums where y is said
//             to be, a part of all rows behind the other, and attention_join.comp makes y of them
//
// Constants 1, 2, 3: a matrix; 4: elements of a head; 5: which of a lane's rows each component is of, 4 bits each; 6: how many rows a lane
// has; 7: the bits of lanes that share rows; 8: 1 where left matrices lie as sums do, plus 2 where scores are capped,
// plus 4 for 64 keys at a time (there are at least as many invocations as keys), plus 8 where rows are left to another kernel.
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
#include "rows_together.glsl"
layout(constant_id = 1) const uint size_m = 16;
layout(constant_id = 2) const uint size_n = 16;
layout(constant_id = 3) const uint size_k = 16;
layout(constant_id = 4) const uint d = 128;
layout(constant_id = 5) const uint rows_of_parts = 0x11110000u;
layout(constant_id = 6) const uint own_rows = 2;
layout(constant_id = 7) const uint lanes_of_row = 3;
layout(constant_id = 8) const uint choices = 1;
STORED(AttentionParams)
#define p (ParamsAt(stored).params)
const uint same_layout = choices & 1u, capped = choices & 2u, leaves = choices & 8u;
const uint threads = gl_WorkGroupSize.x;
const uint subgroups = 4;
const uint tile = subgroups * size_m;      // rows
const uint keys = (choices & 4u) != 0 ? 64 : 32;  // at a time
const uint row_units = d / 8 + 1;          // of 16 bytes, between rows of keys: those of eight lanes share no bank
const uint weight_units = keys / 8 + 1;
const uint loads = (keys * (d / 8) + threads - 1) / threads;
const uint lanes = threads / subgroups;
const uint parts = size_m * size_n / lanes;  // of a matrix, of a lane
const uint lanes_a_query = lanes / size_m;
const uint piece = d < 64 ? d : 64, pieces = piece / size_n;  // elements of a result at a time, and matrices
const uint result_units = tile * (piece / 4 + 1), query_units = tile * row_units, value_units = keys * row_units;
const uint most_units = result_units > query_units ? result_units : query_units;
#define SUMS coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>
#define ROW_OF(part_) (rows_of_parts >> (part_) * 4u & 15u)

shared uvec4 cached[most_units > 2 * value_units ? most_units : 2 * value_units];
shared uvec4 passed[same_layout == 0 ? tile * weight_units : 1];
shared float row_scale[tile];
shared int row_end[tile], row_begin[tile], row_slot[tile];  // an end below 0: the row is not computed here
shared int next_slot, slot_begin, slot_end, first_missing;
shared uint64_t key_at[2 * keys], value_at[2 * keys];  // where the rows of keys and of values lie, of these and of the next

float over_query_max(float x) {
  for (uint m = 1u; m < lanes_a_query; m *= 2u) {
    const float y = subgroupShuffleXor(x, m);
    x = is_nan(x) || !(y <= x) ? (is_nan(x) ? x : y) : x;
  }
  return x;
}

void main() {
  const uint t = gl_LocalInvocationID.x, part = gl_SubgroupID, lane = gl_SubgroupInvocationID;
  const uint head = gl_WorkGroupID.x, kv_head = head / (p.heads / p.kv_heads), first_row = (gl_NumWorkGroups.y - 1u - gl_WorkGroupID.y) * tile;  // long ones first
  const int page_size = p.page, room = p.pages_a_sequence * page_size;
  const uint64_t k_base = p.k_cache + uint64_t(int64_t(kv_head) * p.k_head), v_base = p.v_cache + uint64_t(int64_t(kv_head) * p.v_head);
  const int64_t k_page = p.k_page, v_page = p.v_page, k_position = p.k_position, v_position = p.v_position;
  for (uint r = t; r < tile; r += threads) {
    int end = 0, begin = 0, slot = -1;
    if (leaves != 0 && first_row + r < p.rows && rows_of_its_sequence(p.row_slot, first_row + r, p.rows, tile, 0u, 1u) < least_rows_together) {
      end = -1;
    } else if (first_row + r < p.rows) {
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
  // Which row and column a component is of: matrices that hold their rows and columns.
  const uint index_units = size_m * size_n / 4u;
  for (uint e = t; e < 2u * index_units; e += threads) {
    const uint at = e % index_units * 4u, row = at / size_n, column = at % size_n;
    cached[e] = floatBitsToUint(e < index_units ? vec4(float(row)) : vec4(float(column), float(column + 1u), float(column + 2u), float(column + 3u)));
  }
  barrier();
  uint own[own_rows];
  int column[parts];
  {
    SUMS row_index, column_index;
    coopMatLoad(row_index, cached, 0, size_n / 4, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(column_index, cached, index_units, size_n / 4, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint c = 0; c < parts; ++c) {
      own[ROW_OF(c)] = part * size_m + uint(row_index[c]);
      column[c] = int(column_index[c]);
    }
  }
  barrier();
  {  // Queries as f16, through the place of the keys: a row's largest element goes between 2^14 and 2^15.
    const uint turn = lane % lanes_a_query, mine = part * size_m + lane / lanes_a_query, row = min(first_row + mine, p.rows - 1u);
    const uint64_t q = p.q + uint64_t(int64_t(row) * p.q_row + int64_t(head) * p.q_head);
    float most = 0.0;
    bool finite = true;
    for (uint c = turn * 4u; c < d; c += lanes_a_query * 4u) {
      const vec4 v = abs(Float4(q + uint64_t(c) * 4ul).v);
      [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        finite = finite && is_finite(v[i]);
        most = max(most, v[i]);
      }
    }
    most = over_query_max(finite ? most : NOT_A_NUMBER);
    finite = is_finite(most);
    const int exponent = clamp(int(floatBitsToUint(most) >> 23), 24, 254);
    const float up = finite ? uintBitsToFloat(uint(268 - exponent) << 23) : 0.0;
    if (turn == 0u) row_scale[mine] = finite ? p.scale * uintBitsToFloat(uint(exponent - 14) << 23) : NOT_A_NUMBER;
    for (uint c = turn * 8u; c < d; c += lanes_a_query * 8u) {
      const vec4 a = Float4(q + uint64_t(c) * 4ul).v * up, b = Float4(q + uint64_t(c) * 4ul + 16ul).v * up;
      uvec4 h = uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
      if (!finite) h = uvec4(0u);
      cached[mine * row_units + c / 8u] = h;
    }
  }
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> query[d / size_k];
  [[unroll]] for (uint i = 0; i < d / size_k; ++i)
    coopMatLoad(query[i], cached, part * size_m * row_units + i * (size_k / 8u), row_units, gl_CooperativeMatrixLayoutRowMajor);
  SUMS total[d / size_n];
  [[unroll]] for (uint i = 0; i < d / size_n; ++i) total[i] = SUMS(0.0);
  const float log2_e = 1.44269504, softcap = p.softcap;
  float scale[own_rows], most[own_rows], sum[own_rows];  // scores and the largest of them times log2(e)
  bool wrong[own_rows];
  [[unroll]] for (uint s = 0; s < own_rows; ++s) {
    scale[s] = row_scale[own[s]] * (capped == 0 ? log2_e : 1.0);
    most[s] = -INFINITY;
    sum[s] = 0.0;
    wrong[s] = false;
  }

  bool any = false;
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
    int begin = slot_begin;
    const uint64_t table = p.block_table + uint64_t(slot) * uint64_t(p.pages_a_sequence) * 4ul;
    for (int page = begin / page_size + int(t); page * page_size < slot_end; page += int(threads)) {
      const int at = Int(table + uint64_t(page) * 4ul).v;
      if (at < 0 || at >= p.pages) atomicMin(first_missing, page);
    }
    barrier();
    // What is missing is not read: rows that would need it are wrong, and the others do not come so far.
    int end = first_missing == 0x7fffffff ? slot_end : min(slot_end, first_missing * page_size);
    int own_begin[own_rows], own_end[own_rows];
    int seen = 0, whole_from = 0, whole_to = 0x7fffffff;
    [[unroll]] for (uint s = 0; s < own_rows; ++s) {
      const bool mine = row_slot[own[s]] == slot;
      own_begin[s] = row_begin[own[s]];
      own_end[s] = mine ? row_end[own[s]] : 0;
      const bool misses = mine && first_missing != 0x7fffffff && own_end[s] > first_missing * page_size;
      wrong[s] = wrong[s] || misses;
      if (misses && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
      seen = max(seen, own_end[s]);
      whole_to = min(whole_to, own_end[s]);
      whole_from = max(whole_from, own_begin[s]);
    }
    seen = subgroupMax(seen);
    whole_to = subgroupMin(whole_to);
    whole_from = subgroupMax(whole_from);
    if (gl_NumWorkGroups.z > 1u && begin < end) {
      const int share = int((uint(end - begin + int(keys) - 1) / keys + gl_NumWorkGroups.z - 1u) / gl_NumWorkGroups.z * keys);
      begin = min(begin + int(gl_WorkGroupID.z) * share, end);
      end = min(begin + share, end);
    }
    any = any || begin < end;

    uvec4 ahead[loads];
#define LOAD(place, half_)                                                                                                     \
  [[unroll]] for (uint i = 0; i < loads; ++i) {                                                                                \
    const uint unit_ = min(t + i * threads, keys * (d / 8u) - 1u);                                                             \
    ahead[i] = Uint4(place[(half_) + unit_ / (d / 8u)] + uint64_t(unit_ % (d / 8u) * 16u)).v;                                  \
  }
#define STORE(to)                                                                                                              \
  [[unroll]] for (uint i = 0; i < loads; ++i) {                                                                                \
    const uint unit_ = min(t + i * threads, keys * (d / 8u) - 1u);                                                             \
    cached[(to) + unit_ / (d / 8u) * row_units + unit_ % (d / 8u)] = ahead[i];                                                 \
  }
    // The addresses of a key and its value, those behind the last as the last, whose weights are 0 there: found by an invocation a key, which
    // goes from tile to tile without dividing.
    int key = begin + int(t), key_page = key / page_size, in_page = key % page_size;
    const int last_page = (end - 1) / page_size, last_in_page = (end - 1) % page_size;
#define FIND_KEYS(half_)                                                                                                       \
  if (t < keys) {                                                                                                              \
    const bool behind_ = key >= end;                                                                                           \
    const int64_t page_ = int64_t(Int(table + uint64_t(behind_ ? last_page : key_page) * 4ul).v), at_ = int64_t(behind_ ? last_in_page : in_page); \
    key_at[(half_) + t] = k_base + uint64_t(page_ * k_page + at_ * k_position);                                                \
    value_at[(half_) + t] = v_base + uint64_t(page_ * v_page + at_ * v_position);                                              \
    key += int(keys);                                                                                                          \
    in_page += int(keys);                                                                                                      \
    for (; in_page >= page_size; in_page -= page_size) ++key_page;                                                             \
  }
    uint turn = 0u;  // the half of the addresses that is in use
    if (begin < end) FIND_KEYS(0u)
    barrier();
    if (begin < end) {
      LOAD(key_at, 0u)
      STORE(0u)
    }
    barrier();
    for (int first = begin; first < end; first += int(keys)) {
      const bool more = first + int(keys) < end, at_work = first < seen;
      LOAD(value_at, turn)
      if (more) FIND_KEYS(turn ^ keys)
      coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> weight[keys / size_k];
      if (at_work) {
        SUMS score[keys / size_n];
        [[unroll]] for (uint j = 0; j < keys / size_n; ++j) {
          score[j] = SUMS(0.0);
          [[unroll]] for (uint i = 0; i < d / size_k; ++i) {
            coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> key;
            coopMatLoad(key, cached, j * size_n * row_units + i * (size_k / 8u), row_units, gl_CooperativeMatrixLayoutColumnMajor);
            score[j] = coopMatMulAdd(query[i], key, score[j]);
          }
        }
        float now[own_rows];
        [[unroll]] for (uint s = 0; s < own_rows; ++s) now[s] = most[s];
        const bool all_seen = first >= whole_from && first + int(keys) <= whole_to;
        [[unroll]] for (uint j = 0; j < keys / size_n; ++j) {
          [[unroll]] for (uint c = 0; c < parts; ++c) score[j][c] *= scale[ROW_OF(c)];
          if (capped != 0) {
            [[unroll]] for (uint c = 0; c < parts; ++c) score[j][c] = log2_e * softcap * tanh_of(score[j][c] / softcap);
          }
          if (!all_seen) {
            [[unroll]] for (uint c = 0; c < parts; ++c) {
              const int at = first + int(j * size_n) + column[c];
              if (at < own_begin[ROW_OF(c)] || at >= own_end[ROW_OF(c)]) score[j][c] = -INFINITY;
            }
          }
          [[unroll]] for (uint c = 0; c < parts; ++c) now[ROW_OF(c)] = max(now[ROW_OF(c)], score[j][c]);  // a NaN, which max may leave out, gets into the sum
        }
        float kept[own_rows];
        bool rescales = false;
        [[unroll]] for (uint s = 0; s < own_rows; ++s) {
          [[unroll]] for (uint m = 1u; m <= lanes_of_row; m *= 2u)
            if ((lanes_of_row & m) != 0u) now[s] = max(now[s], subgroupShuffleXor(now[s], m));
          const float shift = now[s] == -INFINITY ? 0.0 : now[s];
          kept[s] = exp2(most[s] - shift);  // of -inf 0
          rescales = rescales || kept[s] != 1.0;
          most[s] = now[s];
          sum[s] *= kept[s];
          now[s] = shift - 14.0;
        }
        [[unroll]] for (uint j = 0; j < keys / size_n; ++j) {
          [[unroll]] for (uint c = 0; c < parts; ++c) {
            const float w = exp2(score[j][c] - now[ROW_OF(c)]);
            sum[ROW_OF(c)] += w;
            score[j][c] = w;
            if (same_layout != 0) weight[j][c] = float16_t(w);
          }
        }
        if (same_layout == 0) {
          [[unroll]] for (uint j = 0; j < keys / size_n; ++j)
            coopMatStore(coopmat<float16_t, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator>(score[j]), passed,
                         part * size_m * weight_units + j * (size_n / 8u), weight_units, gl_CooperativeMatrixLayoutRowMajor);
          subgroupMemoryBarrierShared();
          subgroupBarrier();
          [[unroll]] for (uint k = 0; k < keys / size_k; ++k)
            coopMatLoad(weight[k], passed, part * size_m * weight_units + k * (size_k / 8u), weight_units, gl_CooperativeMatrixLayoutRowMajor);
        }
        if (subgroupAny(rescales)) {
          [[unroll]] for (uint i = 0; i < d / size_n; ++i)
            [[unroll]] for (uint c = 0; c < parts; ++c) total[i][c] *= kept[ROW_OF(c)];
        }
      }
      STORE(value_units)
      barrier();
      turn ^= keys;
      if (more) LOAD(key_at, turn)
      if (at_work) {
        [[unroll]] for (uint k = 0; k < keys / size_k; ++k) {
          [[unroll]] for (uint i = 0; i < d / size_n; ++i) {
            coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> value;
            coopMatLoad(value, cached, value_units + k * size_k * row_units + i * (size_n / 8u), row_units, gl_CooperativeMatrixLayoutRowMajor);
            total[i] = coopMatMulAdd(weight[k], value, total[i]);
          }
        }
      }
      if (more) STORE(0u)
      barrier();
    }
  }

  const bool in_parts = gl_NumWorkGroups.z > 1u;
  const int64_t part_bytes = int64_t(p.rows) * p.y_row;
  [[unroll]] for (uint s = 0; s < own_rows; ++s) {
    [[unroll]] for (uint m = 1u; m <= lanes_of_row; m *= 2u)
      if ((lanes_of_row & m) != 0u) sum[s] += subgroupShuffleXor(sum[s], m);
    const bool none = wrong[s] || sum[s] == 0.0;
    if (in_parts) {
      const uint row = first_row + own[s];
      const uint64_t found = p.y + uint64_t(int64_t(gl_NumWorkGroups.z) * part_bytes) + uint64_t((gl_WorkGroupID.z * p.rows + row) * p.heads + head) * 8ul;
      if ((lane & lanes_of_row) == 0u && row < p.rows) FloatPair(found).v = vec2(most[s], row_end[own[s]] < 0 ? -1.0 : none ? 0.0 : sum[s]);
    }
    sum[s] = none ? 0.0 : in_parts ? 1.0 : 1.0 / sum[s];
  }
  if (in_parts && !any) return;
  [[unroll]] for (uint i = 0; i < d / size_n; ++i)
    [[unroll]] for (uint c = 0; c < parts; ++c) total[i][c] = sum[ROW_OF(c)] == 0.0 ? 0.0 : total[i][c] * sum[ROW_OF(c)];
  // Through shared memory, some matrices at a time, in a loop of constant length: else the sums would lie in memory all along.
  const uint pitch = piece / 4u + 1u;
  [[unroll]] for (uint i = 0; i < d / size_n; ++i) {
    coopMatStore(total[i], cached, part * size_m * pitch + i % pieces * (size_n / 4u), pitch, gl_CooperativeMatrixLayoutRowMajor);
    if (i % pieces == pieces - 1u || i + 1u == d / size_n) {
      const uint fours = (i % pieces + 1u) * (size_n / 4u), from = i / pieces * piece;
      barrier();
      for (uint e = lane; e < size_m * fours; e += lanes) {
        const uint r = e / fours, c = e % fours, row = first_row + part * size_m + r;
        if (row < p.rows && row_end[part * size_m + r] >= 0)
          Float4(p.y + uint64_t(int64_t(gl_WorkGroupID.z) * part_bytes + int64_t(row) * p.y_row + int64_t(head) * p.y_head) + uint64_t(from + c * 4u) * 4ul).v = uintBitsToFloat(cached[(part * size_m + r) * pitch + c]);
      }
      barrier();
    }
  }
}
