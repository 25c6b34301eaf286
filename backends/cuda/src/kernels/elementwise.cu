// Elementwise ops over any strides: one thread an element, f32 arithmetic, one rounding at the store.
#include "prelude.cuh"

enum {
  NEG = 6,
  SQR = 7,
  SQRT = 8,
  ABS = 9,
  CLAMP = 10,
  SCALE = 5,
  SILU_OP = 20,
  GELU = 21,
  RELU = 22,
  RELU_SQR = 23,
  SIGMOID = 24,
  TANH = 25,
  CAST = 41
};

DEV float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DEV float gelu(float x, int kind) {
  if (x == -INFINITY_F) return 0.0f;
  if (kind == 0) return x * normcdff(x);
  if (kind == 1) return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * x * fmaf(0.044715f * x, x, 1.0f)));
  return x * sigmoid(1.702f * x);
}
DEV float silu(float x) { return x == -INFINITY_F ? -0.0f : x * sigmoid(x); }

KERNEL(256) unary(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.count) {
    const float x = load_float(element(p.x, p.y, i), p.x.dtype, 0);
    float y = x;
    switch (p.op) {
      case SCALE: y = p.b == 0.0f ? p.a * x : fmaf(p.a, x, p.b); break;  // -0 is kept
      case NEG: y = -x; break;
      case SQR: y = x * x; break;
      case SQRT: y = sqrtf(x); break;
      case ABS: y = fabsf(x); break;
      case CLAMP: y = x != x ? x : fminf(fmaxf(x, p.a), p.b); break;
      case SILU_OP: y = silu(x); break;
      case GELU: y = gelu(x, (int)p.a); break;
      case RELU: y = x != x ? x : fmaxf(x, 0.0f); break;
      case RELU_SQR: y = x != x ? x : fmaxf(x, 0.0f) * fmaxf(x, 0.0f); break;
      case SIGMOID: y = sigmoid(x); break;
      case TANH: y = tanhf(x); break;
      default: break;
    }
    store_float(element(p.y, p.y, i), p.y.dtype, 0, y);
  }
}

KERNEL(256) binary(const __grid_constant__ BinaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.count) {
    const float a = load_float(element(p.a, p.y, i), p.a.dtype, 0), b = load_float(element(p.b, p.y, i), p.b.dtype, 0);
    const float y = p.op == 1 ? fmaf(p.alpha, b, a) : p.op == 2 ? a - b : p.op == 3 ? a * b : a / b;
    store_float(element(p.y, p.y, i), p.y.dtype, 0, y);
  }
}

KERNEL(256) glu(const __grid_constant__ GluParams p) {
  wait_for_inputs();
  const i64 n = p.y.dims[p.y.rank - 1];
  FOR_EACH(i, p.count) {
    float g, u;
    if (p.up.data) {
      g = load_float(element(p.gate, p.y, i), p.gate.dtype, 0);
      u = load_float(element(p.up, p.y, i), p.up.dtype, 0);
    } else {
      const i64 step = p.gate.strides[p.gate.rank - 1];
      View rows = p.y;  // element (row, c) of y reads elements c and n + c of gate's row
      const i64 row = i / n, c = i % n;
      char* base = at<char>(p.gate.data);
      i64 r = row;
      for (int d = p.gate.rank - 2; d >= 0; --d) {
        base += r % rows.dims[d] * p.gate.strides[d];
        r /= rows.dims[d];
      }
      g = load_float(base + (p.swapped ? n + c : c) * step, p.gate.dtype, 0);
      u = load_float(base + (p.swapped ? c : n + c) * step, p.gate.dtype, 0);
    }
    const bool limited = p.limit < INFINITY_F;
    if (limited) {
      g = g != g ? g : fminf(g, p.limit);
      u = u != u ? u : fminf(fmaxf(u, -p.limit), p.limit);
    }
    float f;
    if (p.kind == 0) f = limited ? g * sigmoid(p.alpha * g) : silu(g);
    else if (p.kind == 1) f = gelu(g, 0);
    else if (p.kind == 2) f = gelu(g, 1);
    else if (p.kind == 3) f = g != g ? g : fmaxf(g, 0.0f);
    else f = sigmoid(g);
    store_float(element(p.y, p.y, i), p.y.dtype, 0, f * (limited ? u + 1.0f : u));
  }
}

KERNEL(256) fill(const __grid_constant__ FillParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.count) {
    char* y = element(p.y, p.y, i);
    if (p.y.dtype == I32) *reinterpret_cast<int*>(y) = p.integer;
    else store_float(y, p.y.dtype, 0, p.value);
  }
}

/// Copies between views of one shape; elements of 1, 2, 4 or 8 bytes, told by the dtype.
KERNEL(256) copy_elements(const __grid_constant__ CopyParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.count) {
    const char* x = element(p.x, p.y, i);
    char* y = element(p.y, p.y, i);
    if (p.y.dtype == F16 || p.y.dtype == BF16) *reinterpret_cast<u16*>(y) = *reinterpret_cast<const u16*>(x);
    else if (p.y.dtype == I64) *reinterpret_cast<i64*>(y) = *reinterpret_cast<const i64*>(x);
    else if (p.y.dtype == U8) *y = *x;
    else *reinterpret_cast<u32*>(y) = *reinterpret_cast<const u32*>(x);
  }
}

/// `count` pieces of 2 bytes, packed.
KERNEL(256) copy_bytes(const __grid_constant__ CopyParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.count) at<u16>(p.y.data)[i] = at<const u16>(p.x.data)[i];
}
