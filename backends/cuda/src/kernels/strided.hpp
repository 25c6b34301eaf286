// How kernels walk over strided tensors: the dims that operands share, and where element i of them lies in each operand.
#pragma once
#include "params.hpp"

namespace quern::cuda {

constexpr int most_walk_dims = 12;  // of repeats: each dimension of a tensor may be two

constexpr int wide_step = 8;  // elements of a step of a wide walk

/// The dims of a walk; neighbours that lie behind each other in every operand are one. A step is an element, or where `wide` so many neighbours.
struct Shape {
  long long count;
  int rank;
  long long dims[most_walk_dims];
  int wide;
};

/// A tensor in a walk: byte strides over the walk's dims, 0 where it repeats. Of a walk over rows: `step` bytes from element to element
/// of a row.
struct Operand {
  Address data;  // 0: absent
  int dtype;
  long long step;
  long long strides[most_walk_dims];
};

/// A predicate: 0, or numbers of which one that is 0 says that nothing is written. `count` 1: for all rows.
struct Live {
  Address data;
  long long count;
};

}  // namespace quern::cuda
