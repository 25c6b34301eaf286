#version 460
// A row to one number, a workgroup a row; or, of all elements, partial sums that a second dispatch adds up. Constant 1: which.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
#include "group.glsl"
layout(constant_id = 1) const int op = 0;
STORED(RowParams)
#define p (ParamsAt(stored).params)

#define MAX 0
#define SUM 1
#define LOG_SUM_EXP 2
#define ARGMAX 3
#define ALL 4      // of all elements to partial sums: p.x over p.rows, p.n of them by p.mode: 0 sums, 1 squares
#define FINISH 5   // p.n partial sums to y: p.mode 0 sum, 1 root of the sum, 2 mean over p.count
#define COUNT 6    // equal elements of x and p.b
#define FINISH_COUNT 7
#define AT(base, view, i) (base + uint64_t(int64_t(i) * int64_t(view.step)))

shared uint best_place[MOST_SUBGROUPS];

/// The lowest place of the largest value; NaN counts as -inf.
uint group_argmax(float value, uint place) {
  const float most = group_max(value);
  uint at = value == most && most != -INFINITY ? place : 0xffffffffu;
  at = subgroupMin(at);
  if (gl_NumSubgroups > 1u) {
    if (subgroupElect()) best_place[gl_SubgroupID] = at;
    barrier();
    for (uint s = 0u; s < gl_NumSubgroups; ++s) at = min(at, best_place[s]);
    barrier();
  }
  return at == 0xffffffffu ? 0u : at;
}

void rows() {
  FOR_EACH_ROW(row, p.rows.count) {
    if (!row_live(p.predicate, row / p.rows_a_predicate)) continue;
    ADDRESS(x, p.x, p.rows, row)
    ADDRESS(y, p.y, p.rows, row)
    float r = op == SUM ? 0.0 : -INFINITY, nan = 0.0;
    uint place = 0u;
    FOR_EACH_LANE(i, p.n) {
      const float v = load_float(AT(x, p.x, i), p.x.dtype);
      if (op == SUM) {
        r += v;
      } else {
        if (is_nan(v)) nan = 1.0;
        else if (v > r) {
          r = v;
          place = i;
        }
      }
    }
    if (op == ARGMAX) {
      const uint found = group_argmax(r, place);
      if (gl_LocalInvocationID.x == 0u) Int(y).v = int(found);
      continue;
    }
    if (op == SUM) {
      r = group_sum(r);
    } else {
      r = group_max(r);
      nan = group_max(nan);
      if (op == LOG_SUM_EXP) {
        float sum = 0.0;
        const bool finite = r != -INFINITY && r != INFINITY;
        FOR_EACH_LANE(i, p.n) {
          const float v = load_float(AT(x, p.x, i), p.x.dtype);
          if (finite) sum += exp_of(v - r);
        }
        sum = group_sum(sum);
        if (finite) r += log_of(sum);
      }
      if (nan > 0.0) r = NOT_A_NUMBER;
    }
    if (gl_LocalInvocationID.x == 0u) store_float(y, p.y.dtype, r);
  }
}

void all() {
  float sum = 0.0;
  FOR_EACH_ITEM(i, p.rows.count) {
    ADDRESS(x, p.x, p.rows, i)
    if (op == COUNT) {
      ADDRESS(b, p.b, p.rows, i)
      sum += Int(x).v == Int(b).v ? 1.0 : 0.0;  // below 2^24 an invocation
    } else {
      const float v = load_float(x, p.x.dtype);
      sum += p.mode == 1 ? v * v : v;
    }
  }
  if (op == COUNT) {
    const uint count = subgroupAdd(uint(sum));
    if (subgroupElect()) atomicAdd(Uint(p.partial).v, count);
    return;
  }
  sum = group_sum(sum);
  if (gl_LocalInvocationID.x == 0u) Float(p.partial + uint64_t(gl_WorkGroupID.x) * 4ul).v = sum;
}

void finish() {
  float sum = 0.0;
  FOR_EACH_LANE(i, p.n) sum += Float(p.partial + uint64_t(i) * 4ul).v;
  sum = group_sum(sum);
  if (gl_LocalInvocationID.x != 0u) return;
  if (p.mode == 1) sum = sqrt(sum);
  if (p.mode == 2) sum /= p.count;
  store_float(p.y.data, p.y.dtype, sum);
}

void main() {
  if (op == ALL || op == COUNT) all();
  else if (op == FINISH) finish();
  else if (op == FINISH_COUNT) {
    if (gl_GlobalInvocationID.x == 0u) Long(p.y.data).v = int64_t(Uint(p.partial).v);
  } else rows();
}
