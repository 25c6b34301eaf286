#version 460
// Rows of logits ranked: sort and top_k write values and places, the masks keep the best. A workgroup a row. Constant 1: which. A draw from long
// rows first has a workgroup a part of a row, whose best and sums of weights the draw begins with.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "prelude.glsl"
#include "modes.h"
#include "math.glsl"
#include "group.glsl"
#include "sort.glsl"
#include "philox.glsl"
layout(constant_id = 1) const int op = 0;
STORED(RankParams)
#define p (ParamsAt(stored).params)


shared uint stretch_found;
const int loads_at_once = 16;

#define ELEMENT(row_, view, i) ((row_) + uint64_t(int64_t(i) * int64_t((view).step)))

/// Elements of a row for a lane, a workgroup's width apart, from `begin` on; -inf behind the end.
void load_some(uint64_t x, uint begin, uint end, out float v[loads_at_once]) {
  [[unroll]] for (int j = 0; j < loads_at_once; ++j) {
    const uint i = begin + uint(j) * gl_WorkGroupSize.x;
    v[j] = i < end ? Float(ELEMENT(x, p.x, i)).v : -INFINITY;
  }
}

uint64_t pair_at(uint64_t pairs, uint i) { return pairs + uint64_t(i) * 8ul; }
float value_at(uint64_t pairs, uint i) { return from_descending_key(UintPair(pair_at(pairs, i)).a); }
float weight_of(float x, float best, float temperature) { return x == best ? 1.0 : exp_of((x - best) / temperature); }

/// The first place at which the weights of pairs 0 .. n - 1, summed up, reach `part` of their sum (or exceed it); n if none does.
uint place_of_share(uint64_t pairs, uint n, float best, float temperature, float part, bool exceed) {
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  const uint share = (n + lanes - 1u) / lanes, begin = min(n, lane * share), end = min(n, begin + share);
  float sum = 0.0;
  for (uint i = begin; i < end; ++i) sum += weight_of(value_at(pairs, i), best, temperature);
  counts[lane] = floatBitsToUint(sum);
  if (lane == 0u) stretch_found = n;
  barrier();
  float before = 0.0, total = 0.0;
  for (uint l = 0u; l < lanes; ++l) {
    if (l == lane) before = total;
    total += uintBitsToFloat(counts[l]);
  }
  const float limit = part * total;
  float at = before;
  uint found = n;
  for (uint i = begin; i < end && found == n; ++i) {
    at += weight_of(value_at(pairs, i), best, temperature);
    if (exceed ? at > limit : at >= limit) found = i;
  }
  barrier();
  atomicMin(stretch_found, found);
  barrier();
  const uint result = stretch_found;
  barrier();
  return result;
}

/// A setting that keeps all copies the row, NaN and all.
bool keeps_all(uint row) {
  if (op == logits_top_k) return Int(p.params + uint64_t(row) * 4ul).v <= 0;
  if (op == logits_top_p) return !(Float(p.params + uint64_t(row) * 4ul).v < 1.0);
  return op == logits_min_p && !(Float(p.params + uint64_t(row) * 4ul).v > 0.0);
}

/// What a lane knows of its elements: the best and where it first stands, the sum of weights relative to it, how many are above -inf.
struct Found {
  float best, sum;
  uint place, finite;
};
/// Elements `begin` + lane and so on of a row, up to `end`.
Found look_through(uint64_t x, uint begin, uint end) {
  Found f = Found(-INFINITY, 0.0, 0xffffffffu, 0u);
  for (uint at = begin + gl_LocalInvocationID.x; at < end; at += gl_WorkGroupSize.x * uint(loads_at_once)) {
    float v[loads_at_once];
    load_some(x, at, end, v);
    const float before = f.best;
    [[unroll]] for (int j = 0; j < loads_at_once; ++j) {
      if (v[j] > f.best) {
        f.best = v[j];
        f.place = at + uint(j) * gl_WorkGroupSize.x;
      }
      if (v[j] > -INFINITY) ++f.finite;
    }
    if ((op == logits_sample || op == logits_sample_parts) && f.best > -INFINITY) {
      if (f.best > before) f.sum = before == -INFINITY ? 0.0 : f.sum * exp_of(before - f.best);
      [[unroll]] for (int j = 0; j < loads_at_once; ++j)
        if (v[j] > -INFINITY) f.sum += exp_of(v[j] - f.best);
    }
  }
  return f;
}

/// A part of a row: its best, the first place of that, the sum of weights relative to it and how many elements are above -inf.
void look_through_part(uint row, uint part) {
  if (!row_live(p.predicate, row)) return;
  ADDRESS(x, p.x, p.rows, row)
  const uint share = (p.n + p.parts - 1u) / p.parts, begin = min(p.n, part * share), end = min(p.n, begin + share);
  const Found mine = look_through(x, begin, end);
  const float best = group_max(mine.best);
  const float sum = group_sum(mine.best == -INFINITY ? 0.0 : mine.sum * exp_of(mine.best - best));
  const uint finite = subgroupAdd(mine.finite);
  if (subgroupElect()) counts[gl_SubgroupID] = finite;
  if (gl_LocalInvocationID.x == 0u) stretch_found = 0xffffffffu;
  barrier();
  if (mine.best == best && mine.place != 0xffffffffu) atomicMin(stretch_found, mine.place);
  barrier();
  if (gl_LocalInvocationID.x != 0u) return;
  uint all = 0u;
  for (uint s = 0u; s < gl_NumSubgroups; ++s) all += counts[s];
  Uint4(p.found + uint64_t(row * p.parts + part) * 16ul).v = uvec4(floatBitsToUint(best), floatBitsToUint(sum), stretch_found, all);
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (op == logits_sample_parts) {
    look_through_part(gl_WorkGroupID.y, gl_WorkGroupID.x);
    return;
  }
  FOR_EACH_ROW(row, p.rows.count) {
    if (!row_live(p.predicate, row)) continue;
    const uint64_t pairs = p.pairs + uint64_t(row) * uint64_t(p.n) * 16ul;
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    ADDRESS(index, p.index, p.rows, row)
    if (keeps_all(row)) {
      FOR_EACH_LANE(i, p.n) Float(ELEMENT(y, p.y, i)).v = Float(ELEMENT(x, p.x, i)).v;
      continue;
    }
    float temperature = 0.0, best = -INFINITY, sum = 0.0, mine_best = -INFINITY;
    uint best_place = 0xffffffffu, finite = 0u;
    const uint64_t params = p.params + uint64_t(row) * 32ul;
    if (op != logits_sort) {
      Found mine;
      if (op == logits_sample && p.parts != 0u) {
        mine = Found(-INFINITY, 0.0, 0xffffffffu, 0u);
        if (lane < p.parts) {
          const uvec4 part = Uint4(p.found + uint64_t(row * p.parts + lane) * 16ul).v;
          mine = Found(uintBitsToFloat(part.x), uintBitsToFloat(part.y), part.z, part.w);
        }
      } else {
        mine = look_through(x, 0u, p.n);
      }
      best = mine.best;
      sum = mine.sum;
      best_place = mine.place;
      finite = mine.finite;
      mine_best = best;
      best = group_max(best);
      finite = subgroupAdd(finite);
      if (subgroupElect()) counts[gl_SubgroupID] = finite;
      if (lane == 0u) stretch_found = 0xffffffffu;
      barrier();
      if (mine_best == best && best_place != 0xffffffffu) atomicMin(stretch_found, best_place);
      finite = 0u;
      for (uint s = 0u; s < gl_NumSubgroups; ++s) finite += counts[s];
      barrier();
      best_place = stretch_found;
      barrier();
    }
    const float top = best == -INFINITY ? 0.0 : best;
    if (op == logits_sample) {
      sum = group_sum(mine_best == -INFINITY ? 0.0 : sum * exp_of(mine_best - top));
      temperature = Float(params).v;
    }
    const bool ranks = op != logits_sample || (temperature > 0.0 && best_place != 0xffffffffu);
    if (ranks) {
      FOR_EACH_LANE(i, p.n) {
        const uint key = descending_key(Float(ELEMENT(x, p.x, i)).v);
        UintPair(pair_at(pairs, i)).a = op == logits_sort && p.ascending != 0 ? ~key : key;
        UintPair(pair_at(pairs, i)).b = i;
      }
      memoryBarrierBuffer();
      barrier();
      sort_pairs(pairs, pairs + uint64_t(p.n) * 8ul, p.n);
    }
    if (op == logits_sort) {
      FOR_EACH_LANE(i, p.kept) {
        const uint place = UintPair(pair_at(pairs, i)).b;
        Float(ELEMENT(y, p.y, i)).v = Float(ELEMENT(x, p.x, place)).v;
        Int(ELEMENT(index, p.index, i)).v = int(place);
      }
      barrier();
      continue;
    }
    uint kept = finite;
    if (op == logits_top_k) {
      const int k = Int(p.params + uint64_t(row) * 4ul).v;
      if (k > 0) kept = min(kept, uint(k));
    } else if (op == logits_top_p || op == logits_min_p || ranks) {
      const float top_k = op == logits_sample ? Float(params + 4ul).v : 0.0;
      if (top_k >= 1.0 && top_k < 2147483648.0) kept = min(kept, uint(top_k));
      const float top_p = op == logits_sample ? Float(params + 8ul).v : op == logits_top_p ? Float(p.params + uint64_t(row) * 4ul).v : 1.0;
      if (top_p < 1.0 && kept > 0u) kept = min(kept, place_of_share(pairs, kept, best, 1.0, top_p, false) + 1u);
      const float min_p = op == logits_sample ? Float(params + 12ul).v : op == logits_min_p ? Float(p.params + uint64_t(row) * 4ul).v : 0.0;
      if (min_p > 0.0 && kept > 0u) {  // weights fall: the first below ends what is kept; the best stays
        if (lane == 0u) stretch_found = kept;
        barrier();
        FOR_EACH_LANE(i, kept) {
          if (i > 0u && weight_of(value_at(pairs, i), best, 1.0) < min_p) {
            atomicMin(stretch_found, i);
            break;
          }
        }
        barrier();
        kept = stretch_found;
        barrier();
      }
    }
    if (op != logits_sample) {
      FOR_EACH_LANE(i, p.n) {
        const uint place = UintPair(pair_at(pairs, i)).b;
        const float v = Float(ELEMENT(x, p.x, place)).v;
        Float(ELEMENT(y, p.y, place)).v = i < kept ? v : -INFINITY;
      }
      barrier();
      continue;
    }
    uint chosen = best_place == 0xffffffffu ? 0u : best_place;
    if (ranks) {
      const uint64_t seed = p.seed + uint64_t(row) * 8ul;
      const uvec4 words = philox(uvec4(uint(Int(p.step + uint64_t(row) * 4ul).v), 0u, 0u, 0u), uvec2(Uint(seed).v, Uint(seed + 4ul).v));
      const float share = unit_interval(words.x);
      const uint found = place_of_share(pairs, kept, best, temperature, share, true);
      chosen = UintPair(pair_at(pairs, min(found, kept - 1u))).b;
    }
    if (lane == 0u) {
      Int(y).v = int(chosen);
      Float(index).v = Float(ELEMENT(x, p.x, chosen)).v - top - log_of(sum);
    }
    barrier();
  }
}
