// Parameters of sums over some dims of a tensor.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

enum SumKind { sum_plain = 0, sum_mean = 1, sum_norm = 2 };

/// y[kept] = sum over `reduced` of x. `inner` has the strides of x over `reduced`, and no data.
struct SumParams {
  Shape kept, reduced;
  Operand x, y, inner;
  int kind;
  int splits;     // of `reduced`; more than one: sums of them go to `parts`
  Address parts;  // f64 [splits][kept]
};
struct CountParams {
  Shape shape;
  Operand a, b;
  Address parts, count;  // i64 [blocks]; i64
};
struct SquaresOf {
  Address data;
  int dtype;
  long long count;
};
constexpr int most_squares = 64, squares_blocks = 64;
/// Sums of squares of packed tensors; and of one that is strided where `count` is 0.
struct SquaresParams {
  SquaresOf of[most_squares];
  int count;
  Shape shape;
  Operand x;
  Address parts;  // f64 [count][squares_blocks], then as many i32: whether all are finite
  long long first, slots;
};
struct NormTotalParams {
  Address parts, norm, finite;
  long long slots;
};

}  // namespace quern::cuda
