#version 460
// cross_entropy and its gradient, a workgroup a row; masked_mean, one workgroup, and its gradient. Constant 1: which.
//
// A term whose factor is 0 is left out: it must not turn a logit of -inf into NaN. What a mask hides is never added, NaN or not.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
#include "math.glsl"
#include "group.glsl"
layout(constant_id = 1) const int op = 0;
PUSHED(LossParams)


float logit(uint row, uint i) { return load_float(p.x + uint64_t(int64_t(row) * p.x_row + int64_t(i) * int64_t(p.x_step)), p.x_dtype); }

/// The label of a row; -1 where it is ignored or out of range, which raises a fault.
int label_of(uint row) {
  const int label = Int(p.label + uint64_t(int64_t(row) * int64_t(p.label_step))).v;
  const bool inside = label >= 0 && label < int(p.n);
  if (!inside && label != p.ignored && gl_LocalInvocationID.x == 0u) raise(p.faults, FAULT_INDEX_RANGE);
  return inside && label != p.ignored ? label : -1;
}

void forward(uint row) {
  const int label = label_of(row);
  float most = -INFINITY, sum = 0.0, mean = 0.0, nan = 0.0;
  FOR_EACH_LANE(i, p.n) {
    const float x = logit(row, i);
    if (is_nan(x)) nan = 1.0;
    most = larger(x, most);
    mean += x;
  }
  most = group_max(most);
  nan = group_max(nan);
  const bool finite = most != -INFINITY && most != INFINITY;
  FOR_EACH_LANE(i, p.n) sum += finite ? exp_of(logit(row, i) - most) : 0.0;
  sum = group_sum(sum);
  mean = group_sum(mean);
  if (gl_LocalInvocationID.x != 0u) return;
  const float lse = nan > 0.0 ? NOT_A_NUMBER : finite ? most + log_of(sum) : most;
  Float(p.lse + uint64_t(int64_t(row) * int64_t(p.lse_step))).v = lse;
  float loss = lse;
  if (label < 0) {
    loss = 0.0;
  } else {
    const float own = logit(row, uint(label));
    // lse less the label's logit by way of the largest: both may be large and near each other.
    if (p.smoothing == 0.0 && finite && nan == 0.0) loss = (most - own) + log_of(sum);
    else if (p.smoothing < 1.0) loss = lse - (1.0 - p.smoothing) * own;
    if (p.smoothing > 0.0) loss -= p.smoothing * (mean / float(p.n));
    if (p.z_loss > 0.0) loss += p.z_loss * lse * lse;
  }
  Float(p.loss + uint64_t(int64_t(row) * int64_t(p.loss_step))).v = loss;
}

void backward(uint row) {
  const int label = label_of(row);
  const float lse = Float(p.lse + uint64_t(int64_t(row) * int64_t(p.lse_step))).v, dloss = Float(p.loss + uint64_t(int64_t(row) * int64_t(p.loss_step))).v;
  const float factor = dloss * (1.0 + 2.0 * p.z_loss * lse), even = dloss * p.smoothing / float(p.n), own = dloss * (1.0 - p.smoothing);
  FOR_EACH_LANE(i, p.n) {
    float d = 0.0;
    if (label >= 0) {
      d = factor * exp_of(logit(row, i) - lse);
      if (even != 0.0) d -= even;
      if (int(i) == label) d -= own;
    }
    store_float(p.y + uint64_t(int64_t(row) * p.y_row + int64_t(i) * int64_t(p.y_step)), p.y_dtype, d);
  }
}

void masked_mean() {
  float sum = 0.0, count = 0.0;
  FOR_EACH_LANE(i, p.n)
    if (Int(p.label + uint64_t(int64_t(i) * int64_t(p.label_step))).v != 0) {
      sum += logit(0u, i);
      count += 1.0;
    }
  sum = group_sum(sum);
  count = group_sum(count);
  if (gl_LocalInvocationID.x != 0u) return;
  Float(p.loss).v = count == 0.0 ? 0.0 : sum / count;
  Float(p.lse).v = count;
}

void masked_mean_backward() {
  const float each = Float(p.loss).v / Float(p.lse).v;
  FOR_EACH_ITEM(i, p.n) {
    const bool shown = Int(p.label + uint64_t(int64_t(i) * int64_t(p.label_step))).v != 0;
    Float(p.y + uint64_t(int64_t(i) * int64_t(p.y_step))).v = shown ? each : 0.0;
  }
}

void main() {
  if (op == loss_masked_mean) {
    if (gl_WorkGroupID.x == 0u) masked_mean();
  } else if (op == loss_masked_mean_backward) {
    masked_mean_backward();
  } else {
    FOR_EACH_ROW(row, p.rows) {
      if (!row_live(p.predicate, row)) continue;
      if (op == loss_entropy) forward(row);
      else backward(row);
    }
  }
}
