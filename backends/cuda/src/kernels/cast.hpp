// Parameters of casts from and to block formats: rows of both may lie anywhere, blocks of a row lie behind each other.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct BlockCastParams {
  Shape rows;
  Operand x, y;
  long long h;    // elements of a row
  Blocks blocks;  // how a block's pieces lie behind its start: planes are offsets
};

}  // namespace quern::cuda
