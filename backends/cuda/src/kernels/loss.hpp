// Parameters of losses and their gradients.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct CrossEntropyParams {
  Shape rows;
  Operand logits, label, loss, lse;  // label i32
  Operand dloss, dlogits;            // of the gradient
  long long n, ignore;
  float smoothing, z_loss;
  Address faults;
};
struct MaskedMeanParams {
  Shape shape;
  Operand x, mask;
  Address parts;     // f64 [masked_blocks], then as many counts
  Address y, count;  // f32
};
constexpr int masked_blocks = 64;
struct MaskedMeanBackwardParams {
  Shape shape;
  Operand mask, dx;
  Address count, dy;
};

}  // namespace quern::cuda
