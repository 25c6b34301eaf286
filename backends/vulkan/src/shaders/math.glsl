// Functions whose accuracy does not depend on the driver: within a few units in the last place, NaN stays NaN, limits at infinity.

/// 2^k times y, also where 2^k alone has no f32.
float scaled(float y, int k) {
  const int half_k = k / 2;
  return y * uintBitsToFloat(uint(half_k + 127) << 23) * uintBitsToFloat(uint(k - half_k + 127) << 23);
}
/// 2^k e^x, k being 0 or more: of a result that f32 cannot hold, or a driver flushes, a part can still be had.
/// ln 2 is taken off in two parts of which the first has few bits; the series of exp then has |r| <= 0.35, its next term is below 2^-27.
float exp_times(float x, int k) {
  if (is_nan(x)) return x;
  if (x > 88.73) return INFINITY;
  if (x < -104.0 - 0.6931 * float(k)) return 0.0;
  const float n = floor(x * 1.44269504 + 0.5);
  const float r = (x - n * 0.693359375) + n * 2.12194440e-4;
  float s = 1.98412698e-4;
  s = s * r + 1.38888889e-3;
  s = s * r + 8.33333333e-3;
  s = s * r + 4.16666667e-2;
  s = s * r + 1.66666667e-1;
  s = s * r + 0.5;
  return scaled(s * r * r + r + 1.0, int(n) + k);
}
float exp_of(float x) { return exp_times(x, 0); }
/// Of x >= 0. The mantissa goes to [0.7, 1.4); 2 atanh((m - 1) / (m + 1)) as a series.
float log_of(float x) {
  if (is_nan(x) || x == INFINITY) return x;
  if (x == 0.0) return -INFINITY;
  int k = 0;
  if (x < 1.17549435e-38) {
    x *= 16777216.0;
    k = -24;
  }
  const uint b = floatBitsToUint(x);
  float m = uintBitsToFloat((b & 0x7fffffu) | 0x3f800000u);
  k += int(b >> 23) - 127;
  if (m > 1.41421356) {
    m *= 0.5;
    ++k;
  }
  const float t = (m - 1.0) / (m + 1.0), q = t * t;
  float s = 0.1111111111;
  s = s * q + 0.1428571429;
  s = s * q + 0.2;
  s = s * q + 0.3333333333;
  const float series = 2.0 * t + 2.0 * t * q * s;
  return float(k) * 0.693359375 + (series - float(k) * 2.12194440e-4);
}
/// The side of exp() that cannot overflow, so that a small result keeps its digits.
float sigmoid_times(float x, int k) {  // 2^k times
  const float e = exp_of(-abs(x));
  return (x < 0.0 ? (k == 0 ? e : exp_times(x, k)) : scaled(1.0, k)) / (1.0 + e);
}
float sigmoid_of(float x) { return sigmoid_times(x, 0); }
float tanh_of(float x) {
  const float a = abs(x), q = x * x;
  if (a < 0.5) {
    float s = -1.45583438e-3;
    s = s * q + 3.59212803e-3;
    s = s * q - 8.86323553e-3;
    s = s * q + 2.18694885e-2;
    s = s * q - 5.39682540e-2;
    s = s * q + 1.33333333e-1;
    s = s * q - 3.33333333e-1;
    return x + x * q * s;
  }
  const float e = exp_of(-2.0 * a), t = (1.0 - e) / (1.0 + e);
  return x < 0.0 ? -t : t;
}
/// 1 - erf(x) for x >= 0: 1.5e-7 at most from it (Abramowitz and Stegun 7.1.26).
float erfc_times(float x, int k) {  // 2^k times
  const float t = 1.0 / (1.0 + 0.3275911 * x);
  return ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp_times(-x * x, k);
}
/// The normal distribution.
float phi_times(float x, int k) {  // 2^k times
  const float tail = 0.5 * erfc_times(abs(x) * 0.70710678, x < 0.0 ? k : 0);
  return x < 0.0 ? tail : scaled(1.0 - tail, k);
}
float phi_of(float x) { return phi_times(x, 0); }
