// Elementwise ops over any strides: one thread an element, or eight neighbours where every operand has them side by side; f32 arithmetic, one rounding at the store.
#include "elementwise.hpp"
#include "strided.cuh"

enum { ADD = 1, SUB = 2, MUL = 3, SCALE = 5, NEG = 6, SQR = 7, SQRT = 8, ABS = 9, CLAMP = 10 };

KERNEL(256) unary(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    float v[wide_step];
    load_step(p.x, p.shape, i, v);
    EACH_OF_STEP(e, p.shape) {
      const float x = v[e];
      switch (p.op) {
        case SCALE: v[e] = p.b == 0.0f ? p.a * x : fmaf(p.a, x, p.b); break;  // -0 is kept
        case NEG: v[e] = -x; break;
        case SQR: v[e] = x * x; break;
        case SQRT: v[e] = sqrtf(x); break;
        case ABS: v[e] = fabsf(x); break;
        case CLAMP: v[e] = x != x ? x : fminf(fmaxf(x, p.a), p.b); break;
        default: break;
      }
    }
    store_step(p.y, p.shape, i, v);
  }
}

KERNEL(256) binary(const __grid_constant__ BinaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    float a[wide_step], b[wide_step];
    load_step(p.a, p.shape, i, a);
    load_step(p.b, p.shape, i, b);
    EACH_OF_STEP(e, p.shape) a[e] = p.op == ADD ? fmaf(p.alpha, b[e], a[e]) : p.op == SUB ? a[e] - b[e] : p.op == MUL ? a[e] * b[e] : a[e] / b[e];
    store_step(p.y, p.shape, i, a);
  }
}

KERNEL(256) fill(const __grid_constant__ FillParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    char* y = place(p.y, p.shape, i);
    if (p.y.dtype == I32) *reinterpret_cast<int*>(y) = p.integer;
    else store_float(y, p.y.dtype, 0, p.value);
  }
}

/// Floats to integers, to nearest even, and integers to floats.
KERNEL(256) cast_integers(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const char* x = place(p.x, p.shape, i);
    char* y = place(p.y, p.shape, i);
    if (p.y.dtype == I32) *reinterpret_cast<int*>(y) = p.x.dtype == I32 ? *reinterpret_cast<const int*>(x) : __float2int_rn(load_float(x, p.x.dtype, 0));
    else store_float(y, p.y.dtype, 0, (float)*reinterpret_cast<const int*>(x));
  }
}

template <class T> DEV void copy_as(const char* x, char* y) { *reinterpret_cast<T*>(y) = *reinterpret_cast<const T*>(x); }

/// The same bytes under other strides.
KERNEL(256) copy_elements(const __grid_constant__ CopyParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    if (p.live.data && !is_live(p.live, i / p.elements_a_row)) continue;
    const char* x = place(p.x, p.shape, i);
    char* y = place(p.y, p.shape, i);
    if (p.bytes == 4) copy_as<u32>(x, y);
    else if (p.bytes == 2) copy_as<u16>(x, y);
    else if (p.bytes == 16) copy_as<uint4>(x, y);
    else if (p.bytes == 8) copy_as<u64>(x, y);
    else *y = *x;
  }
}
