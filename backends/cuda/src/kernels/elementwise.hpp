// Parameters of kernels that take one element of each operand.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct UnaryParams {
  Shape shape;
  Operand x, y;
  int op;
  float a, b;
};
struct BinaryParams {
  Shape shape;
  Operand a, b, y;
  int op;
  float alpha;
};
struct ActivationBackwardParams {
  Shape shape;
  Operand x, dy, dx;
  int op, kind;
};
struct GluParams {
  Shape shape;
  Operand gate, up, y;
  int kind;
  float alpha, limit;
};
struct GluBackwardParams {
  Shape shape;
  Operand gate, up, dy, dgate, dup;
  int kind;
  float alpha, limit;
};
struct FillParams {
  Shape shape;
  Operand y;
  float value;
  int integer;
};
struct CopyParams {
  Shape shape;
  Operand x, y;
  int bytes;  // of an element: 1, 2, 4, 8 or 16
  Live live;
  long long elements_a_row;  // of the predicate's rows, in the order of the walk
};

}  // namespace quern::cuda
