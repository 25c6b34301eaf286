// rope_table in f64, and rope from it.
#include "prelude.cuh"

enum { NO_SCALING = 0, LINEAR = 1, YARN = 2, LLAMA3 = 3, NTK = 4, DYNAMIC = 5 };
#define PI 3.14159265358979323846

DEV double pair_of_turns(double turns, double d, double base, double context) {
  return d * log(context / (turns * 2 * PI)) / (2 * log(base));
}
DEV double frequency(const RopeTableParams& p, i64 pair, i64 count) {
  const double d = 2.0 * (double)p.pairs, context = (double)p.context;
  double base = p.base;
  if (p.scaling == NTK && d > 2) base *= pow(p.factor, d / (d - 2));
  if (p.scaling == DYNAMIC && d > 2) base *= pow(p.factor * fmax((double)count, context) / context - p.factor + 1, d / (d - 2));
  double f = pow(base, -2.0 * (double)pair / d);
  if (p.factors) f /= (double)at<const float>(p.factors)[pair];
  if (p.scaling == LINEAR) return f / p.factor;
  if (p.scaling == YARN) {
    const double low = fmax(0.0, floor(pair_of_turns(p.beta_fast, d, base, context)));
    const double high = fmin(d - 1, ceil(pair_of_turns(p.beta_slow, d, base, context)));
    const double ramp = fmin(fmax(((double)pair - low) / fmax(0.001, high - low), 0.0), 1.0);
    return f * (1 - ramp) + f / p.factor * ramp;
  }
  if (p.scaling == LLAMA3) {
    const double turns = context * f / (2 * PI);
    if (turns < p.low) return f / p.factor;
    if (turns > p.high) return f;
    const double smooth = (turns - p.low) / (p.high - p.low);
    return (1 - smooth) * f / p.factor + smooth * f;
  }
  return f;
}

/// One block a pair; threads stride over positions.
KERNEL(128) rope_table(const __grid_constant__ RopeTableParams p) {
  wait_for_inputs();
  const i64 count = p.count ? *at<const int>(p.count) : p.positions;
  const i64 positions = count < 0 ? 0 : count < p.positions ? count : p.positions, pair = blockIdx.x;
  const double f = frequency(p, pair, count);
  for (i64 i = threadIdx.x; i < positions; i += blockDim.x) {
    const double angle = (double)(p.first + i) * f;
    at<float2>(p.table)[i * p.pairs + pair] = make_float2((float)(cos(angle) * p.mscale), (float)(sin(angle) * p.mscale));
  }
}

/// Blocks of 128 threads for each token; each thread a pair of a head, or one of the elements behind its pairs.
KERNEL(128) rope(const __grid_constant__ RopeParams p) {
  wait_for_inputs();
  const i64 t = blockIdx.x;
  const u32 e = blockIdx.y * 128 + threadIdx.x, units = (u32)(p.d - p.pairs), h = e / units, i = e % units;
  bool inside = true;
  for (int s = 0; s < (p.sectioned ? 4 : 1); ++s) {
    const i64 at_position = p.sectioned ? s * p.rows + t : t;
    const int position = at<const int>(p.position.data)[at_position];
    inside = inside && position >= 0 && position < p.positions;
  }
  if (!inside && e == 0) raise_fault(p.faults);
  if (h >= p.heads) return;
  const char* x = at<const char>(p.x.data) + t * p.x.strides[0] + h * p.x.strides[1];
  char* y = at<char>(p.y.data) + t * p.y.strides[0] + h * p.y.strides[1];
  const i64 step = p.x.strides[2], y_step = p.y.strides[2];
  if (i >= p.pairs) {
    const i64 behind = i + p.pairs;
    store_float(y + behind * y_step, p.y.dtype, 0, inside ? load_float(x + behind * step, p.x.dtype, 0) : 0.0f);
    return;
  }
  const i64 first = p.mode == 0 ? 2 * i : i, second = p.mode == 0 ? 2 * i + 1 : i + p.pairs;
  float a = load_float(x + first * step, p.x.dtype, 0), b = load_float(x + second * step, p.x.dtype, 0);
  if (inside) {
    int section = 0;
    if (p.sectioned) {
      i64 end = p.sections[0];
      while (section < 3 && i >= end) end += p.sections[++section];
    }
    const int position = at<const int>(p.position.data)[p.sectioned ? section * p.rows + t : t];
    const float2 turn = at<const float2>(p.table)[position * p.pairs + i];
    const float sine = p.inverse ? -turn.y : turn.y, turned = a * turn.x - b * sine;
    b = a * sine + b * turn.x;
    a = turned;
  } else {
    a = b = 0.0f;
  }
  store_float(y + first * y_step, p.y.dtype, 0, a);
  store_float(y + second * y_step, p.y.dtype, 0, b);
}
