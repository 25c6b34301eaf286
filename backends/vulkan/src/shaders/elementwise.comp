#version 460
// One element an invocation, any strides: f32 arithmetic, one rounding at the store. Constant 1: the op's id, or ACTIVATE, SLOPE;
// constant 2: the activation's kind.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "math.glsl"
#include "activations.glsl"
layout(constant_id = 1) const int op = 0;
layout(constant_id = 2) const int kind = 0;
STORED(ElementwiseParams)
#define p (ParamsAt(stored).params)

#define ADD 1
#define SUB 2
#define MUL 3
#define DIV 4
#define SCALE 5
#define NEG 6
#define SQR 7
#define SQRT 8
#define ABS 9
#define CLAMP 10
#define CAST 41
#define ACTIVATE 100
#define SLOPE 101

float load(uint64_t at, int dtype) { return op == CAST && dtype == I32 ? float(Int(at).v) : load_float(at, dtype); }
/// Round to nearest even, cut to the range of i32; NaN is 0.
int to_integer(float x) {
  if (is_nan(x)) return 0;
  const float r = roundEven(x);
  return r >= 2147483648.0 ? 0x7fffffff : r <= -2147483648.0 ? int(0x80000000) : int(r);
}

/// a / b. The reciprocal of a divisor from 2^126 on is subnormal, and with it the quotient of NVIDIA's driver 580 is 0 (1 / 1 too) or NaN: both
/// are taken four times smaller, which changes no quotient that is not below 2^-249.
float quotient(float a, float b) {
  const float scale = abs(b) >= 4.25352958651173e37 ? 0.25 : 1.0;  // 2^125
  return a * scale / (b * scale);
}

void main() {
  FOR_EACH_ITEM(i, p.shape.count) {
    ADDRESS(at_a, p.a, p.shape, i)
    ADDRESS(at_y, p.y, p.shape, i)
    const float a = load(at_a, p.a.dtype);
    float b = 0.0, y = a;
    if (op <= DIV || op == SLOPE) {
      ADDRESS(at_b, p.b, p.shape, i)
      b = load_float(at_b, p.b.dtype);
    }
    if (op == ADD) y = p.s == 1.0 ? a + b : a + p.s * b;
    else if (op == SUB) y = a - b;
    else if (op == MUL) y = a * b;
    else if (op == DIV) y = quotient(a, b);
    else if (op == SCALE) y = p.t == 0.0 ? p.s * a : p.s * a + p.t;  // -0 is kept
    else if (op == NEG) y = uintBitsToFloat(floatBitsToUint(a) ^ 0x80000000u);
    else if (op == SQR) y = a * a;
    else if (op == SQRT) y = is_nan(a) || a < 0.0 ? NOT_A_NUMBER : a == INFINITY ? a : sqrt(a);
    else if (op == ABS) y = uintBitsToFloat(floatBitsToUint(a) & 0x7fffffffu);
    else if (op == CLAMP) y = a < p.s ? p.s : a > p.t ? p.t : a;
    else if (op == ACTIVATE) y = activate(kind, a, 1.0);
    else if (op == SLOPE && kind == RELU) y = a > 0.0 ? b : 0.0;
    else if (op == SLOPE && kind == RELU_SQR) y = is_nan(a) ? a : a > 0.0 ? 2.0 * (a * b) : 0.0;  // 2 a alone may overflow
    else if (op == SLOPE) y = b * slope(kind, a, 1.0);
    if (op == CAST && p.y.dtype == I32) Int(at_y).v = to_integer(y);
    else store_float(at_y, p.y.dtype, y);
  }
}
