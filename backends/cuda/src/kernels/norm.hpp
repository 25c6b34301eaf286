// Parameters of norms and their gradients.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

enum NormKind { norm_rms = 0, norm_layer = 1, norm_l2 = 2 };

struct NormParams {
  Shape rows;
  Operand x, b, sum, y;  // b, sum: of add_rms_norm; absent else
  Address weight, bias;  // f32 [h] or 0
  int kind;
  long long h;
  float epsilon, offset;
};
/// What the gradient needs of a row, f32: the mean of x, 1 / root, the mean of g (x - mean), the mean of g; of l2 sums in place of means.
struct NormBackwardParams {
  Shape rows;
  Operand x, dy, dx;
  Address weight, dweight, dbias;  // f32 [h] or 0
  Address stats;                   // f32 [rows][4] or 0: where nothing is summed over rows
  Address parts;                   // f64 [splits][2][h]
  int kind, accumulate, splits;
  int first_pass;  // statistics alone
  long long h;
  float epsilon, offset;
  Live live;
  long long rows_a_live;  // rows of one number of the predicate
};

}  // namespace quern::cuda
