// Elementwise ops over any strides: one thread an element, f32 arithmetic, one rounding at the store.
#include "elementwise.hpp"
#include "strided.cuh"

enum { ADD = 1, SUB = 2, MUL = 3, SCALE = 5, NEG = 6, SQR = 7, SQRT = 8, ABS = 9, CLAMP = 10 };

KERNEL(256) unary(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const float x = load_place(p.x, p.shape, i);
    float y = x;
    switch (p.op) {
      case SCALE: y = p.b == 0.0f ? p.a * x : fmaf(p.a, x, p.b); break;  // -0 is kept
      case NEG: y = -x; break;
      case SQR: y = x * x; break;
      case SQRT: y = sqrtf(x); break;
      case ABS: y = fabsf(x); break;
      case CLAMP: y = x != x ? x : fminf(fmaxf(x, p.a), p.b); break;
      default: break;
    }
    store_place(p.y, p.shape, i, y);
  }
}

KERNEL(256) binary(const __grid_constant__ BinaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const float a = load_place(p.a, p.shape, i), b = load_place(p.b, p.shape, i);
    store_place(p.y, p.shape, i, p.op == ADD ? fmaf(p.alpha, b, a) : p.op == SUB ? a - b : p.op == MUL ? a * b : a / b);
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
