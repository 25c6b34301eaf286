#version 460
// The cosines and sines of positions in f64, an invocation a (position, pair).
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "doubles.glsl"
PUSHED(RopeTableParams)

#define LINEAR 1
#define YARN 2
#define LLAMA3 3
#define NTK 4
#define DYNAMIC 5
const double two_pi = 6.28318530717958647692LF;

double power(double base, double exponent) { return exp_of_double(exponent * log_of_double(base)); }
double pair_of_turns(double turns, double d, double base) { return d * log_of_double(p.context / (turns * two_pi)) / (2.0LF * log_of_double(base)); }

double frequency(uint pair, int count) {
  const double d = 2.0LF * double(p.pairs);
  double base = p.base;
  if (p.scaling == NTK && d > 2.0LF) base *= power(p.factor, d / (d - 2.0LF));
  if (p.scaling == DYNAMIC && d > 2.0LF) base *= power(p.factor * max(double(count), p.context) / p.context - p.factor + 1.0LF, d / (d - 2.0LF));
  double f = power(base, -2.0LF * double(pair) / d);
  if (p.factors != 0ul) f /= double(Float(p.factors + uint64_t(pair) * 4ul).v);
  if (p.scaling == LINEAR) return f / p.factor;
  if (p.scaling == YARN) {
    const double low = max(0.0LF, floor(pair_of_turns(p.beta_fast, d, base))), high = min(d - 1.0LF, ceil(pair_of_turns(p.beta_slow, d, base)));
    const double ramp = min(max((double(pair) - low) / max(0.001LF, high - low), 0.0LF), 1.0LF);
    return f * (1.0LF - ramp) + f / p.factor * ramp;
  }
  if (p.scaling == LLAMA3) {
    const double turns = p.context * f / two_pi;
    if (turns < p.low) return f / p.factor;
    if (turns > p.high) return f;
    const double smoothed = (turns - p.low) / (p.high - p.low);
    return (1.0LF - smoothed) * f / p.factor + smoothed * f;
  }
  return f;
}

void main() {
  // The load is of memory that is there in any case: see quirks.def, null_loads.
  const int told = Int(p.count != 0ul ? p.count : p.table).v, count = p.count != 0ul ? told : int(p.positions);
  const uint positions = count < 0 ? 0u : min(uint(count), p.positions);
  // A stretch of positions of one pair, so that its frequency is computed once.
  const uint stretch = 16u, stretches = (positions + stretch - 1u) / stretch;
  FOR_EACH_ITEM(item, stretches * p.pairs) {
    const uint pair = item % p.pairs, begin = item / p.pairs * stretch;
    const double f = frequency(pair, count);
    for (uint i = begin; i < min(positions, begin + stretch); ++i) {
      const dvec2 turn = turn_of_double((double(p.first) + double(i)) * f) * p.mscale;
      const uint64_t at = p.table + uint64_t(int64_t(i) * p.table_stride) + uint64_t(pair) * 8ul;
      Float(at).v = float(turn.x);
      Float(at + 4ul).v = float(turn.y);
    }
  }
}
