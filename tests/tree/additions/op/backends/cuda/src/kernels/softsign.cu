// y = x / (1 + |x|), one thread an element.
#include "elementwise.hpp"
#include "strided.cuh"

KERNEL(256) softsign(const __grid_constant__ UnaryParams p) {
  wait_for_inputs();
  FOR_EACH(i, p.shape.count) {
    const float x = load_place(p.x, p.shape, i), size = fabsf(x);
    store_place(p.y, p.shape, i, size > 1073741824.0f ? copysignf(1.0f, x) : x / (1.0f + size));
  }
}
